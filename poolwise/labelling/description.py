"""What a project is about: `project.json`, which people may read, and which may come from somebody else."""

import json
import os
import secrets
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from poolwise.errors import FileError
from poolwise.storage import read_json, write_json

FILE = "project.json"
FORMAT = 1

Kind = Literal["text", "image", "features"]


class Description(BaseModel):
    """The description of a project.

    Attributes:
        format: the version of this file.
        uid: what tells projects apart.
        data: the data, relative to the folder of the project.
        originals: what features were made from, relative to the folder of the project.
        kind: what an item is: a text, an image, or a row of features.
        text: the column of texts.
        file: the column of image files.
        id: the column of ids; None if items are called by their row or file.
        separator: the character between the fields of a CSV file, where it was named.
        encoding: how a text file is encoded, where it was named.
        database: where labels are, without a password; None for a file of the project.
        encoder: what makes features of texts or images; `"auto"` for the best that is installed.
        model: `"package.module:function"` of a model of the user's own.
        method: the selection method; None for Poolwise's default.
        batch_size: how many items a batch has.
        held_out: the share of a batch that is drawn at random to measure the model.
        twice: the share of items that two people label.
        seed: root of all randomness.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal[1] = 1
    uid: str = Field(default_factory=lambda: secrets.token_hex(8), max_length=64)
    data: str
    originals: str | None = None
    kind: Kind
    text: str | None = None
    file: str | None = None
    id: str | None = None
    separator: str | None = None
    encoding: str | None = None
    database: str | None = None
    encoder: str = "auto"
    model: str | None = None
    method: str | None = None
    batch_size: int = Field(default=50, ge=1, le=1_000_000)
    held_out: float = Field(default=0.2, ge=0, le=0.9)
    twice: float = Field(default=0.0, ge=0, le=1)
    seed: int = Field(default=0, ge=0)

    def save(self, folder: Path) -> None:
        """Write it to the folder of a project."""
        write_json(folder / FILE, self.model_dump(exclude_none=True))


def read_description(folder: Path) -> Description:
    """The description of the project in a folder."""
    path = folder / FILE
    if path.is_symlink():
        raise FileError(f"{path}: is a link. A project must keep its own description.")
    found = read_json(path)
    if isinstance(found, dict) and isinstance(found.get("format"), int) and found["format"] > FORMAT:
        raise FileError(f"{path}: was written by a newer Poolwise (format {found['format']}). Install that one.")
    try:
        return Description.model_validate_json(json.dumps(found))
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the file"
        raise FileError(f"{path}: {where}: {problem['msg']}. Correct it, or restore it from a copy.") from error


def relative(path: Path, folder: Path) -> str:
    """A path as it is written to `project.json`: relative, so that project and data can be moved together."""
    try:
        return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive of Windows
        return path.resolve().as_posix()


def resolved(written: str, folder: Path) -> Path:
    """A path from `project.json`, which must stay in the folder that the project is in.

    A project may come from somebody else, and must not make us read and show any other file.
    """
    home, path = folder.resolve().parent, (folder.resolve() / written).resolve()
    if not path.is_relative_to(home):
        raise FileError(
            f"{folder / FILE}: the data is at {path}, which is not in {home}. If you trust this project, name the data "
            f"yourself: give {path} as DATA, and the project with --project {folder}."
        )
    return path


def check_originals(originals: Path, folder: Path) -> None:
    """Refuse originals that a new project could not open again, as `resolved` would.

    Args:
        originals: what the features were made from.
        folder: the folder of the project.
    """
    home = folder.resolve().parent
    if not originals.resolve().is_relative_to(home):
        raise FileError(
            f"{originals}: the originals must be in the folder that the project is in, {home}, since a project shows "
            "nothing from elsewhere. Move them there, or make the project in a folder that has both the features and "
            f"the originals: --project FOLDER/{folder.name}."
        )
