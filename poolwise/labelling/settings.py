"""Where a project is, and which of its settings can be changed."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from poolwise.errors import ParameterError
from poolwise.labelling.description import FILE, Description

ENDING = ".poolwise"
"""What the folder of a project is called: the name of the data, and this."""

SETTINGS = ("encoder", "method", "batch_size", "held_out", "twice", "seed", "model", "database")


def project_folder(place: str | os.PathLike[str], project: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the project of some data, whether it exists or not.

    Args:
        place: the data, or the folder of a project.
        project: the folder, if it is not beside the data.
    """
    if project is not None:
        return Path(project)
    path = Path(place)
    if (path / FILE).exists():
        return path
    absolute = path.absolute()
    return absolute.with_name(absolute.name + ENDING)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings that a project does not have."""
    unknown = next((name for name in settings if name not in SETTINGS), None)
    if unknown is not None:
        raise ParameterError(f"a project has no setting {unknown!r}. The settings are: {', '.join(SETTINGS)}.")


def changed(
    description: Description, settings: Mapping[str, Any], model: str | None, folder: Path, any_model: bool
) -> Description:
    """The description with new settings, saved; what the labels depend on cannot be changed."""
    given = {name: value for name, value in settings.items() if value is not None}
    for name in ("text", "file", "id", "originals", "separator", "encoding"):
        value = given.pop(name, None)
        if value is not None and name != "originals" and value != getattr(description, name):
            before = getattr(description, name)
            with_it = f"without {name}=" if before is None else f"with {name}={before!r}, not {value!r}"
            raise ParameterError(
                f"the project {folder} was made {with_it}. Leave it out, or make another project with project=."
            )
    check_settings(given)
    if description.model is not None and model is None and not any_model:
        raise ParameterError(
            f"the project {folder} uses the model {description.model!r}. That is code, so it must be named each time: "
            f"pass model={description.model!r}."
        )
    if model is not None:
        given["model"] = model
    changed = validated({**description.model_dump(), **given})
    if changed != description:
        changed.save(folder)
    return changed


def validated(values: Mapping[str, Any]) -> Description:
    """A description from its values, or an error that names the one that is wrong."""
    try:
        return Description(**values)
    except ValidationError as error:
        problem = error.errors()[0]
        raise ParameterError(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}, not {problem['input']!r}."
        ) from error


def without_password(database: str | None) -> str | None:
    """A URL as it may be written down."""
    if database is None:
        return None
    head, at, tail = database.rpartition("@")
    user, colon, _ = head.partition("://")[2].partition(":")
    return f"{head.partition('://')[0]}://{user}@{tail}" if at and colon else database


def store_place(description: Description, database: str | None, folder: Path) -> str | Path:
    """Where the labels are. A database is only taken from the project if it is named by the user as well."""
    if description.database is None:
        if database is not None:
            raise ParameterError(f"the project {folder} keeps its labels in a file. Leave database= out.")
        return folder / "labels.db"
    if database is None:
        raise ParameterError(
            f"the labels of the project {folder} are in the database {description.database}. Name it each time: "
            "pass database=, with the password if it needs one, or set POOLWISE_DATABASE."
        )
    return database
