"""Claims of the paper and their tests as a table."""

from collections.abc import Iterable

from paper.study.claims import COLUMNS, Cell, Tested, spelled
from paper.study.markdown import table
from poolwise.reports.numbers import p_value


def claims_table(claims: Iterable[Tested]) -> str:
    """A row for each claim."""
    head = ("claim", "settings", "tested", *(f"{measure}, by {unit[:-1]}" for measure, unit in COLUMNS), "ahead")
    return table(head, map(_row, claims))


def _row(tested: Tested) -> tuple[str, ...]:
    claimed = tested.claimed
    cells = (_cell(tested, tested.cells[column]) for column in COLUMNS)
    tail = f"{tested.ahead} of {tested.settings}"
    return claimed.text, claimed.where, f"`{claimed.first} − {claimed.second}`", *cells, tail


def _cell(tested: Tested, cell: Cell) -> str:
    ahead = (
        ", ahead" if tested.claimed.kind == "close" and cell.finding == "does not hold" and cell.found.mean > 0 else ""
    )
    return f"**{cell.finding}**{ahead} {spelled(cell.found)}{p_value(cell.p_value)}"
