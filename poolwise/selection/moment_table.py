"""Moments of the points that could be picked next, and of the picks, with the bounds that they give."""

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.information import moments
from poolwise.information.moments import Layout

# Bounds may be in float32: this undoes the rounding of what is done with them here.
_ROUND_DOWN = 1 - 2.0**-20


class MomentTable:
    """Features of some points and of all picks, and bounds of the pairs between them.

    Bounds are multiplied by a scale of the pick.

    Args:
        N: how many points there are.
        batch_size: how many picks there will be at most.
        layout: what the features are.
        dtype: their type.
        memory: how many bytes the table may take.

    Attributes:
        limit: how many points there is room for.
        points: `[n]` the points in the table.
        row_N: `[N]` the row of each point, or -1.
        lower_n: `[limit]` by row: the largest lower bound of a pair with a pick.
        has_lower: whether there are lower bounds.
        features_r_F: `[limit, F]` moments of the points, by row.
        probes_B_F: what `upper` multiplies them with, by pick, where there are no lower bounds.
    """

    def __init__(self, N: int, batch_size: int, layout: Layout, dtype: torch.dtype, memory: int) -> None:
        self._layout, self.has_lower = layout, layout.order > moments.LOWEST
        self.limit = max(1, min(N, memory // (layout.width * dtype.itemsize + 8)))
        self._picks = torch.empty(batch_size, layout.width, dtype=dtype)
        self._scales = torch.empty(batch_size, dtype=dtype)
        self._probes = torch.empty(0 if self.has_lower else batch_size, layout.width, dtype=dtype)
        self._features = torch.empty(self.limit, layout.width, dtype=dtype)
        # The same by NumPy, whose calls cost less for few numbers.
        self._picks_B_F, self._scales_B = self._picks.numpy(), self._scales.numpy()
        self.features_r_F, self.probes_B_F = self._features.numpy(), self._probes.numpy()
        self._weights_F = moments.linear(layout, dtype).numpy()
        self.count = 0
        self.row_N = np.full(N, -1, np.int32)
        self.points = np.empty(0, np.int64)
        self.lower_n = np.empty(self.limit)

    def keep(self, points_n: Array) -> None:
        """Remove all other points."""
        rows_m = self.row_N[points_n]
        rows_m = np.sort(rows_m[rows_m >= 0])
        self.row_N[self.points] = -1
        self.points = self.points[rows_m]
        m = len(rows_m)
        self.row_N[self.points] = np.arange(m)
        self.lower_n[:m], self.features_r_F[:m] = self.lower_n[rows_m], self.features_r_F[rows_m]

    def insert(self, points_n: Array, features_n_F: Tensor) -> None:
        """Add points that are not in the table yet, for which there must be room."""
        first, last = len(self.points), len(self.points) + len(points_n)
        self.points = np.concatenate([self.points, points_n])
        self.row_N[points_n] = np.arange(first, last)
        self._features[first:last] = features_n_F
        self.lower_n[first:last] = 0.0
        self._lower(slice(first, last), slice(0, self.count))

    def note(self, point: int, scale: float) -> None:
        """Bound the pairs of all points in the table with a new pick.

        Args:
            point: the pick; it must be in the table.
            scale: what the bounds are multiplied by.
        """
        self._picks_B_F[self.count] = features_F = self.features_r_F[self.row_N[point]]
        self._scales_B[self.count] = scale
        if not self.has_lower:
            np.multiply(features_F, self._weights_F * self._scales_B[self.count], out=self.probes_B_F[self.count])
        self.count += 1
        self._lower(slice(0, len(self.points)), slice(self.count - 1, self.count))

    def upper(self, points_n: Array) -> Array:
        """`[n, t]` numbers that the pairs of some points in the table with the picks are never above."""
        features_n_F = torch.from_numpy(self.features_r_F.take(self.row_N[points_n], 0))
        if not self.has_lower:
            found: Array = torch.mm(features_n_F, self._probes[: self.count].T).numpy()
            return found
        upper_n_t = moments.upper(features_n_F, self._picks[: self.count], self._layout)
        scaled: Array = upper_n_t.mul_(self._scales[: self.count]).numpy()
        return scaled

    def _lower(self, rows: slice, picks: slice) -> None:
        if self.has_lower and rows.start < rows.stop and picks.start < picks.stop:
            lower_n_m = moments.lower(self._features[rows], self._picks[picks], self._layout)
            largest_n = lower_n_m.mul_(self._scales[picks]).amax(1).numpy() * _ROUND_DOWN
            np.maximum(self.lower_n[rows], largest_n, out=self.lower_n[rows])
