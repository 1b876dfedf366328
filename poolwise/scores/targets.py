"""Target points: predictions by the same posterior samples as the pool's."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poolwise.errors import ShapeError
from poolwise.predictions import Predictions


def target_probs(targets: Any, K: int, C: int, dtype: torch.dtype) -> Tensor:
    """`[R, K, C]` checked probabilities of target points, in the pool's precision.

    Args:
        targets: log-probabilities `[R, K, C]`, a file of them, or a `Predictions` object.
        K: number of posterior samples of the pool.
        C: number of its classes.
        dtype: precision of the pool.
    """
    if isinstance(targets, str | Path):
        targets = Predictions.open(targets)
    # A few targets by many samples are usual, so their layout is not doubted.
    given = targets if isinstance(targets, Predictions) else Predictions.from_log_probs(targets, layout="NKC")
    if given.shape[1:] != (K, C):
        raise ShapeError(
            f"targets must be predictions [R, {K}, {C}] by the same {K} posterior samples as the pool's, "
            f"not {list(given.shape)}."
        )
    given.check()
    return given.rows(np.arange(len(given))).probs.to(dtype)
