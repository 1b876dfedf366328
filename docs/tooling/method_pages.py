"""One page per selection method, made from the registry; `methods.toml` adds when to use it."""

import tomllib
from pathlib import Path
from typing import Any

import poolwise as pw

_SETUP = """\
import numpy as np

import poolwise as pw

rng = np.random.default_rng(0)
logits = 3 * rng.normal(size=(500, 1, 4)) + rng.normal(size=(500, 10, 4))  # 500 points, 10 samples, 4 classes
"""


def notes() -> dict[str, dict[str, str]]:
    """When to use each method, and an example of its parameters."""
    with (Path(__file__).parent / "methods.toml").open("rb") as file:
        return tomllib.load(file)


def example(name: str) -> str:
    """A call of the method, on predictions that it makes itself."""
    needs, extra = pw.methods()[name].needs, notes()[name].get("parameters", "")
    lines = [_SETUP]
    if "embeddings" in needs:
        lines.append("embeddings = rng.normal(size=(500, 16))  # one row of features per point")
        lines.append("predictions = pw.Predictions.from_logits(logits, embeddings=embeddings)")
    else:
        lines.append("predictions = pw.Predictions.from_logits(logits)")
    lines.append(f'batch = pw.select(predictions, 20, "{name}"{", " + extra if extra else ""}, seed=0)')
    lines.append("print(batch.indices)")
    return "\n".join(lines)


def command(name: str) -> str:
    """The same from the command line."""
    embeddings = " --embeddings features.npy" if "embeddings" in pw.methods()[name].needs else ""
    return f"poolwise select preds.npy --method {name}{embeddings} --batch-size 20 -o batch.csv"


def page(name: str) -> str:
    """The page of one method, as Markdown."""
    method, note = pw.methods()[name], notes()[name]
    facts = {
        "Needs": ", ".join(method.needs) or "nothing",
        "Randomness": "the seed decides" if method.stochastic else "none: the same input gives the same batch",
        "Paper": _escape(method.paper),
    }
    lines = [f"# {name}", "", _escape(method.summary), "", "```text", method.formula, "```", ""]
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
    lines += ["and `memory`: see [`select`](../reference/poolwise.md#poolwise.select).", ""]
    lines += ["## Example", "", "```python", example(name), "```", "", "```sh", command(name), "```", ""]
    return "\n".join(lines)


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


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
