"""Prefilters: a selection from a part of the pool that reports what the rest could have been worth.

A bound of a point is a number that its gain is never above, whatever was picked (Minoux 1978 relies on them): the
BALD score for all forms of LBB and BatchBALD. With u the largest bound of the points left out, none of them could have
gained more than u at any pick. A pick with a gain g lost at most `u - g`. Where that is negative it lost nothing, and a
greedy method would have made the same pick from the whole pool.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import ParameterError
from poolwise.selection.batch import Prefilter
from poolwise.selection.candidates import draw
from poolwise.selection.ranking import top
from poolwise.selection.registry import Method
from poolwise.selection.task import Picks, Task

# Gains are known to about this much in float32: a pick must lead by more to be certain.
_ROUNDING = 4e-6


@dataclass(frozen=True)
class Kept:
    """What a prefilter kept.

    Attributes:
        positions: `[n]` sorted positions in the pool.
        report: what is known before any pick.
    """

    positions: Array
    report: Prefilter

    def cost(self, picks: Picks, method: Method) -> Prefilter:
        """The report, once the picks are known."""
        u, known = self.report.largest, vars(self.report)
        if u is None:
            return self.report
        ahead = picks.scores > u + _ROUNDING
        same = len(ahead) if ahead.all() else int(np.argmin(ahead))
        lost = float(np.maximum(u - picks.scores, 0.0).sum())
        certain = None if method.stochastic else same
        return Prefilter(**{**known, "lost": lost, "same_until": certain, "gained": float(picks.scores.sum())})


def prefilter(candidates: object, task: Task, method: Method, parameters: Mapping[str, object]) -> Kept | None:
    """The points that `"top:n"` or `"sample:n"` keeps, never fewer than the batch; None if neither was asked for.

    Bounds are computed in one pass over the pool, where the method has any.

    Args:
        candidates: what the caller asked for.
        task: the selection from all points that may be chosen.
        method: how they will be selected.
        parameters: those of the method.
    """
    match = (
        re.fullmatch(r"\s*(top|sample)\s*:\s*([0-9_,]{1,40})\s*", candidates) if isinstance(candidates, str) else None
    )
    if match is None:
        return None
    rule, N = match[1], len(task.predictions)
    count = min(N, max(int(re.sub("[_,]", "", match[2]) or 0), task.batch_size))
    name = f"{rule}:{count}"
    if rule == "top" and method.bound is None:
        raise ParameterError(
            f"{method.name} has no bounds to prefilter by. "
            f'Use candidates="sample:{count}", at a cost that is not known.'
        )
    bounds_N = None if method.bound is None else method.bound(task, **parameters)
    if rule == "top" and bounds_N is not None:
        positions = np.sort(top(bounds_N, count))
    else:
        positions = draw(count, N, task.batch_size, task.seed)
    if bounds_N is None:
        return Kept(positions, Prefilter(name, N - count))
    total = float(bounds_N.sum())
    out_N = np.ones(N, bool)
    out_N[positions] = False
    left_out = bounds_N[out_N]
    largest, share = (float(left_out.max()), float(left_out.sum()) / (total or 1.0)) if len(left_out) else (0.0, 0.0)
    return Kept(positions, Prefilter(name, N - count, largest, share))
