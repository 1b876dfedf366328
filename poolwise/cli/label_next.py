"""`poolwise next`: what to label next, in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poolwise.cli.app import app, showing_warnings
from poolwise.cli.progress import bar, resumable
from poolwise.cli.projects import (
    ClassesOption,
    DataArgument,
    DatabaseOption,
    EncoderOption,
    EncodingOption,
    HeldOutOption,
    IdOption,
    MethodOption,
    ModelOption,
    OriginalsOption,
    ProjectOption,
    QuietOption,
    SeedOption,
    SeparatorOption,
    TextOption,
    accuracy_line,
    open_project,
    read_classes,
    say,
    say_changes,
)
from poolwise.errors import FileError

if TYPE_CHECKING:
    from poolwise.labelling.project import Project
    from poolwise.labelling.results import Batch


# Texts that take a minute or more to encode.
_MANY = 2_000


@app.command("next")
def next_batch(
    data: DataArgument,
    count: Annotated[int | None, typer.Option("--count", "-n", help="How many items; 50 by default.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write them here, as .csv, .jsonl or .parquet, or as .json for Label Studio; printed by default.",
        ),
    ] = None,
    classes: ClassesOption = None,
    excel: Annotated[
        bool, typer.Option("--excel", help="Mark the CSV as UTF-8, so that Excel shows accents correctly.")
    ] = False,
    text: TextOption = None,
    id: IdOption = None,
    originals: OriginalsOption = None,
    encoder: EncoderOption = None,
    method: MethodOption = None,
    model: ModelOption = None,
    held_out: HeldOutOption = None,
    separator: SeparatorOption = None,
    encoding: EncodingOption = None,
    project: ProjectOption = None,
    database: DatabaseOption = None,
    seed: SeedOption = None,
    quiet: QuietOption = False,
) -> None:
    """Write a file with the items to label next.

    Each row has an id, the text or file, a score, why it was chosen, and an empty column `label`. Fill that in, or
    write (cannot be labelled) where no class fits, and give the file to `poolwise add`. Then ask again: a model is
    trained on all labels, and chooses the next items. Without new labels, you get the same items again.

    The first time, a project is made beside the data (DATA.poolwise). Everything is kept there, and it can be copied at
    any time.

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
        opened = open_project(data, project, database, model, classes=read_classes(classes), create=True, **settings)
        with opened:
            if not quiet:
                _say_data(opened)  # first, since changes of the data are noticed once
            if output is not None:
                _keep_labels(output, opened)
            batch = opened.next(count, report=report)
            config = _write_batch(batch, opened, output, excel)
            if not quiet:
                _say_batch(batch, opened, output, config)


def _keep_labels(output: Path, project: "Project") -> None:
    """Refuse to write over labels that somebody filled in and did not add yet."""
    from poolwise.labelling.adding import mark_of
    from poolwise.labelling.tables import read_labels

    if not output.exists() or output.suffix.lower() == ".json":
        return
    try:
        labels = read_labels(output)
    except (FileError, ValueError):
        raise FileError(f"{output}: already exists, and is not a batch. Name another file with -o.") from None
    fold, said = project.store.fold(), set()
    for event in project.store.events():
        said.add((event.item, event.label or event.kind))
    fresh = [
        name
        for name, label in labels.items()
        if label and not (name in fold.items and (name, mark_of(label, fold.classes) or label) in said)
    ]
    if fresh:
        many = f"{len(fresh):,} {'label that was' if len(fresh) == 1 else 'labels that were'}"
        raise FileError(
            f"{output}: has {many} not added yet. Run `poolwise add {output}` first, or name another file with -o."
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


def _say_data(project: "Project") -> None:
    if project.changes.first:
        say(f"new project {project.folder}: {'; '.join(project.items.said)}.")
        _say_encoding(project)
    say_changes(project)


def _say_encoding(project: "Project") -> None:
    """Say what the first batch of many texts waits for, and how it need not."""
    from poolwise.labelling.features import chosen_encoder

    about, count = project.description, len(project.items)
    if about.model is None and count > _MANY and chosen_encoder(about.kind, about.encoder) == "minilm":
        say(
            f"MiniLM reads {count:,} texts now, each once, some dozens per second; stopped, it resumes. To begin in "
            "seconds, stop this and add --encoder tfidf."
        )


def _say_batch(batch: "Batch", project: "Project", output: Path | None, config: str | None) -> None:
    model = batch.model
    if model is None:
        features = f" on {batch.encoder}" if batch.encoder and batch.method != "random" else ""
        say(f"batch {batch.number}: {len(batch):,} items, chosen without a model ({batch.method}{features}).")
    else:
        say(f"batch {batch.number}: {len(batch):,} items, chosen by {batch.method}. Model: {model.name}.")
        if model.accuracy is not None:
            say(accuracy_line(model))
    for note in batch.notes:
        say(f"poolwise: note: {note}")
    if config is not None:
        say(f"written to {output}. Import it in Label Studio, in a project with this labelling interface:\n{config}")
        say("There, export as JSON, and hand the file to: poolwise add EXPORT.json")
    elif output is not None:
        classes = project.classes
        known = f" ({', '.join(classes[:10])}{', ...' if len(classes) > 10 else ''})" if classes else ""
        say(f"written to {output}. Fill in its column `label`{known}, then run: poolwise add {output}")
