"""Plain tables and paragraphs. Rich draws finer ones, and takes as long to import as a short command to run."""

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
    total = _width() or 110
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


def show_paragraph(text: str) -> None:
    """Print a text, broken between words and indented where a terminal is too narrow for it; a file gets one line."""
    width = _width()
    print(textwrap.fill(text, width, subsequent_indent="  ", break_on_hyphens=False) if width else text)


def _width() -> int:
    """How wide the terminal is; 0 if the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
