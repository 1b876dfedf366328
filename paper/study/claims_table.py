"""Claims of the paper and their tests as a table."""

from collections.abc import Iterable
from math import isnan

from paper.study.claims import COLUMNS, Cell, Tested, spelled
from paper.study.markdown import table


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
    return f"**{cell.finding}**{ahead} {spelled(cell.found)}{adjusted(cell.p_value)}"


def adjusted(p_value: float) -> str:
    """A p-value as it stands after a difference; nothing if there is none."""
    if isnan(p_value):
        return ""
    return f", p {p_value:.3g}" if p_value >= 0.001 else ", p < 0.001"
