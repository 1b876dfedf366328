"""`poolwise next`, `add`, `status`, `export` and `apply`: label in a spreadsheet, and learn from it."""

import getpass
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poolwise.cli.app import app, showing_warnings
from poolwise.cli.progress import bar, resumable
from poolwise.errors import FileError, MissingInputError, ParameterError, StateError

if TYPE_CHECKING:
    from poolwise.labelling.project import Project
    from poolwise.labelling.results import Batch

DataArgument = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A folder of images; a table of texts (.csv, .tsv, .jsonl, .parquet); or features (.npy) with the table "
        "or folder that they were made from beside them.",
    ),
]
ProjectArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[DATA]", help="The data, or the folder of its project; found if there is only one here."),
]
ProjectOption = Annotated[
    Path | None,
    typer.Option("--project", help="The folder of the project; by default beside the data, DATA.poolwise."),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="POOLWISE_DATABASE",
        help="Keep labels in PostgreSQL, postgresql://user@host/name, instead of a file of the project.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODULE:FUNCTION",
        help="Your own model: a function of the examples and the class names that returns a posterior.",
    ),
]
TextOption = Annotated[str | None, typer.Option("--text", help="The column of texts; found if it is not named.")]
IdOption = Annotated[
    str | None, typer.Option("--id", help="The column of ids; found if it is not named, else the row, from 0.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no warning, no summary.")]


@app.command("next")
def next_batch(
    data: DataArgument,
    count: Annotated[int | None, typer.Option("--count", "-n", help="How many items; 50 by default.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write them here, as .csv, .jsonl or .parquet, or as .json for Label Studio; else to the screen.",
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(help="The classes, as in cat,dog,bird; or a file with one class per line. More can follow later."),
    ] = None,
    text: TextOption = None,
    id: IdOption = None,
    originals: Annotated[
        Path | None, typer.Option(help="What features were made from, in the same order: a folder or a table.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="What turns texts into numbers: minilm (better, and slower: each text is encoded once), tfidf "
            "(seconds), or a checkpoint; images: efficientnet (pretrained on ImageNet) or patches. By default minilm "
            "and efficientnet, if they are installed."
        ),
    ] = None,
    method: Annotated[str | None, typer.Option(help="How to select; see `poolwise methods`.")] = None,
    model: ModelOption = None,
    held_out: Annotated[
        float | None,
        typer.Option(help="The share of a batch that is drawn at random to measure the model; 0.2 by default."),
    ] = None,
    separator: Annotated[str | None, typer.Option(help="The character between the fields of a CSV file.")] = None,
    encoding: Annotated[str | None, typer.Option(help="How a text file is encoded; UTF-8 by default.")] = None,
    excel: Annotated[
        bool, typer.Option("--excel", help="Begin the CSV with the mark by which Excel knows it.")
    ] = False,
    project: ProjectOption = None,
    database: DatabaseOption = None,
    seed: Annotated[int | None, typer.Option(help="Root of all randomness; 0 by default.")] = None,
    quiet: QuietOption = False,
) -> None:
    """Write what to label next: id, text or file, score, why, and an empty column for the label.

    Fill in the column `label` and hand the file to `poolwise add`. Then ask again: a model learns from all labels and
    chooses what helps it most. Asked twice without labels in between, the batch is the same. The first time, a project
    is made beside the data (DATA.poolwise); everything is kept there, and it can be copied at any time.

    One in five items is drawn at random and never trained on. `poolwise status` shows how many of those the model gets
    right.

    Examples:

    \b
      poolwise next texts.csv -n 50 -o batch.csv --classes good,bad
      poolwise add batch.csv                          (after you filled in its column `label`)
      poolwise next texts.csv -n 50 -o batch.csv
      poolwise apply texts.csv -o predictions.csv
    """
    from poolwise.labelling.tables import WRITTEN, check_ending

    if output is not None:
        check_ending(output, (*WRITTEN, ".json"))
    settings: dict[str, Any] = {
        "text": text, "id": id, "originals": originals, "encoder": encoder, "method": method, "held_out": held_out,
        "separator": separator, "encoding": encoding, "seed": seed,
    }  # fmt: skip
    with showing_warnings(quiet), resumable(), bar(quiet) as report:
        opened = _open(data, project, database, model, classes=read_classes(classes), create=True, **settings)
        with opened:
            if output is not None:
                _keep_labels(output, opened)
            if not quiet:
                _say_data(opened)
            batch = opened.next(count, report=report)
            config = _write_batch(batch, opened, output, excel)
            if not quiet:
                _say_batch(batch, opened, output, config)


@app.command()
def add(
    labels: Annotated[
        Path,
        typer.Argument(
            metavar="LABELS",
            help="A .csv, .tsv, .jsonl or .parquet file with ids and labels; or the .json that Label Studio exports.",
        ),
    ],
    data: ProjectArgument = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace earlier labels that differ.")] = False,
    new_classes: Annotated[bool, typer.Option("--new-classes", help="Add the classes that are not known yet.")] = False,
    id: Annotated[str | None, typer.Option("--id", help="The column of ids; `id` by default.")] = None,
    label: Annotated[str | None, typer.Option("--label", help="The column of labels; `label` by default.")] = None,
    person: Annotated[str | None, typer.Option(help="Who labelled; you by default.")] = None,
    encoding: Annotated[str | None, typer.Option(help="How the file is encoded; UTF-8 by default.")] = None,
    project: ProjectOption = None,
    database: DatabaseOption = None,
    quiet: QuietOption = False,
) -> None:
    """Take labels from a file, by id: all of them or, if something is wrong, none.

    Rows without a label are skipped. Ids that are not in the data, classes that the project does not have, and labels
    that differ from earlier ones are refused, each with a message. The file may come from Excel, with semicolons.

    Examples:

    \b
      poolwise add batch.csv
      poolwise add old-labels.csv texts.csv --id number --label topic --new-classes
    """
    with showing_warnings(quiet):
        place = _find(data, project, labels)
        with _open(place, project, database, None, any_model=True) as opened:
            added = opened.add(
                labels, replace=replace, new_classes=new_classes, person=person if person is not None else _user(),
                id=id, label=label, encoding=encoding,
            )  # fmt: skip
            if not quiet:
                _say_changes(opened)
                status = opened.status()
                print(f"{added}.")
                print(f"{status.labelled:,} of {status.items:,} items have a label.")


@app.command()
def status(
    data: ProjectArgument = None,
    project: ProjectOption = None,
    database: DatabaseOption = None,
) -> None:
    """Show where things stand: labels by class, the batch, and how good the model is.

    Example:

    \b
      poolwise status texts.csv
    """
    with showing_warnings(quiet=False):
        place = _find(data, project, None)
        with _open(place, project, database, None, any_model=True) as opened:
            _say_changes(opened)
            print(f"project {opened.folder}")
            for line in opened.status().lines():
                print(line)


@app.command()
def export(
    output: Annotated[
        Path,
        typer.Argument(
            metavar="OUTPUT",
            help="labels.csv, .jsonl or .parquet for a table; folders/ for one folder per class; label-studio.json for "
            "tasks of Label Studio; .db for a copy of the store.",
        ),
    ],
    data: ProjectArgument = None,
    project: ProjectOption = None,
    database: DatabaseOption = None,
    quiet: QuietOption = False,
) -> None:
    """Write the labels for other programs.

    Texts that a spreadsheet would run as formulas get an apostrophe in front, which `poolwise add` takes away again.

    Examples:

    \b
      poolwise export labels.csv
      poolwise export by-class/ photos
    """
    with showing_warnings(quiet):
        place = _find(data, project, output)
        with _open(place, project, database, None, any_model=True) as opened:
            if output.suffix.lower() == ".db":
                opened.store.backup(output)
                count = opened.status().labelled
            else:
                count = opened.export(output)
            if not quiet:
                print(f"{count:,} labels written to {output}")


@app.command()
def apply(
    data: DataArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write the predictions here: .csv, .jsonl or .parquet.")
    ],
    text: TextOption = None,
    id: IdOption = None,
    model: ModelOption = None,
    project: ProjectOption = None,
    database: DatabaseOption = None,
    quiet: QuietOption = False,
) -> None:
    """Predict everything with a model that knows all labels, and say how uncertain it is.

    Writes for each item: id, prediction, its probability, uncertainty (0 is sure, 1 is a guess), how much the members
    of the model disagree, and the label that people gave. With --project, DATA may be other data of the same kind.

    Examples:

    \b
      poolwise apply texts.csv -o predictions.csv
      poolwise apply new.csv --project texts.csv.poolwise -o predictions.csv
    """
    from poolwise.labelling.tables import check_ending

    check_ending(output)
    place = project or data
    with showing_warnings(quiet), resumable(), _open(place, None, database, model) as opened, bar(quiet) as report:
        others = None
        if project is not None and not opened.is_data(data):
            from poolwise.labelling.items import open_items

            about = opened.description
            others = open_items(data, text=text or about.text, id=id)
            if others.kind != about.kind:
                raise ParameterError(f"{data}: is of kind {others.kind}, and the project of kind {about.kind}.")
        predicted = opened.apply(output, others, report=report)
        if not quiet:
            _say_changes(opened)
            measured = next(iter(opened.store.models(last=1)), None)
            _say(f"{len(predicted.ids):,} predictions written to {output}")
            if measured is not None:
                _say(f"Model: {measured.name}.")
            if measured is not None and measured.accuracy is not None:
                _say(_accuracy(measured))


def read_classes(given: str | None) -> list[str]:
    """Classes from `cat,dog,bird`, or from a file with one per line."""
    if given is None:
        return []
    path = Path(given)
    if path.is_file():
        from poolwise.data.formats.plain_text import read_text

        names = read_text(path).splitlines()
    else:
        names = given.split(",")
    found = [name.strip() for name in names if name.strip()]
    if not found:
        raise ParameterError(f"--classes takes names such as cat,dog,bird, or a file with one per line, not {given!r}.")
    return found


def _open(
    place: Path,
    project: Path | None,
    database: str | None,
    model: str | None,
    *,
    create: bool = False,
    any_model: bool = False,
    **settings: Any,
) -> "Project":
    try:
        from poolwise.labelling.project import Project
    except ImportError as error:
        raise MissingInputError(
            f"labelling needs packages that are not installed ({error}). Install them with: pip install "
            "'poolwise[label]'"
        ) from error
    return Project.open(
        place, project=project, database=database, model=model, create=create, any_model=any_model, **settings
    )


def _find(data: Path | None, project: Path | None, beside: Path | None) -> Path:
    """The project that is meant: the one named, or the only one in the folder of a file or in this folder."""
    if data is not None or project is not None:
        return data or project  # type: ignore[return-value]
    folders = list(dict.fromkeys((Path() if beside is None else beside.absolute().parent, Path().absolute())))
    for folder in folders:
        found = sorted(entry.parent for entry in folder.glob("*.poolwise/project.json"))
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(place.name for place in found)
            raise StateError(f"there are several projects in {folder}: {listed}. Name the data or one of them.")
    raise StateError(
        f"there is no project in {' or in '.join(map(str, folders))}. Name its data, or begin one with `poolwise next "
        "DATA`."
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return os.environ.get("USER", "")


def _keep_labels(output: Path, project: "Project") -> None:
    """Refuse to write over labels that somebody filled in and did not add yet."""
    from poolwise.labelling.tables import read_labels

    if not output.exists() or output.suffix.lower() == ".json":
        return
    try:
        labels = read_labels(output)
    except (FileError, ValueError):
        raise FileError(f"{output}: is there already, and is not a batch. Name another file with -o.") from None
    current = project.store.current()
    fresh = [name for name, label in labels.items() if label and (name not in current or not current[name].label)]
    if fresh:
        raise FileError(
            f"{output}: has {len(fresh):,} labels that were not added yet. Run `poolwise add {output}` first, or name "
            "another file with -o."
        )


def _write_batch(batch: "Batch", project: "Project", output: Path | None, excel: bool) -> str | None:
    """Write a batch; for Label Studio, the labelling configuration that it needs is returned."""
    from poolwise.labelling.tables import as_csv, write_table

    if output is not None and output.suffix.lower() == ".json":
        from poolwise.labelling.label_studio.files import write_batch

        uid, classes = project.description.uid, project.classes
        return write_batch(output, batch.items, project.items, uid, classes, project.predicted())

    kind = "text" if project.items.texts is not None else "file" if project.items.files is not None else "features"
    columns = ["id", kind, "score", "why", "label"]
    rows = [
        [item.id, item.content, None if item.score is None else round(item.score, 4), item.why, None]
        for item in batch.items
    ]
    if output is None:
        print(as_csv(columns, rows), end="")
    else:
        write_table(output, columns, rows, mark=excel)
    return None


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _say_data(project: "Project") -> None:
    if project.changes.first:
        _say(f"new project {project.folder}: {'; '.join(project.items.said)}.")
    _say_changes(project)


def _say_changes(project: "Project") -> None:
    for sentence in project.changes.sentences():
        _say(f"poolwise: note: {sentence}.")


def _say_batch(batch: "Batch", project: "Project", output: Path | None, config: str | None) -> None:
    model = batch.model
    if model is None:
        features = f" on {batch.encoder}" if batch.encoder and batch.method != "random" else ""
        _say(f"batch {batch.number}: {len(batch):,} items, chosen without a model ({batch.method}{features}).")
    else:
        _say(f"batch {batch.number}: {len(batch):,} items, chosen by {batch.method}. Model: {model.name}.")
        if model.accuracy is not None:
            _say(_accuracy(model))
    for note in batch.notes:
        _say(f"poolwise: note: {note}")
    if config is not None:
        _say(f"written to {output}. Import it in Label Studio, in a project with this labelling interface:\n{config}")
        _say("There, export as JSON, and hand the file to: poolwise add EXPORT.json")
    elif output is not None:
        classes = project.classes
        known = f" ({', '.join(classes[:10])}{', ...' if len(classes) > 10 else ''})" if classes else ""
        _say(f"written to {output}. Fill in its column `label`{known}, then run: poolwise add {output}")


def _accuracy(model: Any) -> str:
    return (
        f"with {model.labels:,} labels it gets {model.correct:,} of {model.checked:,} randomly drawn items right: "
        f"{model.accuracy:.0%} ({model.low:.0%} to {model.high:.0%})."
    )
