"""From data to a folder of predictions, shard by shard: for pools whose predictions do not fit memory."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np

from poolwise import budget
from poolwise.arrays import Array
from poolwise.data.batches import Data
from poolwise.data.examples import Examples, Subset, as_examples
from poolwise.errors import EmptyPoolError, FileError, MissingInputError
from poolwise.posteriors.posterior import Posterior
from poolwise.predictions import Predictions, ShardWriter
from poolwise.predictions.manifest import PART
from poolwise.progress import Report, silent

# How many examples are predicted first, to learn how many samples and classes there are. And how many of those in a
# folder are predicted again, to check that they come from the same model and the same data.
_PROBES = 64
# Log-probabilities are the same if they differ by no more than this, absolute and relative: float16 rounds to 2^-11,
# and networks round otherwise in chunks of another size.
_ROUNDING = 2e-3, 4e-3


def write_predictions(
    posterior: Posterior,
    data: Data,
    folder: str | Path,
    *,
    dtype: Literal["float16", "float32"] = "float16",
    rows_per_shard: int | None = None,
    embeddings: bool = False,
    ids: Sequence[str] | None = None,
    memory: int | str = budget.DEFAULT,
    report: Report = silent,
) -> Predictions:
    """Write predictions to a folder, one shard at a time. Shards that exist already are not predicted again.

    The numbers are those of `posterior.predict(data)`, rounded to `dtype`. After a crash, the same call resumes with
    the first missing shard. It first predicts a few examples again and compares them with the shards in the folder, so
    as not to mix the predictions of two models.

    Args:
        posterior: a posterior that is trained.
        data: examples. Each must be the same whenever it is read.
        folder: where to write; it is made if it does not exist.
        dtype: the type to store log-probabilities in. Float16 keeps three digits of a probability.
        rows_per_shard: how many examples go into one file; None for about 64 MB.
        embeddings: whether to write embeddings as well, for the methods that need them.
        ids: `[N]` names of the examples, such as file names, which selections from the folder then show.
        memory: working memory, in bytes or as `"2GB"`: one shard of predictions is in memory at a time.
        report: told about progress.
    Returns:
        The predictions, as `Predictions.open` would open the folder.

    Example:
        >>> import tempfile, torch, poolwise as pw
        >>> posterior = pw.posteriors.MCDropout(pw.models.mlp((4,), 3), samples=5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pw.write_predictions(posterior, torch.zeros(6, 4), folder + "/preds").shape
        (6, 5, 3)
    """
    examples, space = as_examples(data), budget.parse(memory)
    with begin(posterior, examples, folder, dtype, rows_per_shard, embeddings, space, ids) as writer:
        missing = writer.missing
        left, done = sum(_count(writer.rows(number)) for number in missing), 0
        for number in missing:
            rows = writer.rows(number)

            def told(stage: str, count: int, total: int, before: int = done) -> None:
                report(stage, before + count, left)

            writer.put(number, *predict_rows(posterior, examples, rows, dtype, embeddings, space, told))
            done += _count(rows)
    return Predictions.open(folder, validate=False)


@contextmanager
def begin(
    posterior: Posterior,
    examples: Examples,
    folder: str | Path,
    dtype: str,
    rows_per_shard: int | None,
    embeddings: bool,
    memory: int,
    ids: Sequence[str] | None = None,
) -> Iterator[ShardWriter]:
    """A writer of a folder, which may have shards of the same model and data already, and no others."""
    probed = probe(posterior, examples, embeddings, memory)
    width = _needed_embeddings(probed).shape[1] if embeddings else None
    shape = len(examples), *probed.shape[1:]
    writer = ShardWriter(folder, shape, dtype=dtype, rows_per_shard=rows_per_shard, embeddings=width, ids=ids)
    with writer:
        _check_same(Path(folder), writer, posterior, examples, memory)
        yield writer


def probe(posterior: Posterior, examples: Examples, embeddings: bool, memory: int) -> Predictions:
    """The predictions of a few examples."""
    if not len(examples):
        raise EmptyPoolError("there are no examples to predict.")
    return posterior.predict(
        Subset(examples, np.arange(min(len(examples), _PROBES))), embeddings=embeddings, memory=memory
    )


def predict_rows(
    posterior: Posterior,
    examples: Examples,
    rows: slice,
    dtype: str,
    embeddings: bool,
    memory: int,
    report: Report = silent,
) -> tuple[Array, Array | None]:
    """`[n, K, C]` log-probabilities of consecutive examples, and their embeddings if those are asked for."""
    part = Subset(examples, np.arange(rows.start, rows.stop))
    predicted = posterior.predict(part, embeddings=embeddings, memory=memory, report=report)
    return _log_probs(predicted, dtype), _needed_embeddings(predicted) if embeddings else None


def _count(rows: slice) -> int:
    return int(rows.stop - rows.start)


def _needed_embeddings(predictions: Predictions) -> Array:
    if predictions.embeddings is None:
        raise MissingInputError("the posterior gives no embeddings. Leave embeddings out.")
    return predictions.embeddings


def _log_probs(predictions: Predictions, dtype: str) -> Array:
    """`[n, K, C]` log-probabilities, converted block by block."""
    values = np.empty(predictions.shape, dtype)
    step = budget.block_rows(predictions.row_bytes, budget.DEFAULT)
    for start in range(0, len(values), step):
        rows_n = np.arange(start, min(start + step, len(values)))
        values[start : start + step] = predictions.rows(rows_n).log_probs.numpy()
    return values


def _check_same(folder: Path, writer: ShardWriter, posterior: Posterior, examples: Examples, memory: int) -> None:
    """Raise if the shards already written are not what the model predicts for the data now."""
    written = sorted({*range(writer.count)} - {*writer.missing})
    if not written:
        return
    starts = np.array([writer.rows(number).start for number in written])
    ends = np.cumsum([writer.rows(number).stop - writer.rows(number).start for number in written])
    places_n = np.unique(np.linspace(0, ends[-1] - 1, _PROBES).round().astype(np.int64))  # among the rows written
    shard_n = np.searchsorted(ends, places_n, "right")
    probes_n = starts[shard_n] + places_n - np.append(0, ends)[shard_n]
    expected_n_K_C = _log_probs(posterior.predict(Subset(examples, probes_n), memory=memory), "float32")
    for number in written:
        rows = writer.rows(number)
        here = (probes_n >= rows.start) & (probes_n < rows.stop)
        if not here.any():
            continue
        path = folder / PART.format(number)
        stored = np.load(path, mmap_mode="r", allow_pickle=False)[probes_n[here] - rows.start]
        absolute, relative = _ROUNDING
        if not np.allclose(stored.astype(np.float32), expected_n_K_C[here], rtol=relative, atol=absolute):
            raise FileError(
                f"{path} has other predictions than this model makes for this data now: the weights, the seed of the "
                f"masks, the data or their order are different. Use another folder, or remove {folder} and start again."
            )
