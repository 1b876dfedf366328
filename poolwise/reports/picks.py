"""What the methods picked first and last, for people to look at: pictures and texts."""

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from matplotlib.image import imsave

from poolwise.arrays import Array
from poolwise.errors import FileError
from poolwise.experiments.samples import read_texts, read_thumbnails
from poolwise.reports.comparable import Comparable
from poolwise.reports.tables import Summary

Batch = TypeVar("Batch")

# Pictures in a row.
ACROSS = 10


@dataclass(frozen=True)
class Picks:
    """Some of what one method picked in one round.

    Attributes:
        label: the method.
        round: the round.
        at_random: whether they were drawn at random because there was no model yet.
        sheet: a PNG image of the pictures in base64, or nothing.
        width: of the image in pixels.
        height: of the image.
        texts: the texts, or nothing.
    """

    label: str
    round: int
    at_random: bool
    sheet: str = ""
    width: int = 0
    height: int = 0
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Batches:
    """The first or the last batch of every method, from its lowest seed that has samples."""

    title: str
    picks: list[Picks]

    @property
    def rounds(self) -> str:
        """The rounds they are from."""
        numbers = sorted({picks.round for picks in self.picks})
        return f"round {numbers[0]}" + (f" to {numbers[-1]}" if len(numbers) > 1 else "")


def batches(group: Comparable, rows: Sequence[Summary], damaged: Callable[[FileError], None]) -> list[Batches]:
    """The first and the last batches, pictures before texts; nothing where none were kept.

    Args:
        group: the runs.
        rows: their summaries, in the order of the page.
        damaged: told about samples that cannot be read, which are left out.
    """
    ends: dict[str, list[Picks]] = {}
    for row in rows:
        for kind, found in (("pictures", _pictures(group, row, damaged)), ("texts", _texts(group, row, damaged))):
            for which, picks in zip(("first", "last"), (found[:1], found[1:][-1:]), strict=True):
                ends.setdefault(f"The {which} batches: {kind}", []).extend(picks)
    return [Batches(title, picks) for title, picks in sorted(ends.items()) if picks]


def _pictures(group: Comparable, row: Summary, damaged: Callable[[FileError], None]) -> list[Picks]:
    found = []
    for number, images, random in _samples(group, row, read_thumbnails, damaged):
        sheet = tile(images)
        file = io.BytesIO()
        imsave(file, sheet, format="png")
        encoded = base64.b64encode(file.getvalue()).decode()
        found.append(Picks(row.label, number, random, encoded, sheet.shape[1], sheet.shape[0]))
    return found


def _texts(group: Comparable, row: Summary, damaged: Callable[[FileError], None]) -> list[Picks]:
    return [
        Picks(row.label, number, random, texts=tuple(texts))
        for number, texts, random in _samples(group, row, read_texts, damaged)
    ]


def _samples(
    group: Comparable,
    row: Summary,
    read: Callable[[Path], list[tuple[int, Batch]]],
    damaged: Callable[[FileError], None],
) -> list[tuple[int, Batch, bool]]:
    """Rounds, what was picked in them, and whether at random, of the lowest seed that has samples."""
    runs = group.runs[row.label]
    for seed in sorted(runs):
        try:
            batches = read(runs[seed].folder)
        except FileError as error:
            damaged(error)
            continue
        if batches:
            random = {entry.number for entry in runs[seed].rounds if entry.at_random}
            return [(number, batch, number in random) for number, batch in batches]
    return []


def tile(images: Array) -> Array:
    """Lay images `[n, H, W, channels]` out in rows, with transparent gaps: `[rows, columns, 4]` bytes."""
    n, H, W, _ = images.shape
    gap = max(1, W // 12)
    rows = -(-n // ACROSS)
    sheet = np.zeros((rows * (H + gap) - gap, ACROSS * (W + gap) - gap, 4), np.uint8)
    for i, image in enumerate(images):
        top, left = i // ACROSS * (H + gap), i % ACROSS * (W + gap)
        sheet[top : top + H, left : left + W, :3] = image
        sheet[top : top + H, left : left + W, 3] = 255
    return sheet
