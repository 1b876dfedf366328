"""Axes in the wrong order: what can be told from the shape and from the values.

`[K, N, C]` read as `[N, K, C]` has valid values, but its "points" are posterior samples. The shape gives it away: there
are then far more samples than points, or more samples than anybody draws.
"""

import sys
import warnings

from poolwise.errors import LayoutWarning
from poolwise.predictions.forms import PredictionLayout

# Fewer samples than this are plausible for however few points, such as 10 points with 100 samples.
_FEW_SAMPLES = 500
# Above this many, more samples than points are suspicious: posteriors are sampled hundreds of times, pools are large.
_MANY_SAMPLES = 2_000
# How many samples per point are far too many. A caller who names the layout is doubted only if the shape is extreme.
_FAR_MORE, _FAR_MORE_IF_NAMED = 10, 100


def warn_of_layout(shape: tuple[int, int, int], layout: PredictionLayout | None) -> None:
    """Warn if a shape looks as if the axes were in another order.

    Args:
        shape: `(N, K, C)` as they were read.
        layout: the order that the caller named; None if it was left out, which means `"NKC"`.
    """
    N, K, C = shape
    if K < _FEW_SAMPLES:
        return
    if layout is None:
        suspicious = K > _FAR_MORE * N or (K > _MANY_SAMPLES and K > N)
    else:
        suspicious = K > _FAR_MORE_IF_NAMED * N and K > _MANY_SAMPLES
    if suspicious:
        other = "NKC" if layout == "KNC" else "KNC"
        silence = ' If the shape is right, pass layout="NKC" to say so.' if layout is None else ""
        warn_user(
            f"the predictions were read as N = {N:,} points, K = {K:,} posterior samples and C = {C:,} classes "
            f"(layout {layout or 'NKC'}). That is an unusual number of samples for a pool this small: if there are "
            f'{K:,} points and {N:,} samples, pass layout="{other}".{silence}',
            LayoutWarning,
        )


def warn_user(message: str, category: type[Warning]) -> None:
    """A warning that points at the first line of code outside Poolwise."""
    level, frame = 1, sys._getframe(0)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__.partition(".")[0]:
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, category, stacklevel=level)
