"""Writing predictions shard by shard: each complete and on the disk before the manifest says so."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, get_args

import numpy as np

from poolwise.arrays import ArrayOrTensor
from poolwise.errors import FileError, ParameterError, ShapeError, StateError
from poolwise.predictions.forms import PredictionKind
from poolwise.predictions.ids import as_ids, write_ids
from poolwise.predictions.manifest import DTYPES, EMBEDDINGS, NAME, PART, Manifest, Shard, find_embeddings
from poolwise.predictions.shard_file import ShardFile, header
from poolwise.storage import FolderLock, remove_unfinished, replacing

# About how many bytes a shard takes by default: what a killed prediction may have to do again.
SHARD_BYTES = 1 << 26


class ShardWriter:
    """Writes a folder of shards, or resumes one that is unfinished. Use it in a `with` block, in one process at a time.

    A shard is written under another name, synced and renamed, and then recorded in the manifest. So the shards that the
    manifest names are always complete, also after a crash. They may be written in any order; `missing` lists the rest.

    Args:
        folder: where to write; it is made if it does not exist.
        shape: `(N, K, C)` of all shards together.
        kind: what the numbers are: `"log-probs"`, `"probs"` or `"logits"`.
        dtype: the type to store them in: `"float16"`, `"float32"` or `"float64"`.
        rows_per_shard: how many points go into one file; None for about 64 MB, or for the number in an existing folder.
        embeddings: D, if `[N, D]` embeddings are written as well.
        ids: `[N]` names of the points, such as file names.

    Example:
        >>> import numpy as np, tempfile, poolwise as pw
        >>> folder = tempfile.mkdtemp()
        >>> with pw.predictions.ShardWriter(folder, (4, 3, 2), kind="probs", rows_per_shard=3) as writer:
        ...     for number in writer.missing:
        ...         rows = writer.rows(number)
        ...         writer.put(number, np.full((rows.stop - rows.start, 3, 2), 0.5, np.float32))
        >>> pw.Predictions.open(folder)
        Predictions(N=4, K=3, C=2, 2 shards of float16 probs)
    """

    def __init__(
        self,
        folder: str | Path,
        shape: tuple[int, int, int],
        *,
        kind: PredictionKind = "log-probs",
        dtype: str = "float16",
        rows_per_shard: int | None = None,
        embeddings: int | None = None,
        ids: Sequence[str] | None = None,
    ) -> None:
        N, K, C = shape
        if min(shape) < 1:
            raise ShapeError(f"shape must be (N, K, C), each at least 1, not {shape}.")
        for name, value, options in (("kind", kind, get_args(PredictionKind)), ("dtype", dtype, DTYPES)):
            if value not in options:
                raise ParameterError(f"{name} must be one of {', '.join(options)}, not {value!r}.")
        if rows_per_shard is not None and rows_per_shard < 1:
            raise ParameterError(f"rows_per_shard must be at least 1, not {rows_per_shard}.")
        step = rows_per_shard or max(1, SHARD_BYTES // (K * C * np.dtype(dtype).itemsize))
        shards = [Shard(min(step, N - start)) for start in range(0, N, step)]
        self._folder, self._any_step = Path(folder), rows_per_shard is None
        self._manifest = Manifest(kind, "NKC", dtype, N, K, C, embeddings, shards)
        self._ids = None if ids is None else as_ids(ids, N)
        self._lock: FolderLock | None = None

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot write to {self._folder} ({error.strerror}).") from error
        lock = FolderLock(self._folder)
        lock.acquire()
        self._lock = lock
        try:
            self._begin()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def count(self) -> int:
        """How many shards there are in all."""
        return len(self._manifest.shards)

    @property
    def missing(self) -> list[int]:
        """The shards that are not written yet."""
        return [number for number, shard in enumerate(self._manifest.shards) if shard.sha256 is None]

    def rows(self, number: int) -> slice:
        """Positions of the points of a shard.

        Args:
            number: which shard.
        """
        starts = self._manifest.starts
        return slice(int(starts[number]), int(starts[number + 1]))

    def put(self, number: int, values_n_K_C: ArrayOrTensor, embeddings_n_D: ArrayOrTensor | None = None) -> None:
        """Write a shard; when this returns, it is on the disk.

        Args:
            number: which shard.
            values_n_K_C: its predictions.
            embeddings_n_D: the embeddings of its points.
        """
        self._must_be_open()
        with self.saying_what_is_complete():
            self.enter(number, self.shard_file(number).write(values_n_K_C, embeddings_n_D))

    def shard_file(self, number: int) -> ShardFile:
        """The file of a shard: another process can write it, and this one then records it with `enter`.

        Args:
            number: which shard.
        """
        manifest, rows = self._manifest, self.rows(number)
        width = manifest.embeddings
        return ShardFile(
            self._folder.resolve(),
            number,
            rows.start,
            (rows.stop - rows.start, manifest.samples, manifest.classes),
            manifest.dtype,
            None if width is None else (manifest.rows, width),
        )

    def enter(self, number: int, shard: Shard) -> None:
        """Record in the manifest a shard that was written.

        Args:
            number: which shard.
            shard: what the `write` of its `shard_file` returned.
        """
        self._must_be_open()
        before, self._manifest.shards[number] = self._manifest.shards[number], shard
        try:
            self._manifest.write(self._folder)
        except FileError:
            self._manifest.shards[number] = before
            raise

    @contextmanager
    def saying_what_is_complete(self) -> Iterator[None]:
        """Within this context, errors of files also say how many shards are complete."""
        try:
            yield
        except FileError as error:
            raise FileError(
                f"{error} {self._manifest.written} of {self.count} shards are complete. Make room and give the same "
                "command or call again: it resumes from there."
            ) from error

    def tidy(self) -> None:
        """Remove the files that a killed process left half written. No other process may be writing."""
        remove_unfinished(self._folder)

    def _must_be_open(self) -> None:
        if self._lock is None:
            raise StateError("a ShardWriter writes inside its context: with ShardWriter(...) as writer.")

    def _begin(self) -> None:
        """Take up what is in the folder."""
        if (self._folder / NAME).exists():
            self._resume(Manifest.read(self._folder))
        elif any(self._folder.glob("part-*.npy")):
            raise FileError(f"{self._folder} has shards without a {NAME}. Choose another folder.")
        self.tidy()
        self._need_room()
        if self._manifest.embeddings is not None and self.missing:
            self._make_embeddings()
        if self._ids is not None:
            write_ids(self._folder, self._ids)
        if not (self._folder / NAME).exists():
            self._manifest.write(self._folder)

    def _resume(self, found: Manifest) -> None:
        mine = self._manifest
        for name in ("kind", "layout", "dtype", "rows", "samples", "classes", "embeddings"):
            there, here = getattr(found, name), getattr(mine, name)
            if there != here:
                raise FileError(
                    f"{self._folder} has predictions with {name} = {there}, not {here}. Use the settings "
                    "that it was begun with, or another folder."
                )
        if not self._any_step and [shard.rows for shard in found.shards] != [shard.rows for shard in mine.shards]:
            raise FileError(
                f"{self._folder} has shards of {found.shards[0].rows} rows, not {mine.shards[0].rows}. Use the "
                "rows_per_shard that it was begun with, or another folder."
            )
        for number, shard in enumerate(found.shards):
            if shard.sha256 is not None and not (self._folder / PART.format(number)).exists():
                found.shards[number] = Shard(shard.rows)  # someone removed it, so that it is made again
            elif shard.sha256 is not None:
                found.find(self._folder, number)
        self._manifest = found

    def _need_room(self) -> None:
        """A disk that is too small is an error now, not in some hours."""
        manifest = self._manifest
        row = manifest.samples * manifest.classes * np.dtype(manifest.dtype).itemsize
        if not (self._folder / EMBEDDINGS).exists():
            row += 4 * (manifest.embeddings or 0)
        needed = row * sum(manifest.shards[number].rows for number in self.missing)
        free = shutil.disk_usage(self._folder).free
        if needed > free:
            raise FileError(
                f"{self._folder}: there is no room for {needed / 1e6:,.1f} MB of predictions; {free / 1e6:,.1f} MB "
                "are free. Make room, or choose another folder."
            )

    def _make_embeddings(self) -> None:
        """Room for the embeddings of all points in one file, which every reader can map."""
        manifest, path = self._manifest, self._folder / EMBEDDINGS
        shape = (manifest.rows, manifest.embeddings or 0)
        if path.exists():
            find_embeddings(self._folder, shape)
            return
        if manifest.written:
            raise FileError(f"{path}: is gone. Restore it from a copy, or predict again into another folder.")
        with replacing(path) as file:
            beginning = header(np.broadcast_to(np.float32(0), shape))
            file.write(beginning)
            file.flush()
            size = len(beginning) + 4 * shape[0] * shape[1]
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
