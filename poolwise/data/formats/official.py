"""What every official form of a data set offers: the files it needs, and how to read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from poolwise.arrays import Array


@dataclass(frozen=True)
class Raw:
    """One split as it was read.

    Attributes:
        inputs: `[N, channels, height, width]` bytes, or N texts.
        labels: `[N]` class numbers from 0, or N class names.
        md5: digests of the contents of the files, uncompressed, where they are computed.
    """

    inputs: Array | list[str]
    labels: Array | list[str]
    md5: tuple[str, ...] = ()


class OfficialSplit(Protocol):
    """One split in one official form."""

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that hold it; each may also be there as `name.gz`."""

    @property
    def md5(self) -> tuple[str, ...]:
        """The known digests; empty where they are not known for certain."""

    def read(self, paths: Mapping[str, Path]) -> Raw:
        """Read the split.

        Args:
            paths: where each of `files` was found.
        """
