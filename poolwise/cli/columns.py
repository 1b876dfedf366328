"""Plain tables. Rich draws finer ones, and takes as long to import as a short command to run."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest

_GAP = 2


def show_columns(rows: Sequence[Sequence[str]], wide: int) -> None:
    """Print rows of texts in columns; those from column `wide` on share what the others leave of the line.

    Args:
        rows: the texts, as many in each row.
        wide: the first column whose texts are wrapped.
    """
    total = shutil.get_terminal_size().columns if sys.stdout.isatty() else 110
    widths = [max(len(text) for text in column) for column in zip(*rows, strict=True)]
    room = total - sum(widths[:wide]) - _GAP * (len(widths) - 1)
    widest = sum(widths[wide:])
    if widest > room:
        widths[wide:] = [max(12, room * width // widest) for width in widths[wide:]]
    for row in rows:
        cells = [textwrap.wrap(text, width) or [""] for text, width in zip(row, widths, strict=True)]
        for line in zip_longest(*cells, fillvalue=""):
            padded = [text.ljust(width + _GAP) for text, width in zip(line, widths, strict=True)]
            print("".join(padded).rstrip())
