"""Where data sets are searched for on this machine."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from poolwise.data.formats.archives import extract
from poolwise.data.formats.files import find
from poolwise.data.specs import Form, Spec
from poolwise.errors import FileError

VARIABLE = "POOLWISE_DATA"
"""The environment variable with folders to search, separated as in `PATH`."""


@dataclass(frozen=True)
class Found:
    """Where the files of a data set are.

    Attributes:
        form: the form they have.
        place: the folder or the archive that they are in; None where they are part of a package.
        paths: each file by its official name; empty where they are still in an archive.
    """

    form: Form
    place: Path | None
    paths: Mapping[str, Path]

    def opened(self) -> "Found":
        """The same with the files extracted from the archive, if that is where they are."""
        if self.place is None or self.paths:
            return self
        return Found(self.form, self.place, extract(self.place, self.form.files))


def roots(root: str | Path | None) -> list[Path]:
    """The folders to search, in order: the one given, those of `POOLWISE_DATA`, `./data`, `~/.cache/poolwise`."""
    if root is not None and not Path(root).is_dir():
        raise FileError(f"root: there is no folder {root}. Pass the folder that has the data, or leave root out.")
    listed = [Path(entry) for entry in os.environ.get(VARIABLE, "").split(os.pathsep) if entry]
    given = [] if root is None else [Path(root)]
    return [*given, *listed, Path("data"), Path("~/.cache/poolwise").expanduser()]


def places(spec: Spec, root: str | Path | None) -> list[Path]:
    """Every folder that is searched for a data set, in order."""
    return [place for base in roots(root) for place in (base / spec.name, *(base / f for f in spec.folders), base)]


def search(spec: Spec, root: str | Path | None) -> Found | None:
    """The first place that has all files of a data set, or an archive of them; None if there is none."""
    return next(_candidates(spec, root), None)


def _candidates(spec: Spec, root: str | Path | None) -> Iterator[Found]:
    yield from (Found(form, None, {}) for form in spec.forms if not form.files)
    for place in places(spec, root):
        for form in spec.forms:
            paths = find(place, form.files)
            if len(paths) == len(form.files):
                yield Found(form, place, paths)
        for archive in spec.archives:
            if (place / archive).is_file():
                yield Found(spec.forms[0], place / archive, {})
