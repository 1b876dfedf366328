"""What all commands on projects share: their options, how a project is found and opened, and what is said of it."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poolwise.errors import MissingInputError, ParameterError, StateError

if TYPE_CHECKING:
    from poolwise.labelling.project import Project
    from poolwise.labelling.store import ModelRecord

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
    typer.Argument(metavar="DATA", help="The data, or the folder of its project; found if there is only one here."),
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
TextOption = Annotated[str | None, typer.Option("--text", help="The column of texts; guessed if not given.")]
IdOption = Annotated[
    str | None, typer.Option("--id", help="The column of ids; guessed if not given, otherwise the row number, from 0.")
]
ClassesOption = Annotated[
    str | None,
    typer.Option(
        "--classes", help="The classes, as in cat,dog,bird; or a file with one per line. More can be added at any time."
    ),
]
OriginalsOption = Annotated[
    Path | None,
    typer.Option("--originals", help="What features were made from, in the same order: a folder or a table."),
]
EncoderOption = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="What turns texts into numbers: minilm (better with few labels, but slower), tfidf (seconds), or a "
        "checkpoint. For images: efficientnet (pretrained on ImageNet) or patches. By default minilm and "
        "efficientnet, if they are installed.",
    ),
]
MethodOption = Annotated[
    str | None, typer.Option("--method", help="How to select; mutual-herding by default. See `poolwise methods`.")
]
HeldOutOption = Annotated[
    float | None,
    typer.Option(
        "--held-out", help="The share of a batch that is drawn at random to measure the model; 0.2 by default."
    ),
]
SeparatorOption = Annotated[
    str | None,
    typer.Option("--separator", help="The character between the fields of a CSV file; guessed if not given."),
]
EncodingOption = Annotated[str | None, typer.Option("--encoding", help="How a text file is encoded; UTF-8 by default.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Random seed; 0 by default.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no warning, no summary.")]


def read_classes(given: str | None) -> list[str]:
    """Classes from `cat,dog,bird`, or from a file with one per line."""
    if given is None:
        return []
    if os.path.isfile(given):  # unlike Path, it takes a list that is longer than a file name may be
        from poolwise.data.formats.plain_text import read_text

        names = read_text(Path(given)).splitlines()
    else:
        names = given.split(",")
    found = [name.strip() for name in names if name.strip()]
    if not found:
        raise ParameterError(f"--classes takes names such as cat,dog,bird, or a file with one per line, not {given!r}.")
    return found


def open_project(
    place: Path,
    project: Path | None,
    database: str | None,
    model: str | None,
    *,
    create: bool = False,
    any_model: bool = False,
    **settings: Any,
) -> "Project":
    """Open a project; where the packages that it needs are missing, say how to install them."""
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


def find_project(data: Path | None, project: Path | None, beside: Path | None) -> Path:
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


def say(text: str) -> None:
    """Say something to the person at the terminal, beside what the command writes."""
    print(text, file=sys.stderr)


def say_changes(project: "Project") -> None:
    """Say what has changed in the data since the last time."""
    for sentence in project.changes.sentences():
        say(f"poolwise: note: {sentence}.")


def accuracy_line(model: "ModelRecord") -> str:
    """How good a model is, in words."""
    return (
        f"with {model.labels:,} labels it gets {model.correct:,} of {model.checked:,} randomly drawn items right: "
        f"{model.accuracy:.0%} ({model.low:.0%} to {model.high:.0%})."
    )
