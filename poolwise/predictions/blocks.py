"""Some rows of the pool in the form that methods compute with, and how they are made from what is stored."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.predictions.forms import PredictionKind
from poolwise.predictions.validation import check_block

# Finite stand-ins for log 0 whose exponential is exactly 0, so that 0 · log 0 is 0 and never NaN.
LOG_ZERO = {torch.float32: -110.0, torch.float64: -750.0}

_LOG2_E = 1 / math.log(2)
_VECTOR = 64  # numbers: a multiple of what any processor takes at a time


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of the pool, as log-probabilities and as probabilities.

    However a block was made, the following is true:

    - Both tensors are float32, or float64 where float64 is stored, and `probs` is the exponential of `log_probs`.
    - Every number is finite. The logarithm of a probability of 0 is -110 in float32 and -750 in float64, whose
      exponential is exactly 0. Smaller log-probabilities are raised to that number. Nothing else is clipped.
    - Log-probabilities and probabilities that are stored as float16 are renormalised: each posterior sample's
      probabilities are divided by their sum, which the rounding moved away from 1. Those that are stored as float32 or
      float64 are used unchanged. Logits always go through a log-softmax.

    Never write to `log_probs`: it can be the caller's own array.

    Attributes:
        log_probs: `[n, K, C]` log-probabilities.
        probs: `[n, K, C]` probabilities.
        raw: `[n, K, C]` workspace. Its numbers mean nothing once the block is made.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> predictions = pw.Predictions.from_probs(np.array([[[0.0, 1.0]], [[0.5, 0.5]]]))
        >>> block = predictions.rows(np.array([0]))
        >>> block.log_probs
        tensor([[[-750.,    0.]]], dtype=torch.float64)
    """

    log_probs: Tensor
    probs: Tensor
    raw: Tensor

    def __len__(self) -> int:
        return len(self.probs)

    def __repr__(self) -> str:
        n, K, C = self.probs.shape
        return f"Block({n} rows, K={K}, C={C}, {str(self.probs.dtype).removeprefix('torch.')})"

    @classmethod
    def empty(cls, n: int, K: int, C: int, dtype: torch.dtype) -> "Block":
        """A block with room for n rows.

        Args:
            n: how many rows.
            K: posterior samples.
            C: classes.
            dtype: the type to compute in.
        """
        return cls(*torch.empty(3, n, K, C, dtype=dtype))

    def first(self, n: int) -> "Block":
        """The first n rows, in the same memory."""
        return Block(self.log_probs[:n], self.probs[:n], self.raw[:n])

    def load(self, stored: Tensor, kind: PredictionKind, check_n: Array | None) -> "Block":
        """A block of stored rows: the rows themselves if they need no conversion, else this block, filled with them.

        Args:
            stored: `[n, K, C]` numbers.
            kind: what they are.
            check_n: `[n]` their positions in the source, to check them and name the first bad row; or None.
        """
        if kind == "log-probs" and stored.dtype == self.log_probs.dtype and stored.is_contiguous() and _finite(stored):
            block = Block(stored, exponential(stored, self.probs), self.raw)
            if check_n is not None:
                check_block(stored, block.probs, "log-probs", stored.dtype, check_n)
            return block
        self.fill(stored, kind, check_n)
        return self

    def fill(self, stored: Tensor, kind: PredictionKind, check_n: Array | None) -> None:
        """Convert stored rows into this block; the arguments are those of `load`."""
        log_probs, probs, floor = self.log_probs, self.probs, LOG_ZERO[self.log_probs.dtype]
        if kind == "log-probs":
            raw = log_probs
            if stored.dtype == raw.dtype:
                torch.clamp_min(stored, floor, out=raw)
            else:
                raw.copy_(stored).clamp_min_(floor)
            exponential(log_probs, probs)
        elif kind == "probs":
            raw = probs
            raw.copy_(stored)
            torch.log(probs, out=log_probs).clamp_min_(floor)
        else:
            raw = self.raw
            raw.copy_(stored)
            torch.log_softmax(raw, 2, out=log_probs).clamp_min_(floor)
            exponential(log_probs, probs)
        if check_n is not None:
            check_block(raw, probs, kind, stored.dtype, check_n)
        if stored.dtype == torch.float16 and kind != "logits":
            sums = probs.sum(2, keepdim=True)
            probs.div_(sums)
            log_probs.sub_(sums.log()).clamp_min_(floor)


def _finite(log_probs: Tensor) -> bool:
    """Whether no log-probability has to be raised. NaN fails the comparison, and is found by the checks."""
    return log_probs.numel() == 0 or bool(log_probs.amin() >= LOG_ZERO[log_probs.dtype])


def exponential(log_probs: Tensor, out: Tensor) -> Tensor:
    """The exponential, computed in base two: PyTorch's `exp2` takes half the time of its `exp` on a CPU.

    The product rounds the exponent, which moves a probability p by at most `p |ln p|` units of rounding: less than one.
    PyTorch computes the remainder after whole vectors with another routine, which rounds differently. So that a number
    does not depend on its place in a block, the remainder is computed within a whole vector as well.
    """
    flat = torch.mul(log_probs, _LOG2_E, out=out).view(-1)
    whole = flat.numel() - flat.numel() % _VECTOR
    flat[:whole].exp2_()
    if whole < flat.numel():
        rest = flat.new_zeros(_VECTOR)
        rest[: flat.numel() - whole] = flat[whole:]
        flat[whole:] = rest.exp2_()[: flat.numel() - whole]
    return out
