"""Predictions in a folder of shards, read in parts; no file is mapped or loaded whole.

Rows are read into a buffer, so memory stays small whatever the size of the files. A file that is cut short while it is
read is an error, where a mapped file would end the process.
"""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from torch import Tensor

from poolwise.arrays import Array, as_view
from poolwise.errors import FileError
from poolwise.predictions.manifest import EMBEDDINGS, NAME, PART, Manifest, checksum, find_embeddings, rows_checksum

# Reading up to this many bytes more than are needed takes less time than another call.
_PAGE = 4096
# How many shards are kept open.
_OPEN = 256


def is_shards(path: str | Path) -> bool:
    """Whether a path is a folder of shards, with or without a manifest."""
    return (Path(path) / NAME).exists() or (Path(path) / PART.format(0)).exists()


class ShardSource:
    """The numbers in a folder of shards; the manifest and the size, type and shape of every file are checked.

    Args:
        folder: the folder.
        verify: whether to compare the contents with their checksums as well.
    """

    def __init__(self, folder: Path, *, verify: bool = False) -> None:
        self.folder, self.manifest = folder, _complete(folder)
        self.kind, self.layout = self.manifest.kind, self.manifest.layout
        count = len(self.manifest.shards)
        self._begins = [self.manifest.find(folder, number) for number in range(count)]
        self._starts = self.manifest.starts
        self.shape = self.manifest.rows, self.manifest.samples, self.manifest.classes
        self._dtype = np.dtype(self.manifest.dtype)
        self.dtype = as_view(np.empty(0, self._dtype)).dtype
        self.where = f"{count} shard{'s' if count > 1 else ''} of"
        # In every layout a file is one or more pieces, and in each piece the points follow one another.
        _, K, C = self.shape
        self._pieces = K if self.layout == "KNC" else 1
        self._width = K * C // self._pieces * self._dtype.itemsize
        self._room = threading.local()
        self._lock = threading.Lock()
        self._files: dict[int, int] = {}
        weakref.finalize(self, _close, self._files)
        if verify:
            self._verify()

    def part(self, rows: slice) -> Tensor:
        """Consecutive rows, in a buffer that the calling thread's next call overwrites."""
        n = rows.stop - rows.start
        if getattr(self._room, "rows", 0) < n:
            self._room.buffer, self._room.rows = np.empty(n * self._pieces * self._width, np.uint8), n
        buffer = self._room.buffer[: n * self._pieces * self._width].reshape(self._pieces, n, self._width)
        self._read(rows.start, buffer)
        return self._as_tensor(buffer)

    def at(self, positions_n: Array) -> Tensor:
        """Rows at some positions; neighbours are read together."""
        result = np.empty((self._pieces, len(positions_n), self._width), np.uint8)
        order_n = np.argsort(positions_n, kind="stable")
        sorted_n = positions_n[order_n]
        far_n = np.flatnonzero(np.diff(sorted_n) > max(1, _PAGE // self._width)) + 1
        for run in np.split(np.arange(len(sorted_n)), far_n) if len(sorted_n) else ():
            first, last = int(sorted_n[run[0]]), int(sorted_n[run[-1]])
            span = np.empty((self._pieces, last - first + 1, self._width), np.uint8)
            self._read(first, span)
            result[:, order_n[run]] = span[:, sorted_n[run] - first]
        return self._as_tensor(result)

    def embeddings(self) -> Array | None:
        """`[N, D]` embeddings, mapped; None if the folder has none."""
        if self.manifest.embeddings is None:
            return None
        path, shape = self.folder / EMBEDDINGS, (self.manifest.rows, self.manifest.embeddings)
        find_embeddings(self.folder, shape)
        mapped: Array = np.lib.format.open_memmap(path, mode="r")
        return mapped

    def _as_tensor(self, bytes_P_n_W: Array) -> Tensor:
        n, (_, K, C) = bytes_P_n_W.shape[1], self.shape
        sizes = {"N": n, "K": K, "C": C}
        values = bytes_P_n_W.reshape(-1).view(self._dtype).reshape([sizes[axis] for axis in self.layout])
        return as_view(values.transpose([self.layout.index(axis) for axis in "NKC"]))

    def _read(self, start: int, out_P_n_W: Array) -> None:
        """Fill a buffer with consecutive rows, across shards."""
        stop, number = start + out_P_n_W.shape[1], int(np.searchsorted(self._starts, start, "right")) - 1
        done = start
        while done < stop:
            begin, end = int(self._starts[number]), int(self._starts[number + 1])
            last = min(stop, end)
            with self._opened(number) as file:
                for piece in range(self._pieces):
                    offset = self._begins[number] + (piece * (end - begin) + done - begin) * self._width
                    self._fill(number, file, offset, out_P_n_W[piece, done - start : last - start].reshape(-1))
            done, number = last, number + 1

    def _fill(self, number: int, file: int, offset: int, out: Array) -> None:
        while len(out):
            try:
                count = os.preadv(file, [out.data], offset)
            except OSError as error:
                raise FileError(f"{self._path(number)}: cannot be read ({error.strerror}).") from error
            if count == 0:
                raise FileError(f"{self._path(number)}: ends early. It was cut short after it was opened.")
            out, offset = out[count:], offset + count

    @contextmanager
    def _opened(self, number: int) -> Iterator[int]:
        """The file of a shard; the first ones stay open."""
        with self._lock:
            file = self._files.get(number)
            kept = file is not None or len(self._files) < _OPEN
            if file is None:
                try:
                    file = os.open(self._path(number), os.O_RDONLY)
                except OSError as error:
                    raise FileError(f"{self._path(number)}: cannot be read ({error.strerror}).") from error
                if kept:
                    self._files[number] = file
        try:
            yield file
        finally:
            if not kept:
                os.close(file)

    def _path(self, number: int) -> Path:
        return self.folder / PART.format(number)

    def _verify(self) -> None:
        embeddings = self.embeddings()
        for number, shard in enumerate(self.manifest.shards):
            rows = slice(*self._starts[number : number + 2])
            wrong = None
            if checksum(self._path(number)) != shard.sha256:
                wrong = PART.format(number)
            elif embeddings is not None and rows_checksum(embeddings[rows]) != shard.embeddings_sha256:
                wrong = EMBEDDINGS
            if wrong is not None:
                raise FileError(
                    f"{self.folder / wrong}: rows {rows.start} to {rows.stop - 1} are not what was written (another "
                    f"checksum). Restore it from a copy, or remove {PART.format(number)} and predict again: only what "
                    "is missing is made."
                )


def _close(files: dict[int, int]) -> None:
    for file in files.values():
        os.close(file)


def _complete(folder: Path) -> Manifest:
    """The manifest of a folder in which every shard is written and there are no others."""
    if not (folder / NAME).exists():
        raise FileError(
            f"{folder} has shards but no {NAME}. If another program wrote them, describe them once with "
            "poolwise.predictions.adopt(folder, kind=...)."
        )
    manifest = Manifest.read(folder)
    count = len(manifest.shards)
    if manifest.written < count:
        raise FileError(
            f"{folder} has {manifest.written} of {count} shards: its prediction is unfinished. Give the same command "
            "or call again, and it resumes from there."
        )
    known = {PART.format(number) for number in range(count)}
    unknown = sorted(path.name for path in folder.glob("part-*.npy") if path.name not in known)
    if unknown:
        raise FileError(f"{folder / unknown[0]} is not in the manifest, which has {count} shards. Move it elsewhere.")
    return manifest
