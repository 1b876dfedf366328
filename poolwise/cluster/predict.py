"""From data to predictions on the machines of a cluster, shard by shard."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from poolwise import budget
from poolwise.arrays import Array
from poolwise.cluster.session import RETRIES, gather, library, must_have
from poolwise.cluster.shards import of_references, open_folder
from poolwise.data.examples import Examples, as_examples
from poolwise.errors import ParameterError
from poolwise.posteriors import Posterior
from poolwise.posteriors.folder import begin, predict_rows, probe
from poolwise.posteriors.protocol import placed
from poolwise.predictions import Predictions
from poolwise.predictions.manifest import Shard
from poolwise.predictions.shard_file import ShardFile
from poolwise.predictions.writing import SHARD_BYTES, ShardWriter
from poolwise.progress import Report, silent


@dataclass(frozen=True)
class Job:
    """What every worker needs; the model and the data are fetched once by each.

    Attributes:
        model: a reference to the posterior.
        data: a reference to the examples, or to a function that opens them.
        dtype: the type to store.
        embeddings: whether to give embeddings as well.
        memory: working memory of one task, in bytes.
        name: a name that no other job has.
    """

    model: Any
    data: Any
    dtype: str
    embeddings: bool
    memory: int
    name: str = field(default_factory=lambda: uuid.uuid4().hex)


def predict(
    posterior: Posterior,
    data: object,
    folder: str | Path | None = None,
    *,
    dtype: Literal["float16", "float32"] = "float16",
    rows_per_shard: int | None = None,
    embeddings: bool = False,
    cpus: float = 1,
    gpus: float = 0,
    ids: Sequence[str] | None = None,
    memory: int | str = budget.DEFAULT,
    report: Report = silent,
) -> Predictions:
    """Predict on the workers of the cluster that `connect` joined.

    If the process or machine of a task dies, the task starts again elsewhere, up to three times. A folder gets the same
    bytes as from `write_predictions`, and the same call resumes it. Without a folder, predictions are kept in Ray: they
    are predicted again if a machine is lost, and end with this process.

    Args:
        posterior: a posterior that is trained; it is sent to the workers.
        data: examples, which are sent to the workers; or a function without arguments that opens them there.
        folder: where to write; all machines must see it at the same path. None to keep the predictions in Ray.
        dtype: the type to store log-probabilities in.
        rows_per_shard: how many examples are in a shard; None for about 64 MB.
        embeddings: whether to add embeddings, for the methods that need them.
        cpus: processors that a task takes.
        gpus: GPUs that a task takes; may be a fraction.
        ids: `[N]` names of the examples, such as file names.
        memory: working memory of one task, in bytes or as `"2GB"`.
        report: told about progress.

    Example:
        >>> import torch, poolwise as pw
        >>> from poolwise import cluster
        >>> posterior = pw.posteriors.MCDropout(pw.models.mlp((16,), 4), samples=20)
        >>> with cluster.connect():  # doctest: +SKIP
        ...     batch = pw.select(cluster.predict(posterior, torch.randn(2_000, 16)), 50)
    """
    if cpus < 0 or gpus < 0:
        raise ParameterError(f"cpus and gpus must be at least 0, not {cpus} and {gpus}.")
    ray, space = library(), budget.parse(memory)
    must_have(cpus, gpus)
    examples = _examples(data)
    model = placed(posterior, "cpu")
    job = Job(ray.put(model), ray.put(data if callable(data) else examples), dtype, embeddings, space)
    options = {"max_retries": RETRIES, "num_cpus": cpus, "num_gpus": gpus}
    if folder is None:
        predicted = _into_ray(posterior, examples, job, options, rows_per_shard, report)
        return predicted if ids is None else predicted.with_ids(ids)
    with begin(posterior, examples, folder, dtype, rows_per_shard, embeddings, space, ids) as writer:
        _into_folder(writer, job, options, report)
    return open_folder(folder)


def _into_folder(writer: ShardWriter, job: Job, options: dict[str, Any], report: Report) -> None:
    ray = library()
    task = ray.remote(**options)(write_shard)
    missing = writer.missing
    tasks = {task.remote(job, writer.shard_file(number)): number for number in missing}
    waiting = list(tasks)
    try:
        while waiting:
            (done,), waiting = ray.wait(waiting, num_returns=1)
            with writer.saying_what_is_complete():
                writer.enter(tasks[done], cast(Shard, gather([done])[0]))
            report("predicting", len(missing) - len(waiting), len(missing))
    except BaseException:
        for reference in waiting:
            ray.cancel(reference, force=True)
        raise
    writer.tidy()


def _into_ray(
    posterior: Posterior, examples: Examples, job: Job, options: dict[str, Any], step: int | None, report: Report
) -> Predictions:
    ray, N = library(), len(examples)
    _, K, C = probe(posterior, examples, job.embeddings, job.memory).shape
    step = step or max(1, SHARD_BYTES // (K * C * np.dtype(job.dtype).itemsize))
    parts = [slice(start, min(start + step, N)) for start in range(0, N, step)]
    task = ray.remote(**options, num_returns=2)(predict_part)
    pairs = [task.remote(job, rows) for rows in parts]
    waiting = [values for values, _ in pairs]
    while waiting:
        _, waiting = ray.wait(waiting, num_returns=1, fetch_local=False)
        report("predicting", len(parts) - len(waiting), len(parts))
    features: Sequence[Array | None] = gather([second for _, second in pairs])  # raises what a task raised
    like = [np.broadcast_to(np.zeros((), job.dtype), (rows.stop - rows.start, K, C)) for rows in parts]
    predictions = of_references([values for values, _ in pairs], like, "log-probs")
    return predictions.with_embeddings(np.concatenate(features)) if job.embeddings else predictions  # type: ignore[arg-type]


def write_shard(job: Job, file: ShardFile) -> Shard:
    """On a worker: predict a shard and write it."""
    return file.write(*predict_part(job, file.rows))


def predict_part(job: Job, rows: slice) -> tuple[Array, Array | None]:
    """On a worker: `[n, K, C]` log-probabilities of some rows, and their embeddings if those are asked for."""
    posterior, examples = _fetched(job)
    return predict_rows(posterior, examples, rows, job.dtype, job.embeddings, job.memory)


_kept: dict[str, tuple[Posterior, Examples]] = {}


def _fetched(job: Job) -> tuple[Posterior, Examples]:
    """The model and the data of a job, kept for its next task."""
    if job.name not in _kept:
        model, data = library().get([job.model, job.data])
        _kept.clear()
        _kept[job.name] = (placed(model, "auto"), _examples(data))
    return _kept[job.name]


def _examples(data: object) -> Examples:
    return as_examples(cast(Callable[[], object], data)() if callable(data) else data)
