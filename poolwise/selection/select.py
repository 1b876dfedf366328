"""One call: from predictions to the points to label next."""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from numbers import Integral

import numpy as np

from poolwise import budget
from poolwise.arrays import Array, ArrayOrTensor
from poolwise.errors import BatchSizeError, PrefilterWarning, SaturationWarning
from poolwise.information.entropies import ceiling
from poolwise.information.joint import batch_information
from poolwise.parallel import one_thread_an_operation
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent
from poolwise.seeding import stream
from poolwise.selection import registry
from poolwise.selection.batch import Batch, Diagnostics
from poolwise.selection.candidates import Candidates, choose, not_excluded
from poolwise.selection.inputs import check_inputs, read_labelled
from poolwise.selection.prefilter import prefilter
from poolwise.selection.registry import Method, MethodLike
from poolwise.selection.saturation import saturation_message
from poolwise.selection.task import Task

# Label configurations behind the information estimate: its standard error is then about 0.01 nats.
_CONFIGURATIONS = 1024
# The estimate is skipped, unless asked for, if batch size · configurations · (samples + classes) is above this,
# which takes about ten seconds.
_INFORMATION_COST = 2_000_000_000

_silent: ContextVar[bool] = ContextVar("silent", default=False)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Selections inside do not warn of saturation and prefilters, which their diagnostics describe as well.

    Warning filters belong to the whole process. This setting belongs to the calling thread.
    """
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def select(
    predictions: ArrayOrTensor | Predictions,
    batch_size: int,
    method: MethodLike = registry.DEFAULT,
    *,
    seed: int = 0,
    candidates: Candidates | None = None,
    exclude: ArrayOrTensor | None = None,
    embeddings: ArrayOrTensor | None = None,
    labelled_embeddings: ArrayOrTensor | None = None,
    labelled_predictions: ArrayOrTensor | Predictions | None = None,
    labels: ArrayOrTensor | None = None,
    held_out_predictions: ArrayOrTensor | Predictions | None = None,
    held_out_labels: ArrayOrTensor | None = None,
    memory: int | str = budget.DEFAULT,
    information: bool | None = None,
    report: Report = silent,
    **parameters: object,
) -> Batch:
    """Choose the points to label next.

    Args:
        predictions: `[N, K, C]` log-probabilities (NumPy or PyTorch), or a `Predictions` object.
        batch_size: how many points to choose.
        method: name of a method (`poolwise.methods()` lists them), a function of your own, or the place of one,
            `"package.module:function"`. See `poolwise.method` for what a function takes and returns.
        seed: root of all randomness; the same seed gives the same batch.
        candidates: restrict the choice: a share drawn at random such as `"10%"`, a number, or positions. Or a
            prefilter: `"top:100000"` (the points with the largest bounds) or `"sample:100000"`. `diagnostics.prefilter`
            then says how much gain the points left out could have added at most. If that is not 0, there is a
            `PrefilterWarning`.
        exclude: positions that must not be chosen, such as those of the points that are labelled already.
        embeddings: `[N, D]` features of the pool, for the methods that need them.
        labelled_embeddings: `[L, D]` features of the points that are labelled already.
        labelled_predictions: `[L, K, C]` log-probabilities of those points, or a `Predictions` object.
        labels: `[L]` their classes, as numbers from 0 to C - 1.
        held_out_predictions: `[H, K, C]` log-probabilities of some labelled points by a model that was trained without
            them, as in cross-validation, for the methods that calibrate. Pass `[0, K, C]` if there are none.
        held_out_labels: `[H]` the classes of those points.
        memory: working memory beside the input, in bytes or as `"500MB"`; no result depends on it.
        information: whether to estimate the joint information of the batch; None does so unless it would take long.
        report: called with (stage, done, total) as the work proceeds.
        parameters: the method's own parameters.
    Returns:
        The batch: `indices`, `scores` and `diagnostics`.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> x = np.log(np.array([[[0.9, 0.1], [0.8, 0.2]], [[0.6, 0.4], [0.4, 0.6]], [[0.7, 0.3], [0.9, 0.1]]]))
        >>> pw.select(x, 2, "margin").indices.tolist()
        [1, 2]
        >>> pw.select(x, 1, pw.scores.bald).indices.tolist()
        [2]
    """
    started = time.perf_counter()
    chosen_method = registry.resolve(method)
    checked = chosen_method.check(_without_resume(parameters, chosen_method))
    pool = (
        predictions if isinstance(predictions, Predictions) else Predictions.from_log_probs(predictions, validate=False)
    )
    if embeddings is not None or labelled_embeddings is not None:
        pool = pool.with_embeddings(embeddings, labelled_embeddings)
    known = read_labelled(pool, labelled_predictions, labels, held_out_predictions, held_out_labels)
    check_inputs(chosen_method.name, chosen_method.inputs(checked), pool, known, chosen_method.needs)
    _check_batch_size(batch_size, pool.shape)
    allowed = not_excluded(exclude, len(pool), batch_size)
    space, before = budget.parse(memory), pool.traffic
    stream(seed)  # a bad seed is an error for every method, not only for those that draw
    open_to_choice = pool if allowed is None else pool.take(allowed)
    everything = Task(
        open_to_choice,
        int(batch_size),
        seed,
        space,
        report,
        labels=known.labels,
        labelled_predictions=known.predictions,
        held_out_predictions=known.held_out_predictions,
        held_out_labels=known.held_out_labels,
    )
    kept = prefilter(candidates, everything, chosen_method, checked)
    if kept is None:
        subset = choose(candidates, allowed, len(pool), batch_size, seed)
    else:
        subset = kept.positions if allowed is None else allowed[kept.positions]
    chosen = pool if subset is None else pool.take(subset)
    task = replace(everything, predictions=chosen, whole=pool, positions=subset)
    with one_thread_an_operation():
        try:
            picks = chosen_method(task, **checked)
        except Exception:
            task.predictions.check(space, report)  # wrong input explains the error better
            raise
        task.predictions.check(space, report)
        curve = _information(task, picks.indices, information)
    diagnostics = Diagnostics(
        ceiling=ceiling(pool.shape[1]),
        information=curve,
        saturated_at=picks.saturated_at,
        tolerance=picks.tolerance,
        standard_error=picks.standard_error,
        considered=len(task.predictions),
        pairs=picks.pairs,
        rows=picks.rows,
        seconds=time.perf_counter() - started,
        prefilter=None if kept is None else kept.cost(picks, chosen_method),
        traffic=moved if (moved := pool.traffic - before).tasks else None,
        notes=picks.notes,
    )
    lossy = diagnostics.prefilter is not None and diagnostics.prefilter.left_out and diagnostics.prefilter.lost != 0
    if lossy and not _silent.get():
        warnings.warn(f"{diagnostics.prefilter}.", PrefilterWarning, stacklevel=2)
    message = saturation_message(chosen_method.name, diagnostics, int(batch_size))
    if message is not None and not _silent.get():
        warnings.warn(message, SaturationWarning, stacklevel=2)
    indices = picks.indices if subset is None else subset[picks.indices]
    ids = None if pool.ids is None else pool.ids[indices]
    return Batch(indices.astype(np.int64), picks.scores.astype(np.float64), diagnostics, chosen_method.name, ids)


def _check_batch_size(batch_size: int, shape: tuple[int, int, int]) -> None:
    N, K, _ = shape
    if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
        raise BatchSizeError(f"batch_size must be a whole number of at least 1, not {budget.shorten(batch_size)}.")
    if batch_size > N:
        hint = f' If the pool has {K} points and there are {N} posterior samples, pass layout="KNC".'
        raise BatchSizeError(
            f"batch_size is {budget.shorten(int(batch_size))}, but the pool has only {N} points. Ask for at most {N}."
            f"{hint if batch_size <= K else ''}"
        )


def _without_resume(parameters: dict[str, object], method: Method) -> dict[str, object]:
    """The parameters without `resume`, which select had once."""
    if "resume" not in parameters or "resume" in method.parameters:
        return parameters
    warnings.warn(
        "select(resume=...) is ignored: starting a selection again takes less time than resuming did. Leave it out.",
        DeprecationWarning,
        stacklevel=3,
    )
    return {name: value for name, value in parameters.items() if name != "resume"}


def _information(task: Task, indices_B: Array, asked: bool | None) -> Array | None:
    _, K, C = task.predictions.shape
    cost = len(indices_B) * _CONFIGURATIONS * (K + C)
    if asked is False or (asked is None and cost > _INFORMATION_COST):
        return None
    log_probs_B_K_C = task.predictions.rows(indices_B).log_probs
    return batch_information(log_probs_B_K_C, _CONFIGURATIONS, task.generator("information"))
