"""Numbers for readers: few digits, a true minus sign, a dash for what is not known."""

import math

from poolwise.reports.paired import Difference

UNKNOWN = "–"


def percent(share: float, digits: int = 1) -> str:
    """`0.8734` as `87.3`."""
    return f"{100 * share:.{digits}f}" if math.isfinite(share) else UNKNOWN


def points(value: float, of: Difference) -> str:
    """A part of a difference in percentage points, with its sign; a second digit if the interval is that narrow."""
    return signed(value, 2 if of.high - of.low < 0.002 else 1)


def signed(value: float, digits: int = 1) -> str:
    """A share in percentage points, with its sign: `-0.0123` as `−1.2`."""
    if not math.isfinite(value):
        return UNKNOWN
    rounded = round(100 * value, digits)
    sign = "−" if rounded < 0 else "+" if rounded > 0 else ""
    return f"{sign}{abs(rounded):.{digits}f}"


def seconds(value: float) -> str:
    """`0.0123` as `12 ms`, `75` as `75 s`, `4000` as `1.1 h`, two digits each."""
    if not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0 s"
    for limit, unit, size in ((1e-3, "µs", 1e-6), (1, "ms", 1e-3), (120, "s", 1), (7200, "min", 60)):
        if value < limit:
            return f"{_two_digits(value / size)} {unit}"
    return f"{_two_digits(value / 3600)} h"


def p_value(value: float) -> str:
    """A p-value as it stands after a difference, `, p 0.0123`; nothing if there is none."""
    if math.isnan(value):
        return ""
    return f", p {value:.3g}" if value >= 0.001 else ", p < 0.001"


def decimal(value: float) -> str:
    """One digit after the point."""
    return f"{value:.1f}" if math.isfinite(value) else UNKNOWN


def _two_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
