"""Markdown for the pages of the study."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others numbers or text."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def listed(names: Sequence[str]) -> str:
    """Names with commas and, before the last, \"and\"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
