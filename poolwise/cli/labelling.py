"""`poolwise add`, `status`, `export` and `apply`: labels in, where things stand, and what came of it."""

import getpass
import os
from pathlib import Path
from typing import Annotated

import typer

from poolwise.cli.app import app, showing_warnings
from poolwise.cli.progress import bar, resumable
from poolwise.cli.projects import (
    DataArgument,
    DatabaseOption,
    EncodingOption,
    IdOption,
    ModelOption,
    ProjectArgument,
    ProjectOption,
    QuietOption,
    TextOption,
    accuracy_line,
    find_project,
    open_project,
    say,
    say_changes,
)
from poolwise.errors import ParameterError


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
    encoding: EncodingOption = None,
    project: ProjectOption = None,
    database: DatabaseOption = None,
    quiet: QuietOption = False,
) -> None:
    """Add labels from a file.

    All labels are taken or, if something is wrong, none. Rows without a label are left out. It is an error if an id is
    not in the data, if a class is new, or if a label differs from an earlier one. The file may come from Excel, with
    semicolons.

    Instead of a label, a row may say (cannot be labelled): the item is not offered again. With (don't know) or (skip),
    it is offered again when nothing else is left.

    Examples:

    \b
      poolwise add batch.csv
      poolwise add old-labels.csv texts.csv --id number --label topic --new-classes
    """
    with showing_warnings(quiet):
        place = find_project(data, project, labels)
        with open_project(place, project, database, None, any_model=True) as opened:
            added = opened.add(
                labels, replace=replace, new_classes=new_classes, person=person if person is not None else _user(),
                id=id, label=label, encoding=encoding,
            )  # fmt: skip
            if not quiet:
                say_changes(opened)
                status = opened.status()
                print(f"{added}.")
                print(f"{status.labelled:,} of {status.items:,} items have a label.")


@app.command()
def status(
    data: ProjectArgument = None,
    project: ProjectOption = None,
    database: DatabaseOption = None,
) -> None:
    """Show labels, batch and accuracy of a project.

    Labels by class and person, the batch, and how good the model is, on items that were drawn at random.

    Example:

    \b
      poolwise status texts.csv
    """
    with showing_warnings(quiet=False):
        place = find_project(data, project, None)
        with open_project(place, project, database, None, any_model=True) as opened:
            say_changes(opened)
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
    """Export the labels for other programs.

    Texts that a spreadsheet would run as formulas get an apostrophe in front, which `poolwise add` removes.

    Examples:

    \b
      poolwise export labels.csv
      poolwise export by-class/ photos
    """
    with showing_warnings(quiet):
        place = find_project(data, project, output)
        with open_project(place, project, database, None, any_model=True) as opened:
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
    """Predict every item, with its uncertainty.

    The model learns from all labels first. Writes for each item: id, prediction, its probability, uncertainty (0 is
    sure, 1 is a guess), how much the members of the model disagree, and the label that people gave. With --project,
    DATA may be other data of the same kind.

    Examples:

    \b
      poolwise apply texts.csv -o predictions.csv
      poolwise apply new.csv --project texts.csv.poolwise -o predictions.csv
    """
    from poolwise.labelling.tables import check_ending

    check_ending(output)
    place = project or data
    with (
        showing_warnings(quiet),
        resumable(),
        open_project(place, None, database, model) as opened,
        bar(quiet) as report,
    ):
        others = None
        if project is not None and not opened.is_data(data):
            from poolwise.labelling.items import open_items

            about = opened.description
            others = open_items(data, text=text or about.text, id=id)
            if others.kind != about.kind:
                raise ParameterError(
                    f"{data}: is of kind {others.kind}, and the project of kind {about.kind}. Give data of that kind."
                )
        predicted = opened.apply(output, others, report=report)
        if not quiet:
            say_changes(opened)
            measured = next(iter(opened.store.models(last=1)), None)
            say(f"{len(predicted.ids):,} predictions written to {output}")
            if measured is not None:
                say(f"Model: {measured.name}.")
            if measured is not None and measured.accuracy is not None:
                say(accuracy_line(measured))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return os.environ.get("USER", "")
