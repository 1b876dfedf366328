"""Features of points that are made from their predictions, kept if they fit the memory budget."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from poolwise import budget
from poolwise.arrays import Array
from poolwise.predictions import Block, Predictions
from poolwise.selection.task import Task


class PointFeatures:
    """Float64 features of all points, and passes over them.

    Args:
        task: the points, and the memory budget.
        make: from a block of n rows to `[n, ...]` float64 features, each depending on its own row only.
        width: how many numbers a point has.
    """

    def __init__(self, task: Task, make: Callable[[Block], Tensor], width: int) -> None:
        self._task, self._make = task, make
        self._kept: Tensor | None = None
        self._step = budget.block_rows(8 * width, task.memory)
        if len(task.predictions) * width * 8 <= task.memory // 2:
            parts = [part for _, part in task.predictions.scan(make, task.memory, task.report)]
            self._kept = torch.cat(parts)

    def of(self, index: int) -> Tensor:
        """`[...]` features of one point."""
        return self._kept[index] if self._kept is not None else self.rows(self._task.predictions, np.array([index]))[0]

    def rows(self, predictions: Predictions, indices_n: Array) -> Tensor:
        """`[n, ...]` features of some points of the same or of other predictions."""
        return self._make(predictions.rows(indices_n))

    def map(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """`[N, ...]` results of a function that works on the features of each point alone."""
        if self._kept is None:
            make, task = self._make, self._task
            scan = task.predictions.scan(lambda block: function(make(block)), task.memory)
            return torch.cat([part for _, part in scan])
        kept, step = self._kept, self._step
        return torch.cat([function(kept[start : start + step]) for start in range(0, len(kept), step)])
