"""BAIT: points that make the Fisher information of the labels match that of the pool (Ash et al. 2021).

`M` is the information of what is labelled, `F` the mean information of all points, both of a last linear layer. BAIT
adds the point that lowers `tr(M⁻¹ F)` most, until there are twice as many as needed. Then it removes those whose
removal raises the trace least. The binary form (Huseljic et al. 2024) treats a prediction as a question of two classes:
the most likely one against the rest. A pick then costs two products with the features of each point. The full form
costs `2 C²` of them, and five matrices of `(C·D)²` numbers. See `fisher.py` for the mathematics.

Each labelled point and each pick adds its whole information to `M`, and λ is what was there before. The authors'
program divides by the number of labels instead, so that its λ = 1 weighs more.
"""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from poolwise import budget
from poolwise.arrays import Array
from poolwise.errors import NotEnoughMemoryError, ParameterError
from poolwise.information.entropies import mean_prediction
from poolwise.predictions import Block, Predictions
from poolwise.selection.fisher import Rows, TraceReduction
from poolwise.selection.power_bald import check_alpha
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task

# Gains that differ by less than this share of the largest are equal up to rounding: the lowest index wins.
_CLOSE = 1e-9
# Working memory that is taken whatever the budget: the matrices of 800 features in the binary form.
_ALWAYS = 1 << 25


def binary(block: Block) -> Tensor:
    """`[n, 1, 1]` float64 `sqrt(p (1 - p))` of the largest averaged probability p."""
    mean_n_C = mean_prediction(block.probs.double())
    p_n, best_n = mean_n_C.max(1)
    rest_n = mean_n_C.scatter(1, best_n[:, None], 0.0).sum(1)  # 1 - p, with all its digits
    return (p_n * rest_n).sqrt_().view(-1, 1, 1)


def full(block: Block) -> Tensor:
    """`[n, C, C]` float64 factors `sqrt(p_c) (e_c - p)`: the product with its transpose is `diag(p) - p pᵀ`."""
    mean_n_C = mean_prediction(block.probs.double())
    return (torch.diag_embed(torch.ones_like(mean_n_C)) - mean_n_C[:, None]).mul_(mean_n_C.sqrt()[:, :, None])


FORMS = {"binary": binary, "full": full}


@method(
    "bait",
    summary="Points whose Fisher information, added to that of the labels, serves the whole pool best.",
    formula="oversampling · b times the largest fall of tr(M⁻¹ F), then b are kept; M = λI + Σ VᵀV over labelled points"
    " and picks, F the mean of VᵀV over all points; binary: V = sqrt(p (1 - p)) h, p the largest probability",
    paper="Ash, Goel, Krishnamurthy, Kakade: Gone Fishing: Neural Active Learning with Fisher Embeddings, NeurIPS 2021;"
    " binary: Huseljic, Hahn, Herde, Rauch, Sick: Fast Fishing: Approximating BAIT for Efficient and Scalable Deep "
    "Active Image Classification, ECML PKDD 2024",
    needs=("predictions", "embeddings", "labelled_embeddings", "labelled_predictions"),
    parameters={
        "form": "'binary': the most likely class against the rest, one row per point; 'full': all classes, "
        "at C² times the work and memory.",
        "regularisation": "λ, above 0: the information assumed before any label, in squared units of the embeddings.",
        "oversampling": "How many points to add before the worst are removed, times the batch size; 1 removes none.",
    },
)
def bait(
    task: Task,
    *,
    form: Literal["binary", "full"] = "binary",
    regularisation: float = 1.0,
    oversampling: float = 2.0,
) -> Picks:
    """Select forwards, then backwards; the score of a pick is what it took from the trace when it was added."""
    check_alpha("bait", regularisation, "regularisation")
    if not 1 <= oversampling < np.inf:
        raise ParameterError(f"bait: oversampling must be a finite number of at least 1, not {oversampling}.")
    reduction = _start(task, form, regularisation)
    N, B = len(task.predictions), task.batch_size
    added = _forwards(reduction, min(N, int(np.ceil(oversampling * B))), task)
    kept = _backwards(reduction.only(added.indices), len(added.indices) - B)
    indices, scores = added.indices[kept], added.scores[kept]
    worthless = scores <= 0
    return Picks(indices, scores, 0.0, int(np.argmax(worthless)) if worthless.any() else None)


def _start(task: Task, form: str, regularisation: float) -> TraceReduction:
    """The state before any pick."""
    N, _, C = task.predictions.shape
    features, labelled = task.embeddings, task.labelled_embeddings
    _check_memory(task, form, min(features.shape[1], N + len(labelled)), C if form == "full" else 1)
    if features.shape[1] > N + len(labelled):
        features, labelled = _compressed(features, labelled)
    pool = Rows.of(features, _factors(task, task.predictions, form), task.memory)
    mean = pool.information()
    known = torch.zeros_like(mean)
    if len(labelled) and task.labelled_predictions is not None:
        known = Rows.of(labelled, _factors(task, task.labelled_predictions, form), task.memory).information()
        mean += known
    known.diagonal().add_(regularisation)
    return TraceReduction(pool, known, mean.div_(N + len(labelled)))


def _factors(task: Task, predictions: Predictions, form: str) -> Tensor:
    """`[n, R, A]` factors of all points."""
    return torch.cat([part for _, part in predictions.scan(FORMS[form], task.memory, task.report)])


def _compressed(features_N_D: Array, labelled_L_D: Array) -> tuple[Array, Array]:
    """Features in the coordinates of the space that they span, of N + L dimensions: all products stay the same."""
    together = np.concatenate([features_N_D, labelled_L_D]).astype(np.float64)
    coordinates = torch.linalg.qr(torch.from_numpy(together).T, mode="r").R.T.contiguous().numpy()
    return coordinates[: len(features_N_D)], coordinates[len(features_N_D) :]


def _check_memory(task: Task, form: str, D: int, A: int) -> None:
    """Refuse what does not fit the budget: some matrices of `(A·D)²` numbers, and `3·A²` numbers per point."""
    size = 8 * (5 * (A * D) ** 2 + 3 * A**2 * len(task.predictions))
    if size > max(task.memory, _ALWAYS):
        advice = 'use form="binary", ' if form == "full" else ""
        raise NotEnoughMemoryError(
            f"bait in its {form} form takes {budget.gigabytes(size)} for {len(task.predictions):,} points, {D:,} "
            f"features and {task.predictions.shape[2]:,} classes, and the budget is {budget.gigabytes(task.memory)}: "
            f"{advice}use fewer features (such as the first principal components), restrict the candidates, or raise "
            "memory=."
        )


def _forwards(reduction: TraceReduction, count: int, task: Task) -> Picks:
    """Points that are added one after another, each the one that lowers the trace most."""
    indices, scores = np.empty(count, np.int64), np.empty(count)
    for t in range(count):
        index, scores[t] = _best(reduction, indices[:t])
        if reduction.worn(index):
            reduction.refresh()
            index, scores[t] = _best(reduction, indices[:t])
        indices[t] = index
        reduction.change(index)
        task.report("picking", t + 1, count)
    return Picks(indices, scores)


def _best(reduction: TraceReduction, picks_t: Array) -> tuple[int, float]:
    """The point with the largest gain, and that gain; of those that are equal up to rounding, the lowest index."""
    gains_N = reduction.gains()
    gains_N[picks_t] = -np.inf
    best = float(gains_N.max())
    return int(np.argmax(gains_N >= best * (1 - _CLOSE))), best


def _backwards(reduction: TraceReduction, count: int) -> Array:
    """`[B]` which of the points are kept, in order, after this many are removed, each the one that raises it least."""
    kept_m = np.ones(len(reduction), bool)
    for _ in range(count):
        losses_m = np.where(kept_m, reduction.gains(-1), np.inf)
        smallest = losses_m.min()
        # Of those that are equal up to rounding the last one: it was added last.
        index = int(np.flatnonzero(losses_m <= smallest * (1 + _CLOSE))[-1])
        kept_m[index] = False
        reduction.change(index, -1)
    return np.flatnonzero(kept_m)
