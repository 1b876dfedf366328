"""`poolwise select` and `poolwise methods`: from predictions to a batch."""

import csv
import io
import json
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from poolwise import __version__, cluster
from poolwise.cli.app import app
from poolwise.cli.engines import AddressOption, EngineOption, working
from poolwise.cli.progress import bar
from poolwise.errors import FileError, ParameterError, PrefilterWarning, SaturationWarning
from poolwise.predictions import Kind, Layout, Predictions
from poolwise.selection import registry
from poolwise.selection.batch import Batch
from poolwise.selection.select import select as run_selection
from poolwise.storage import replacing


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
    method: Annotated[str, typer.Option(help="How to select; see `poolwise methods`.")] = registry.DEFAULT,
    batch_size: Annotated[int, typer.Option("--batch-size", "-b", help="How many examples to choose.")] = 100,
    kind: Annotated[
        Kind | None, typer.Option(help="What a file holds, log-probs by default; a folder says it itself.")
    ] = None,
    layout: Annotated[
        Layout | None,
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
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="A parameter of the method, as in alpha=5; repeatable.")
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            help='Choose from a part of the pool only: a random share ("10%") or number, or, with a report of what it '
            'could cost, "top:100000" (the largest bounds) or "sample:100000".'
        ),
    ] = None,
    ids: Annotated[
        Path | None, typer.Option(help="A text file with one name a pool point, to show beside each pick.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Root of all randomness; the same seed gives the same batch.")] = 0,
    memory: Annotated[str, typer.Option(help="Working memory beside the predictions; changes no result.")] = "1GB",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the batch here, as .csv or .json; else to the screen.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Keep the picks in this folder as they are made; after a crash, the same command goes on."),
    ] = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Choose the examples to label next.

    Reads the predictions of K posterior samples (ensemble members, dropout masks) and writes the positions of the
    chosen examples in the order of choice, each with its gain.

    Example: `poolwise select preds.npy --batch-size 50 -o batch.csv`
    """
    if output is not None and output.suffix not in (".csv", ".json"):
        raise ParameterError(f"the output must end in .csv or .json, not {output.name!r}.")
    if output is not None and not output.parent.is_dir():
        raise FileError(f"{output.parent}: no such folder to write the batch to. Make it first.")
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
    names = _read_ids(ids, len(pool)) if ids is not None else None
    with working(engine, address), bar(quiet) as report, warnings.catch_warnings(record=True) as caught:
        if engine == "ray":
            pool = cluster.spread(pool)
        warnings.simplefilter("always", SaturationWarning)
        warnings.simplefilter("ignore", PrefilterWarning)  # the summary says it
        batch = run_selection(
            pool,
            batch_size,
            method,
            seed=seed,
            memory=memory,
            candidates=int(candidates) if candidates is not None and candidates.isdecimal() else candidates,
            resume=resume,
            report=report,
            **parameters,
        )
    if not quiet:
        for warning in caught:
            print(f"poolwise: warning: {warning.message}", file=sys.stderr)
    as_json = output is not None and output.suffix == ".json"
    text = _as_json(batch, names, seed, parameters) if as_json else _as_csv(batch, names)
    if output is None:
        print(text, end="")
    else:
        with replacing(output) as file:
            file.write(text.encode())
    if not quiet:
        print(f"{method}: chose {len(batch):,} of {len(pool):,}. {batch.diagnostics}", file=sys.stderr)
        if output is not None:
            print(f"written to {output}", file=sys.stderr)


@app.command()
def methods(name: Annotated[str | None, typer.Argument(help="Show everything about one method.")] = None) -> None:
    """List the selection methods, or show everything about one."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    if name is None:
        table = Table("method", "what it is", "needs", "parameters", box=None, pad_edge=False, header_style="bold")
        for method in registry.methods().values():
            needs, parameters = ", ".join(method.needs), ", ".join(method.parameters)
            table.add_row(method.name, method.summary, needs or "-", parameters or "-")
        console.print(table)
        console.print("\nMore on one of them: poolwise methods NAME")
        return
    found = registry.find(name)
    lines = [("what it is", found.summary), ("formula", found.formula), ("needs", ", ".join(found.needs) or "nothing")]
    lines += [("randomness", "the seed decides" if found.stochastic else "none"), ("paper", found.paper)]
    table = Table(box=None, pad_edge=False, show_header=False)
    for label, text in lines:
        table.add_row(label, text, style=None)
    for parameter in found.parameters.values():
        options = f" ({', '.join(str(choice) for choice in parameter.choices)})" if parameter.choices else ""
        default = "" if parameter.default is None else f" Default: {parameter.default}."
        table.add_row(f"--param {parameter.name}", f"{parameter.help}{options}{default}")
    console.print(found.name, style="bold")
    console.print(table, markup=False)


def _parse_parameters(method: str, assignments: list[str]) -> dict[str, Any]:
    """Parameters from texts such as `alpha=5`."""
    found = registry.find(method)
    parameters: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise ParameterError(f"--param takes NAME=VALUE, as in --param alpha=5, not {assignment!r}.")
        if name not in found.parameters:
            known = ", ".join(found.parameters) or "none"
            raise ParameterError(f"{method} has no parameter {name!r}; its parameters: {known}.")
        parameters[name] = found.parameters[name].parse(text.strip(), method)
    return parameters


def _read_ids(path: Path, N: int) -> list[str]:
    try:
        names = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot read the names ({error}).") from error
    if len(names) != N:
        raise FileError(f"{path}: has {len(names)} lines, but the pool has {N} points. One name a point is needed.")
    return names


def _rows(batch: Batch, names: list[str] | None) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for order, (index, score) in enumerate(zip(batch.indices.tolist(), batch.scores.tolist(), strict=True)):
        row: dict[str, object] = {"order": order, "index": index}
        if names is not None:
            row["id"] = names[index]
        rows.append({**row, "score": score})
    return rows


def _as_csv(batch: Batch, names: list[str] | None) -> str:
    text = io.StringIO()
    rows = _rows(batch, names)
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _as_json(batch: Batch, names: list[str] | None, seed: int, parameters: dict[str, object]) -> str:
    content = {
        "poolwise": __version__,
        "method": batch.method,
        "seed": seed,
        "parameters": parameters,
        "picks": _rows(batch, names),
        "diagnostics": batch.diagnostics.as_dict(),
    }
    return json.dumps(content, indent=1, allow_nan=False, default=lambda value: np.asarray(value).tolist()) + "\n"
