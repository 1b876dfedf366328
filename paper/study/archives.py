"""The records of the study, as the parts of docs/results.md want them."""

from dataclasses import dataclass, field
from pathlib import Path

from paper.study.compare import Records, exact
from poolwise.reports.archive import SUFFIX, read_archive

FOLDERS = ("quick", "ablation", "coverage", "judging", "confirmation", "long", "tail", "encoder")
"""Folders of paper/configs whose runs are in archives of the same names in paper/records."""


def _none() -> Records:
    return Records(())


@dataclass(frozen=True)
class Archives:
    """The runs of each part of the study; none where there is no archive.

    Attributes:
        quick: those of paper/configs/quick but for exact copies, with those of paper/configs/ablation on the same
            settings.
        copies: those of paper/configs/quick on exact copies.
        ablation: the other runs of paper/configs/ablation.
        coverage: those of paper/configs/coverage.
        judging: those of paper/configs/judging.
        confirmation: those of paper/configs/confirmation.
        long: those of paper/configs/long.
        tail: those of paper/configs/tail.
        encoder: those of paper/configs/encoder.
        oracle: those of `python -m paper study oracle`.
        cold_start: those of `python -m paper study cold-start`.
    """

    quick: Records = field(default_factory=_none)
    copies: Records = field(default_factory=_none)
    ablation: Records = field(default_factory=_none)
    coverage: Records = field(default_factory=_none)
    judging: Records = field(default_factory=_none)
    confirmation: Records = field(default_factory=_none)
    long: Records = field(default_factory=_none)
    tail: Records = field(default_factory=_none)
    encoder: Records = field(default_factory=_none)
    oracle: Records = field(default_factory=_none)
    cold_start: Records = field(default_factory=_none)

    @property
    def all(self) -> list[Records]:
        """Every run of the study."""
        return list(vars(self).values())


def read_archives(folder: Path) -> Archives:
    """Read the archives of a folder.

    Args:
        folder: paper/records, or another one like it.
    """
    paths = {name: folder / f"{name.replace('_', '-')}{SUFFIX}" for name in (*FOLDERS, "oracle", "cold_start")}
    found = {name: Records(read_archive(path)) for name, path in paths.items() if path.exists()}
    quick = found.pop("quick", Records(()))
    return Archives(quick.where(lambda setting: not exact(setting)), quick.where(exact), **found)
