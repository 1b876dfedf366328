"""Where things are in the repository. `python -m paper` works on a clone of it, not on the installed package."""

from pathlib import Path

from poolwise.errors import FileError

PAPER = Path(__file__).parent
CONFIGS, RECORDS = PAPER / "configs", PAPER / "records"
DOCS = PAPER.parent / "docs"


def must_exist(folder: Path) -> Path:
    """The folder, or an error if this is no clone of the repository."""
    if not folder.is_dir():
        raise FileError(
            f"{folder}: no such folder. This command works in a clone of the repository; run it from there."
        )
    return folder
