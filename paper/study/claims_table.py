"""Claims of the paper and their tests as a table."""

from collections.abc import Iterable, Sequence
from math import isnan

from paper.study.claims import COLUMNS, Cell, Tested, spelled
from paper.study.compare import Measure, Unit
from paper.study.markdown import table
from poolwise.reports.numbers import UNKNOWN


def claims_table(claims: Iterable[Tested], columns: Sequence[tuple[Measure, Unit]] = COLUMNS) -> str:
    """A row for each claim.

    Args:
        claims: with their tests.
        columns: which tests to show.
    """
    head = ("claim", "settings", "tested", *(f"{measure}, by {unit[:-1]}" for measure, unit in columns), "ahead")
    return table(head, (_row(tested, columns) for tested in claims))


def _row(tested: Tested, columns: Sequence[tuple[Measure, Unit]]) -> tuple[str, ...]:
    claimed = tested.claimed
    cells = (_cell(tested.cells[column]) for column in columns)
    tail = f"{tested.ahead} of {tested.settings}"
    return claimed.text, claimed.where, f"`{claimed.first} − {claimed.second}`", *cells, tail


def _cell(cell: Cell) -> str:
    p = "" if isnan(cell.p_value) else f", p {_p_value(cell.p_value)}"
    return f"**{cell.finding}** {spelled(cell.found)}{p}"


def _p_value(p: float) -> str:
    if isnan(p):
        return UNKNOWN
    return f"{p:.2g}" if p >= 0.001 else "< 0.001"
