"""Predictions on the machines of a cluster: work goes to where they are, scores and single rows come back.

A shard is either in a folder that every machine can read, or an array in Ray's object store. Work on a shard is a task
without state: if its process dies, Ray starts it again elsewhere. If an array that a task made is lost, Ray makes it
again.
"""

import pickle
import socket
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from poolwise.arrays import Array, ArrayOrTensor, as_array, as_view
from poolwise.cluster.row_cache import RowCache
from poolwise.cluster.session import RETRIES, gather, library
from poolwise.errors import FileError, ParameterError
from poolwise.parallel import one_thread_an_operation
from poolwise.predictions import PredictionKind, PredictionLayout, Predictions
from poolwise.predictions.manifest import NAME, checksum
from poolwise.predictions.passes import PoolPass
from poolwise.predictions.shards import ShardSource
from poolwise.predictions.sources import Source, array_source
from poolwise.predictions.traffic import Traffic

Result = TypeVar("Result")

# How many tasks are started for each processor of the cluster: one at work, one waiting.
_AHEAD = 2
# Bytes of fetched rows that are kept.
_CACHE = 1 << 26
# How many folders a worker keeps open.
_FOLDERS = 4


@dataclass(frozen=True)
class Folder:
    """A folder of shards, as it was when it was opened.

    Attributes:
        path: where every machine finds it.
        digest: the SHA-256 of its manifest.
    """

    path: str
    digest: str


@dataclass(frozen=True)
class Held:
    """A part of the pool that a task can read.

    Attributes:
        start: position of its first point in the pool.
        stop: and of the one after its last.
        place: a folder that the points are in, or a reference to an array of them alone.
    """

    start: int
    stop: int
    place: Any

    @property
    def first(self) -> int:
        """Position in the pool of what is row 0 where the points are."""
        return 0 if isinstance(self.place, Folder) else self.start


class RayShards:
    """Predictions on a cluster, for `Predictions`.

    Args:
        held: the parts, in the order of the points.
        shape: `(N, K, C)` of all together.
        dtype: the type that is stored.
        layout: order of the axes in arrays.
        cache: bytes of rows to keep in this process.
    """

    def __init__(
        self,
        held: Sequence[Held],
        shape: tuple[int, int, int],
        dtype: np.dtype[Any],
        layout: PredictionLayout = "NKC",
        cache: int = _CACHE,
    ) -> None:
        self.shape, self.where = shape, f"{len(held)} shard{'s' if len(held) > 1 else ''} on Ray of"
        self.dtype = as_view(np.empty(0, dtype)).dtype
        self.traffic = Traffic()
        self._held, self._layout = list(held), layout
        self._stops = np.array([part.stop for part in held])
        kept = min(shape[0], max(1, cache // (shape[1] * shape[2] * dtype.itemsize)))
        self._cache = RowCache(self._fetch, np.empty((kept, *shape[1:]), dtype))
        ray = library()
        self._pass_task = ray.remote(max_retries=RETRIES)(pass_over_shard)
        self._read_task = ray.remote(max_retries=RETRIES)(read_shard)

    def part(self, rows: slice) -> Tensor:
        """Consecutive rows."""
        return self.at(np.arange(rows.start, rows.stop))

    def at(self, positions_n: Array) -> Tensor:
        """Rows at some positions, from each shard in one task."""
        return as_view(self._cache.at(positions_n))

    def run_pass(self, task: PoolPass[Result], where: slice | Array) -> Iterator[tuple[slice, Result]]:
        """A pass over the shards where they are; the results of each shard come back together."""
        ray = library()
        shared, request = ray.put(task), len(ray.cloudpickle.dumps(task))
        parts = list(self._parts(where))
        limit = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        under_way: deque[tuple[int, Any]] = deque()
        begin = 0
        while parts or under_way:
            while parts and len(under_way) < limit:
                held, some = parts.pop(0)
                under_way.append((begin, self._pass_task.remote(held.place, self._layout, shared, some, held.first)))
                begin += _count(some)
                self.traffic += Traffic(tasks=1, sent=request + (0 if isinstance(some, slice) else some.nbytes))
            before, reference = under_way.popleft()
            results = gather([reference])[0]
            for part, result in results:
                whole = slice(before + part.start, before + part.stop)
                size = result.nbytes if isinstance(result, np.ndarray) else len(pickle.dumps(result))
                self.traffic += Traffic(scores=size)
                yield whole, as_view(result) if isinstance(result, np.ndarray) else result  # type: ignore[misc]

    def _parts(self, where: slice | Array) -> Iterator[tuple[Held, slice | Array]]:
        """Which rows of which shards a pass reads, in its order."""
        if isinstance(where, slice):
            for held in self._held:
                start, stop = max(where.start, held.start), min(where.stop, held.stop)
                if start < stop:
                    yield held, slice(start - held.first, stop - held.first)
            return
        shard_n = np.searchsorted(self._stops, where, "right")
        for some in np.split(where, np.flatnonzero(np.diff(shard_n)) + 1):
            if len(some):
                held = self._held[int(np.searchsorted(self._stops, some[0], "right"))]
                yield held, some - held.first

    def _fetch(self, positions_n: Array) -> Array:
        """Sorted rows, from all shards at the same time."""
        parts = list(self._parts(positions_n))
        tasks = [self._read_task.remote(held.place, self._layout, some) for held, some in parts]
        rows_n_K_C: Array = np.concatenate(gather(tasks))
        self.traffic += Traffic(
            tasks=len(tasks), sent=positions_n.nbytes, rows=len(positions_n), fetched=rows_n_K_C.nbytes
        )
        return rows_n_K_C


def open_folder(
    folder: str | Path,
    *,
    embeddings: ArrayOrTensor | str | Path | None = None,
    labelled_embeddings: ArrayOrTensor | str | Path | None = None,
) -> Predictions:
    """Predictions in a folder of shards that all machines of the cluster see at the same path.

    Args:
        folder: where the shards are.
        embeddings: `[N, D]` features; by default those in the folder, if there are any.
        labelled_embeddings: `[L, D]` features of the points that are labelled already.

    Example:
        >>> import poolwise as pw
        >>> from poolwise import cluster
        >>> with cluster.connect():  # doctest: +SKIP
        ...     batch = pw.select(cluster.open_folder("/shared/preds"), 100)
    """
    near = Predictions.open(folder, embeddings=embeddings, labelled_embeddings=labelled_embeddings, validate=False)
    return spread(near)


def spread(predictions: Predictions) -> Predictions:
    """Let the machines of the cluster read predictions that were opened from a folder of shards.

    Args:
        predictions: the predictions, from `Predictions.open`.
    Returns:
        The same predictions, read by the cluster.

    Example:
        >>> import poolwise as pw
        >>> from poolwise import cluster
        >>> with cluster.connect():  # doctest: +SKIP
        ...     batch = pw.select(cluster.spread(pw.Predictions.open("/shared/preds")), 100)
    """
    here = predictions.source
    if not isinstance(here, ShardSource):
        raise ParameterError(
            "Ray's workers read a folder of shards, not a single file: predict into one, or see "
            "poolwise.predictions.ShardWriter and adopt. Predictions in memory go into Ray with cluster.put."
        )
    place = Folder(str(here.folder.resolve()), _digest(here.folder))
    held = [Held(start, stop, place) for start, stop in pairwise(here.manifest.starts.tolist())]
    return predictions.moved_to(RayShards(held, here.shape, np.dtype(here.manifest.dtype)))


def put(
    values: ArrayOrTensor, shards: int = 1, *, kind: PredictionKind = "log-probs", layout: PredictionLayout = "NKC"
) -> Predictions:
    """Put predictions into Ray's object store, in one or more shards.

    Args:
        values: array or tensor whose axes are in the order of `layout`.
        shards: how many shards.
        kind: what the numbers are: `"log-probs"`, `"probs"` or `"logits"`.
        layout: order of the axes: `"NKC"`, `"KNC"` or `"NCK"`.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> from poolwise import cluster
        >>> with cluster.connect():  # doctest: +SKIP
        ...     batch = pw.select(cluster.put(np.log(np.full((100, 5, 2), 0.5)), shards=4), 10)
    """
    N = array_source(values, layout).shape[0]
    if not 1 <= shards <= N:
        raise ParameterError(f"shards must be between 1 and the number of points, {N}, not {shards}.")
    axis, ray = layout.index("N"), library()
    arrays = [np.ascontiguousarray(part) for part in np.array_split(as_array(values, "predictions"), shards, axis)]
    return of_references([ray.put(array) for array in arrays], arrays, kind, layout)


def of_references(
    references: Sequence[Any], like: Sequence[Any], kind: PredictionKind, layout: PredictionLayout = "NKC"
) -> Predictions:
    """Predictions in arrays that Ray holds.

    Args:
        references: to the arrays.
        like: of each, something with its shape and type.
        kind: what the numbers are.
        layout: order of the axes in each.
    """
    axis = layout.index("N")
    stops = np.cumsum([array.shape[axis] for array in like]).tolist()
    held = [Held(start, stop, place) for start, stop, place in zip([0, *stops[:-1]], stops, references, strict=True)]
    K, C = (like[0].shape[layout.index(name)] for name in "KC")
    return Predictions(RayShards(held, (stops[-1], K, C), np.dtype(like[0].dtype), layout), kind)


def pass_over_shard(
    place: Folder | Array, layout: PredictionLayout, task: PoolPass[Any], where: slice | Array, first: int
) -> list[tuple[slice, Any]]:
    """On a worker: the results of a pass over a shard; those that are tensors in one array."""
    with one_thread_an_operation():
        results = list(task.over(_source(place, layout), where, first))
    if all(isinstance(result, Tensor) for _, result in results):
        return [(slice(0, _count(where)), torch.cat([result for _, result in results]).numpy())]
    return results


def read_shard(place: Folder | Array, layout: PredictionLayout, positions_n: Array) -> Array:
    """On a worker: `[n, K, C]` rows of a shard, as they are stored."""
    rows: Array = _source(place, layout).at(positions_n).contiguous().numpy()
    return rows


_open: OrderedDict[Folder, ShardSource] = OrderedDict()


def _source(place: Folder | Array, layout: PredictionLayout) -> Source:
    if not isinstance(place, Folder):
        return array_source(place, layout)
    if place not in _open:
        path = Path(place.path)
        if not (path / NAME).exists():
            raise FileError(
                f"{path}: the worker on {socket.gethostname()} does not see this folder. Put it where every machine of "
                "the cluster sees it at the same path, or put the predictions into Ray with cluster.put."
            )
        if _digest(path) != place.digest:
            raise FileError(f"{path} was changed since it was opened. Open it again.")
        _open[place] = ShardSource(path)
        while len(_open) > _FOLDERS:
            _open.popitem(last=False)
    return _open[place]


def _digest(folder: Path) -> str:
    return checksum(folder / NAME)


def _count(where: slice | Array) -> int:
    return int(where.stop - where.start) if isinstance(where, slice) else len(where)
