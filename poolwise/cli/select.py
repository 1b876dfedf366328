"""`poolwise select` and `poolwise methods`: from predictions to a batch."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poolwise.cli.app import app, showing_warnings
from poolwise.cli.engines import AddressOption, EngineOption, working
from poolwise.cli.lists import By, read_excluded, read_ids, read_labels
from poolwise.cli.progress import bar
from poolwise.errors import FileError, ParameterError
from poolwise.predictions.forms import PredictionKind, PredictionLayout

if TYPE_CHECKING:
    from poolwise.selection.batch import Batch


@app.command()
def select(
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="PREDS",
            help="Predictions [N, K, C]: a folder of `poolwise predict` or a .npy file (read in place), a .parquet, "
            ".arrow, .npz or .pt file.",
        ),
    ],
    method: Annotated[
        str | None, typer.Option(help="How to select; posterior-coverage by default. See `poolwise methods`.")
    ] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", "-b", help="How many examples to choose.")] = 100,
    kind: Annotated[
        PredictionKind | None, typer.Option(help="What the numbers are; by default log-probs, or what a folder says.")
    ] = None,
    layout: Annotated[
        PredictionLayout | None,
        typer.Option(help="Order of its axes, NKC by default: N points, K posterior samples, C classes."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Which array or column of a file with several.")] = None,
    samples: Annotated[
        int | None, typer.Option(help="K, where the K · C numbers of a point are one flat list.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare a folder with its checksums first.")] = False,
    embeddings: Annotated[Path | None, typer.Option(help="Features [N, D] of the pool: .npy, .npz or .pt.")] = None,
    labelled_embeddings: Annotated[
        Path | None, typer.Option(help="Features [L, D] of the examples that are labelled already.")
    ] = None,
    labelled_predictions: Annotated[
        Path | None,
        typer.Option(help="Predictions [L, K, C] of those examples, of the same kind and layout as PREDS."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[:COLUMN]",
            help="Their labels as numbers from 0, one per row of a .npy, .csv, .txt or .parquet file.",
        ),
    ] = None,
    held_out_predictions: Annotated[
        Path | None,
        typer.Option(help="Predictions [H, K, C] of labelled examples by a model that was trained without them."),
    ] = None,
    held_out_labels: Annotated[
        str | None, typer.Option(metavar="FILE[:COLUMN]", help="The labels of those examples, in the form of --labels.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", "-p", metavar="NAME=VALUE", help="A parameter of the method, as in alpha=5; repeatable."
        ),
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            help='Choose from a part of the pool only: a random share ("10%") or number, or, with a report of what it '
            'could cost, "top:100000" (the largest bounds) or "sample:100000".'
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE[:COLUMN]",
            help="Examples not to choose, such as those that are labelled already: their positions or ids, in a .csv, "
            ".parquet, .txt, .npy or .json file; repeatable. A batch that this command wrote can be given unchanged.",
        ),
    ] = None,
    exclude_by: Annotated[
        By | None, typer.Option(help="What the files of --exclude contain, if that is not clear: index or id.")
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[:COLUMN]",
            help="Names of the examples, to show beside each pick: one per line of a .txt file, or a column of a .csv "
            "or .parquet file. A folder of `poolwise predict` has them already.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same batch.")] = 0,
    memory: Annotated[str, typer.Option(help="Working memory beside the predictions; changes no result.")] = "1GB",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write the batch to this .csv, .json or .parquet file; printed by default."
        ),
    ] = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no warning, no summary.")] = False,
) -> None:
    """Choose the examples to label next.

    Reads the predictions of K posterior samples (ensemble members, dropout masks) and writes the positions of the
    chosen examples in the order of choice, each with its gain. The first position is 0.

    Examples; the first line makes a file of random predictions to try them on:

    \b
      python -c "import numpy as np; np.save('preds.npy', np.log(np.random.dirichlet([1] * 10, (500, 20))))"
      poolwise select preds.npy --batch-size 50 -o batch.csv
      poolwise select preds.npy --batch-size 50 --exclude batch.csv -o next.csv
    """
    from poolwise import cluster
    from poolwise.predictions import Predictions
    from poolwise.selection import registry
    from poolwise.selection.display import as_csv, check_ending, save
    from poolwise.selection.select import select as run_selection

    if output is not None:
        check_ending(output)
        if not output.parent.is_dir():
            raise FileError(f"{output.parent}: no such folder to write the batch to. Make it first.")
    if exclude_by is not None and not exclude:
        raise ParameterError("--exclude-by says what the files of --exclude list: give --exclude as well.")
    method = method or registry.DEFAULT
    with showing_warnings(quiet), working(engine, address), bar(quiet) as report:
        parameters = _parse_parameters(method, param or [])
        pool = Predictions.open(
            predictions,
            kind=kind,
            layout=layout,
            key=key,
            samples=samples,
            verify=verify,
            embeddings=embeddings,
            labelled_embeddings=labelled_embeddings,
            validate=False,
        )
        known: dict[str, Any] = {}
        for name, path in (
            ("labelled_predictions", labelled_predictions),
            ("held_out_predictions", held_out_predictions),
        ):
            if path is not None:
                form: dict[str, Any] = {} if path.is_dir() else {"kind": kind, "layout": layout or "NKC", "key": key}
                known[name] = Predictions.open(path, samples=samples, **form)
        if labels is not None:
            known["labels"] = read_labels(labels)
        if held_out_labels is not None:
            known["held_out_labels"] = read_labels(held_out_labels, "--held-out-labels")
        if ids is not None:
            pool = pool.with_ids(read_ids(ids, len(pool)))
        left_out = read_excluded(exclude, exclude_by, pool.ids, len(pool)) if exclude else None
        if engine == "ray":
            pool = cluster.spread(pool)
        batch = run_selection(
            pool,
            batch_size,
            method,
            seed=seed,
            memory=memory,
            candidates=_as_candidates(candidates),
            exclude=left_out,
            report=report,
            **known,
            **parameters,
        )
    if output is None:
        print(as_csv(batch), end="")
    else:
        save(batch, output, seed=seed, parameters=parameters)
    if not quiet:
        _summarise(batch, len(pool), 0 if left_out is None else len(left_out), output)


def _summarise(batch: "Batch", N: int, left_out: int, output: Path | None) -> None:
    without = f", {left_out:,} of them excluded" if left_out else ""
    print(f"{batch.method}: chose {len(batch):,} of {N:,}{without}. {batch.diagnostics}", file=sys.stderr)
    if output is not None:
        print(f"written to {output}", file=sys.stderr)


def _as_candidates(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 100 else text


@app.command()
def methods(name: Annotated[str | None, typer.Argument(help="Show everything about one method.")] = None) -> None:
    """List the selection methods, or show everything about one.

    Examples:

    \b
      poolwise methods
      poolwise methods power-lbb
    """
    with showing_warnings(quiet=False):
        if name is None:
            _list_methods()
        else:
            _describe_method(name)


def _list_methods() -> None:
    """All methods, without importing PyTorch unless installed packages offer some."""
    from poolwise.cli.columns import show_columns
    from poolwise.selection.catalogue import listing

    rows = [("method", "needs", "what it is", "parameters")]
    for entry in listing().values():
        rows.append((entry.name, _short_needs(entry.needs), entry.summary, ", ".join(entry.parameters) or "-"))
    show_columns(rows, 2)
    print("\nMore on one of them: poolwise methods NAME")


def _short_needs(needs: tuple[str, ...]) -> str:
    """What a method needs whatever its parameters are, in few words."""
    always = [need for need in needs if " if " not in need]
    pool = [need for need in always if need in ("predictions", "embeddings")]
    return ", ".join([*pool, "labelled"] if len(always) > len(pool) else pool) or "-"


def _describe_method(name: str) -> None:
    """Everything about one method."""
    from poolwise.cli.columns import show_columns
    from poolwise.selection import registry

    found = registry.find(name)
    rows = [("what it is", found.summary), ("formula", found.formula), ("needs", ", ".join(found.needs) or "nothing")]
    if any(need.startswith("embeddings") for need in found.needs):
        kinds = {"network": "those of the trained network", "fixed": "fixed features of the data"}
        rows.append(("embeddings", f"{kinds[found.features]}, unless a learner is told otherwise"))
    rows += [("randomness", "the seed decides" if found.stochastic else "none"), ("paper", found.paper)]
    for parameter in found.parameters.values():
        options = f" ({', '.join(str(choice) for choice in parameter.choices)})" if parameter.choices else ""
        default = "" if parameter.default is None else f" Default: {parameter.default}."
        default = " It must be given." if parameter.required else default
        rows.append((f"--param {parameter.name}", f"{parameter.help}{options}{default}".strip()))
    print(found.name)
    show_columns([row for row in rows if row[1]], 1)


def _parse_parameters(method: str, assignments: list[str]) -> dict[str, Any]:
    """Parameters of a method from texts such as `alpha=5`."""
    from poolwise.selection import registry

    found = registry.find(method)
    parameters: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise ParameterError(f"--param takes NAME=VALUE, as in --param alpha=5, not {assignment!r}.")
        parameter = found.parameter(name)
        parameters[parameter.name] = parameter.parse(text.strip(), method)
    return parameters
