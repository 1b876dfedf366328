"""The checks of a block of predictions; an error names the first bad row."""

import torch
from torch import Tensor

from poolwise.arrays import Array
from poolwise.errors import NotFiniteError, NotNormalisedError

# How far the probabilities of one member may be from summing to one. Float16 keeps log-probabilities to about three
# digits, so the sum moves by up to half a per cent on a thousand classes; such rows are renormalised after the check.
TOLERANCE = {torch.float16: 1e-2, torch.float32: 1e-3, torch.float64: 1e-3}

_HINTS = {
    "log-probs": "Log-probabilities were expected: for probabilities use Predictions.from_probs, "
    "for raw network outputs Predictions.from_logits (on the command line: --kind).",
    "probs": "Probabilities were expected: for log-probabilities use Predictions.from_log_probs, "
    "for raw network outputs Predictions.from_logits (on the command line: --kind).",
    "logits": "Logits were expected: a finite number for each class, or -inf for a class that is impossible.",
}


def check_block(raw_n_K_C: Tensor, probs_n_K_C: Tensor, kind: str, stored: torch.dtype, positions_n: Array) -> None:
    """Raise if any row is not a set of K distributions over the C classes.

    Args:
        raw_n_K_C: `[n, K, C]` values as the caller gave them.
        probs_n_K_C: `[n, K, C]` the probabilities made of them.
        kind: `"log-probs"`, `"probs"` or `"logits"`.
        stored: the type the values are stored in, which sets the tolerance.
        positions_n: `[n]` position of each row in the pool, for the message.
    """
    n, K, C = probs_n_K_C.shape
    # A product with ones is the fastest sum over a short last axis. NaN fails the comparisons, as it should.
    sums_nK = torch.mv(probs_n_K_C.view(n * K, C), probs_n_K_C.new_ones(C))
    smallest, largest = torch.aminmax(sums_nK)
    good = 1 - float(smallest) <= TOLERANCE[stored] and float(largest) - 1 <= TOLERANCE[stored]
    if kind == "probs":
        good = good and bool(raw_n_K_C.amin() >= 0)
    if not good:
        _explain(raw_n_K_C, sums_nK.view(n, K), kind, stored, positions_n)


def _explain(raw_n_K_C: Tensor, sums_n_K: Tensor, kind: str, stored: torch.dtype, positions_n: Array) -> None:
    impossible_n_K_C = raw_n_K_C.isnan() | (raw_n_K_C == torch.inf)
    if kind == "probs":
        impossible_n_K_C |= raw_n_K_C == -torch.inf
    bad_sum_n_K = ~((sums_n_K - 1).abs() <= TOLERANCE[stored])
    negative_n_K = (raw_n_K_C < 0).any(2) if kind == "probs" else torch.zeros_like(bad_sum_n_K)
    bad_n_K = impossible_n_K_C.any(2) | bad_sum_n_K | negative_n_K
    row = int(bad_n_K.any(1).int().argmax())
    member = int(bad_n_K[row].int().argmax())
    where = f"row {positions_n[row]}, posterior sample {member}"
    if bool(impossible_n_K_C[row, member].any()):
        value = float(raw_n_K_C[row, member][impossible_n_K_C[row, member]][0])
        raise NotFiniteError(f"{where}: found {value} among the predictions. Repair or drop that row. {_HINTS[kind]}")
    if bool(negative_n_K[row, member]):
        value = float(raw_n_K_C[row, member].min())
        raise NotNormalisedError(f"{where}: found the negative probability {value:.6g}. {_HINTS[kind]}")
    total = float(sums_n_K[row, member])
    axis = _class_axis(raw_n_K_C, kind, stored)
    if kind == "logits":
        raise NotFiniteError(f"{where}: every class has the logit -inf. {_HINTS[kind]}")
    raise NotNormalisedError(
        f"{where}: the probabilities of the {raw_n_K_C.shape[2]} classes sum to {total:.6g}, not 1 "
        f"(to within {TOLERANCE[stored]:g}). {axis or _HINTS[kind]}"
    )


def _class_axis(raw_n_K_C: Tensor, kind: str, stored: torch.dtype) -> str | None:
    """What to do if another axis than the last one sums to one everywhere: then that axis counts the classes."""
    probs_n_K_C = raw_n_K_C.exp() if kind == "log-probs" else raw_n_K_C
    for axis, name in ((1, "posterior samples"), (0, "points")):
        if probs_n_K_C.shape[axis] > 1 and bool(((probs_n_K_C.sum(axis) - 1).abs() <= TOLERANCE[stored]).all()):
            return (
                f"They do sum to 1 over the axis that was read as that of the {name}, so the axes are in another "
                "order: pass the right layout=, which is NKC, KNC or NCK (N points, K posterior samples, C classes)."
            )
    return None
