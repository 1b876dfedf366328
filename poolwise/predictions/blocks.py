"""Some rows of the pool in working form, and how they are made of what is stored."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.predictions.validation import check_block

Kind = Literal["log-probs", "probs", "logits"]

# Finite stand-ins for log 0 whose exponential is exactly 0, so that 0 · log 0 is 0 and never NaN.
_LOG_ZERO = {torch.float32: -110.0, torch.float64: -750.0}

_LOG2_E = 1 / math.log(2)
_VECTOR = 64  # numbers: a multiple of what any processor takes at a time


@dataclass(frozen=True)
class Block:
    """Some rows of the pool.

    Attributes:
        log_probs: `[n, K, C]` log-probabilities. Read by `rows`, they are finite: log 0 is replaced by a number whose
            exponential is 0. In a scan they may be the stored numbers themselves, and -inf.
        probs: `[n, K, C]` probabilities.
        raw: `[n, K, C]` room for what is stored, while it is converted.
    """

    log_probs: Tensor
    probs: Tensor
    raw: Tensor

    @classmethod
    def empty(cls, n: int, K: int, C: int, dtype: torch.dtype) -> "Block":
        """Room for n rows."""
        return cls(*torch.empty(3, n, K, C, dtype=dtype))

    def first(self, n: int) -> "Block":
        """The first n rows, in the same place."""
        return Block(self.log_probs[:n], self.probs[:n], self.raw[:n])

    def fill(self, stored: Tensor, kind: Kind, check_n: Array | None) -> None:
        """Turn stored rows into this block; check them if their positions in the source are given."""
        log_probs, probs, floor = self.log_probs, self.probs, _LOG_ZERO[self.log_probs.dtype]
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

    def around(self, stored: Tensor, check_n: Array | None) -> "Block":
        """A block on stored log-probabilities that need no conversion, which is one pass less; checked likewise."""
        block = Block(stored, exponential(stored, self.probs), self.raw)
        if check_n is not None:
            check_block(stored, block.probs, "log-probs", stored.dtype, check_n)
        return block


def exponential(log_probs: Tensor, out: Tensor) -> Tensor:
    """The exponential, by way of base two: PyTorch's `exp2` takes half the time of its `exp` on a CPU.

    The product rounds the exponent, which moves a probability p by at most `p |ln p|` units of rounding: less than one.
    PyTorch computes what is left over of whole vectors with another routine, which rounds otherwise. So that a number
    does not depend on where in a block it stands, what is left over is computed within a whole vector as well.
    """
    flat = torch.mul(log_probs, _LOG2_E, out=out).view(-1)
    whole = flat.numel() - flat.numel() % _VECTOR
    flat[:whole].exp2_()
    if whole < flat.numel():
        rest = flat.new_zeros(_VECTOR)
        rest[: flat.numel() - whole] = flat[whole:]
        flat[whole:] = rest.exp2_()[: flat.numel() - whole]
    return out
