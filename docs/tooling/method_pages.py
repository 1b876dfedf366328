"""One page per selection method, made from the registry; `methods.toml` adds when to use it."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import poolwise as pw

_SETUP = """\
import numpy as np

import poolwise as pw

rng = np.random.default_rng(0)
logits = 3 * rng.normal(size=(500, 1, 4)) + rng.normal(size=(500, 10, 4))  # [N, K, C]
"""

# What the example knows of 30 labelled points, and the files of it on the command line.
_LABELLED = {
    "labelled_embeddings": "rng.normal(size=(30, 16))  # the same features of 30 labelled points",
    "labelled_predictions": "pw.Predictions.from_logits(rng.normal(size=(30, 10, 4)))  # and their predictions",
    "labels": "rng.integers(0, 4, 30)  # and their classes",
    "held_out_predictions": "pw.Predictions.from_logits(rng.normal(size=(6, 10, 4)))  # of labels held out",
    "held_out_labels": "rng.integers(0, 4, 6)  # and their classes",
}
_FLAGS = {
    "embeddings": " --embeddings features.npy",
    "labelled_embeddings": " --labelled-embeddings labelled-features.npy",
    "labelled_predictions": " --labelled-predictions labelled-preds.npy",
    "labels": " --labels labels.csv",
    "held_out_predictions": " --held-out-predictions held-out-preds.npy",
    "held_out_labels": " --held-out-labels held-out.csv",
}


def notes() -> dict[str, dict[str, str]]:
    """When to use each method, and an example of its parameters."""
    with (Path(__file__).parent / "methods.toml").open("rb") as file:
        return tomllib.load(file)


def example(name: str) -> str:
    """A call of the method, on predictions that it makes itself."""
    needs, extra = needed(name), notes()[name].get("parameters", "")
    lines = [_SETUP]
    if "embeddings" in needs:
        lines.append("embeddings = rng.normal(size=(500, 16))  # one row of features per point")
        lines.append("predictions = pw.Predictions.from_logits(logits, embeddings=embeddings)")
    else:
        lines.append("predictions = pw.Predictions.from_logits(logits)")
    labelled = [need for need in _LABELLED if need in needs]
    lines += [f"{need} = {_LABELLED[need]}" for need in labelled]
    given = "".join(f", {need}={need}" for need in labelled) + (f", {extra}" if extra else "")
    lines.append(f'batch = pw.select(predictions, 20, "{name}"{given}, seed=0)')
    lines.append("print(batch.indices)")
    return "\n".join(lines)


def needed(name: str) -> set[str]:
    """What the method needs in its example: with the parameters that the example gives, and its defaults."""
    extra = notes()[name].get("parameters", "")
    given = {word.arg: ast.literal_eval(word.value) for word in ast.parse(f"f({extra})", mode="eval").body.keywords}
    return pw.methods()[name].inputs(given)


def command(name: str) -> str:
    """The same from the command line."""
    needs = pw.methods()[name].inputs({})
    files = "".join(flag for need, flag in _FLAGS.items() if need in needs)
    return f"poolwise select preds.npy --method {name}{files} --batch-size 20 -o batch.csv"


def page(name: str) -> str:
    """The page of one method, as Markdown."""
    method, note = pw.methods()[name], notes()[name]
    facts = {
        "Needs": ", ".join(method.needs) or "nothing",
        **_embeddings(method),
        "Randomness": "the seed decides" if method.stochastic else "none: the same input gives the same batch",
        "Paper": _escape(method.paper),
    }
    lines = [f"# {name}", "", _escape(method.summary), "", "```text", *_parts(method.formula), "```", ""]
    lines += [*(f"- **{key}:** {value}" for key, value in facts.items()), ""]
    lines += ["## When to use it", "", note["when"].strip(), "", "## Parameters", ""]
    if method.parameters:
        lines += ["| name | default | what it does |", "| --- | --- | --- |"]
        lines += [
            f"| `{p.name}` | `{p.default!r}` | {_escape(p.help)}{_choices(p)} |" for p in method.parameters.values()
        ]
    else:
        lines.append("None of its own.")
    lines += ["", "`pw.select` takes further arguments that are the same for all methods, such as `seed`, `candidates`"]
    lines += ["and `memory`: see [`select`](../reference/poolwise.select-function.md).", ""]
    lines += ["## Example", "", "```python", example(name), "```", "", "```sh", command(name), "```", ""]
    return "\n".join(lines)


def _embeddings(method: pw.Method) -> dict[str, str]:
    """Which embeddings a learner gives to the method, where it needs some."""
    if not any(need.startswith("embeddings") for need in method.needs):
        return {}
    kinds = {"network": "those of the trained network", "fixed": "fixed features of the data"}
    link = "[Features and the first batch](../howto/features.md)"
    return {"Embeddings": f"{kinds[method.features]}, unless you choose others: see {link}"}


def index() -> str:
    """The list of all methods."""
    lines = ["# All methods", "", "Made from the registry, as `poolwise methods` lists them. [Choose a method]"]
    lines[-1] += "(../guide.md) says which one to take when."
    lines += ["", "| name | what it is | needs |", "| --- | --- | --- |"]
    for name, method in pw.methods().items():
        needs = ", ".join(method.needs) or "–"
        lines.append(f"| [`{name}`]({name}.md) | {_escape(method.summary)} | {needs} |")
    return "\n".join([*lines, ""])


def _choices(parameter: Any) -> str:
    return " One of " + ", ".join(f"`{choice!r}`" for choice in parameter.choices) + "." if parameter.choices else ""


def _parts(formula: str) -> list[str]:
    """The parts of a formula, divided at semicolons; not at those of `I(y; θ)`."""
    return re.split(r"; (?![^()]*\))", formula)


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
