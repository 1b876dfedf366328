"""The features that a learner gives to its methods: the network's own, or fixed features of the data, kept once."""

import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from poolwise import budget
from poolwise.arrays import Array, as_embeddings
from poolwise.data.examples import Subset, TensorExamples
from poolwise.data.features import FeatureFunction, blocks
from poolwise.data.pool import Pool
from poolwise.errors import FileError, MissingInputError, ParameterError
from poolwise.posteriors.posterior import Posterior
from poolwise.selection.inputs import FeatureKind
from poolwise.selection.registry import Method
from poolwise.storage import replacing
from poolwise.user_code import load_function

FILE = "features.npy"
"""Fixed features in a learner's directory, where they do not fit the memory."""

FeaturesLike = str | Array | torch.Tensor | FeatureFunction | None
"""What `features=` may be: `"network"`, `"fixed"`, an `[N, D]` array, a function, or `"package.module:function"`."""

# Rows that are copied at a time.
_ROWS = 4096


class Chosen(NamedTuple):
    """Which features a method gets.

    Attributes:
        words: what they are, for the diagnostics.
        labelled: `[L, D]` those of the labelled examples.
        network: whether they are the network's own.
    """

    words: str
    labelled: Array
    network: bool = False


class Features:
    """Features of the examples of a pool.

    Args:
        wanted: what the user chose; None leaves it to the method.
        pool: the pool.
        memory: fixed features that take more than half of it are kept in a mapped file.

    Attributes:
        setting: what was wanted, in words.
        given: the array or function, which a text cannot stand for; or None.
        folder: where the learner is kept, or None.
        whole_numbers: whether whole numbers are quantities, see `poolwise.data.features`.
    """

    def __init__(self, wanted: FeaturesLike, pool: Pool, memory: int | str) -> None:
        self._pool, self._space = pool, budget.parse(memory)
        self.folder: Path | None = None
        self._kept_N_D: Array | None = None
        self._function: FeatureFunction | None = None
        self.given: Any = None
        self.whole_numbers = False
        self._wanted: str | None = None
        self.setting: str | None = None
        if isinstance(wanted, str) and ":" in wanted:
            self._function, self._wanted = load_function(wanted, "function of features"), "function"
            self.setting = wanted
        elif wanted is None or (isinstance(wanted, str) and wanted in ("network", "fixed")):
            self.setting = self._wanted = wanted
        elif isinstance(wanted, str | bool):
            raise ParameterError(
                'features must be "network", "fixed", an [N, D] array, a function from a batch of inputs to [n, D] '
                f'features, or the place of one, "package.module:function", not {budget.shorten(wanted)}.'
            )
        elif callable(wanted):
            self._function = self.given = wanted
            self._wanted, self.setting = "function", f"function {_name(wanted)}"
        else:
            self._kept_N_D = self.given = as_embeddings(wanted, "features", len(pool))
            self._wanted = "array"
            self.setting = array_setting(self._kept_N_D)

    def extend(self, more: object, count: int) -> None:
        """Take features of examples that were appended to the pool; only an array needs them.

        Args:
            more: `[M, D]` features, or None.
            count: M, how many examples were appended.
        """
        if self._wanted != "array":
            if more is not None:
                raise ParameterError("this learner was not given an array of features: leave features out.")
            return
        if more is None:
            raise MissingInputError(
                f"this learner was given an array of features. Pass those of the new examples too: features= an "
                f"[{count}, {self.given.shape[1]}] array."
            )
        rows_M_D = as_embeddings(more, "features", count)
        if rows_M_D.shape[1] != self.given.shape[1]:
            raise ParameterError(f"features must have {self.given.shape[1]} columns, not {rows_M_D.shape[1]}.")
        self._kept_N_D = self.given = np.concatenate([self.given, rows_M_D.astype(self.given.dtype)])
        self.setting = array_setting(self.given)

    def check(self, method: Method, posterior: Posterior) -> None:
        """Refuse a method for which there are no features, as far as that is known before anything is trained.

        Fixed features are computed now, and kept.

        Args:
            method: a method that needs embeddings.
            posterior: the posterior, which may be untrained.
        """
        alone = getattr(posterior, "embeds_inputs", False)  # there is nothing but fixed features
        if self._wanted == "network" or (self._wanted is None and not alone and method.features == "network"):
            return
        try:
            self._whole()
        except MissingInputError as error:
            if self._wanted is not None:
                raise
            if alone:
                raise _missing(method, _no_own(posterior), error) from None

    def choose(self, method: Method, posterior: Posterior) -> Chosen:
        """Which features a method gets: those that the user chose, else those that it prefers, else any there are.

        Args:
            method: the method.
            posterior: the trained posterior.
        """
        if self._wanted == "network":
            return Chosen("network", self._embed_labelled(posterior), True)
        if self._wanted is not None:
            return Chosen(self._wanted, self.rows(self._pool.labelled))
        try:
            return self._preferred(posterior, method.features)
        except MissingInputError as first:
            other: FeatureKind = "fixed" if method.features == "network" else "network"
            try:
                chosen = self._preferred(posterior, other)
            except MissingInputError as second:
                raise _missing(method, first, second) from None
            whose = "the posterior has none of its own" if other == "fixed" else "the data has no fixed ones"
            return chosen._replace(words=f"{other}, since {whose}")

    def _preferred(self, posterior: Posterior, kind: FeatureKind) -> Chosen:
        if kind == "fixed":
            return Chosen(kind, self.rows(self._pool.labelled))
        if getattr(posterior, "embeds_inputs", False):
            raise _no_own(posterior)
        return Chosen(kind, self._embed_labelled(posterior), True)

    def _embed_labelled(self, posterior: Posterior) -> Array:
        return posterior.embed(self._pool.labelled_examples(), memory=self._space)

    def rows(self, positions_n: Array) -> Array:
        """`[n, D]` fixed features of some examples: in memory, or mapped where they do not fit."""
        whole_N_D = self._whole()
        if len(positions_n) == len(whole_N_D) and np.array_equal(positions_n, np.arange(len(whole_N_D))):
            return whole_N_D
        if not self._is_large(len(positions_n), whole_N_D):
            return whole_N_D[positions_n]
        part_n_D, path = _mapped((len(positions_n), whole_N_D.shape[1]), whole_N_D.dtype)
        for start in range(0, len(positions_n), _ROWS):
            part_n_D[start : start + _ROWS] = whole_N_D[positions_n[start : start + _ROWS]]
        return _reopened(part_n_D, path)

    def _whole(self) -> Array:
        """`[N, D]` fixed features of all examples, kept once they are computed; those of new rows are added."""
        kept_N_D = self._kept_N_D
        if kept_N_D is None or len(kept_N_D) < len(self._pool):
            kept_N_D = self._view() if self._function is None else None
            self._kept_N_D = kept_N_D = self._compute() if kept_N_D is None else kept_N_D
        elif len(kept_N_D) > len(self._pool):  # rows were taken back
            self._kept_N_D = kept_N_D = kept_N_D[: len(self._pool)]
        return kept_N_D

    def _view(self) -> Array | None:
        """The inputs themselves, where they are rows of features already."""
        data = self._pool.data
        if type(data) is not TensorExamples or data.inputs.dtype != torch.float32 or data.mean is not None:
            return None
        return as_embeddings(data.inputs.detach().cpu().flatten(1).numpy(), "features")

    def _compute(self) -> Array:
        kept_n_D = self._kept_N_D
        read = self._blocks(known=0 if kept_n_D is None else len(kept_n_D))
        first = next(read, None)
        if first is None:
            return np.empty((0, 1), np.float32)
        shape = (len(self._pool), first[1].shape[1])
        if self._is_large(len(self._pool), first[1]):
            return self._on_disk(shape)
        whole_N_D = np.empty(shape, np.float32)
        for rows, part_n_D in _with_kept(kept_n_D, (first, *read)):
            whole_N_D[rows] = part_n_D
        return whole_N_D

    def _on_disk(self, shape: tuple[int, int]) -> Array:
        """The features in a mapped file: one that is there already, if it fits, or a new one."""
        kept_n_D = self._kept_N_D
        if self.folder is None:
            whole_N_D, path = _mapped(shape, np.dtype(np.float32))
            for rows, part_n_D in _with_kept(kept_n_D, self._blocks(known=0 if kept_n_D is None else len(kept_n_D))):
                whole_N_D[rows] = part_n_D
            return _reopened(whole_N_D, path)
        path = self.folder / FILE
        kept_n_D = _opened(path, shape) if kept_n_D is None else kept_n_D
        if kept_n_D is None or not self._fits(kept_n_D):
            kept_n_D = None
        if kept_n_D is None or len(kept_n_D) < shape[0]:
            with replacing(path) as file:
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                known = 0 if kept_n_D is None else len(kept_n_D)
                for _, part_n_D in _with_kept(kept_n_D, self._blocks(known=known)):
                    file.write(np.ascontiguousarray(part_n_D, "<f4").data)
            kept_n_D = _opened(path, shape)
        if kept_n_D is None:
            raise FileError(f"{path} cannot be read back. Check the disk, or pass a larger memory=.")
        return kept_n_D

    def _fits(self, kept_n_D: Array) -> bool:
        """Whether some blocks of the saved features are the same when they are computed now.

        The learner compares the data with its fingerprint. These blocks show whether the function has changed, or data
        that was not compared.
        """
        first = Subset(self._pool.data, np.arange(len(kept_n_D)))
        some = blocks(first, self._function, whole_numbers=self.whole_numbers, some=True)
        return all(np.array_equal(kept_n_D[rows], part_n_D) for rows, part_n_D in some)

    def _blocks(self, known: int = 0) -> Iterator[tuple[slice, Array]]:
        return blocks(self._pool.data, self._function, whole_numbers=self.whole_numbers, known=known)

    def _is_large(self, count: int, like_n_D: Array) -> bool:
        return bool(count * like_n_D.shape[1] * like_n_D.itemsize > self._space // 2)


def _no_own(posterior: Posterior) -> MissingInputError:
    return MissingInputError(f"{type(posterior).__name__} has no embeddings of its own.")


def _missing(method: Method, *reasons: Exception) -> MissingInputError:
    """Why there is no kind of features."""
    return MissingInputError(f"{method.name} needs embeddings. {' '.join(map(_sentence, reasons))}")


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]


def _with_kept(kept_n_D: Array | None, read: Iterable[tuple[slice, Array]]) -> Iterator[tuple[slice, Array]]:
    """Blocks of features in order: first the saved rows that are not computed again, then those that are read.

    The last saved block may have been cut short by the end of the data. It is computed again as a whole, since the
    rounding of a network may depend on what else is in a block.
    """
    computed = iter(read)
    first = next(computed, None)
    if kept_n_D is not None:
        stop = len(kept_n_D) if first is None else first[0].start
        for start in range(0, stop, _ROWS):
            rows = slice(start, min(start + _ROWS, stop))
            yield rows, kept_n_D[rows]
    if first is not None:
        yield first
        yield from computed


def _opened(path: Path, shape: tuple[int, int]) -> Array | None:
    """A file of features, mapped, if there is one of that shape, or of the first rows of it."""
    with suppress(OSError, ValueError, EOFError):
        found: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        fits = found.ndim == 2 and len(found) <= shape[0] and found.shape[1] == shape[1]
        if fits and found.dtype == np.float32:
            return found
    return None


def _mapped(shape: tuple[int, int], dtype: np.dtype[Any]) -> tuple[Array, Path]:
    """A temporary file for features, mapped."""
    number, name = tempfile.mkstemp(".npy", "poolwise-features-")
    os.close(number)
    path = Path(name)
    try:
        made: Array = np.lib.format.open_memmap(path, "w+", dtype, shape)
        if hasattr(os, "posix_fallocate"):  # a full disk is then an error now, not a crash when pages are written
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise FileError(
            f"there is no room in {path.parent} for features of {shape[0]:,} × {shape[1]:,} numbers "
            f"({error.strerror}). Free some, or pass a larger memory=."
        ) from error
    return made, path


def _reopened(mapped: Array, path: Path) -> Array:
    """The same file for reading; it is gone from the disk once nobody reads it any more."""
    mapped.flush()  # type: ignore[attr-defined]
    found: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    with suppress(OSError):  # Windows keeps a file that is open
        path.unlink()
    return found


def _name(function: Any) -> str:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', None) or type(function).__module__}:{name}"


def array_setting(array_N_D: Array) -> str:
    """What stands for an array of features in the settings of a learner."""
    return f"array {list(array_N_D.shape)} {_checksum(array_N_D):08x}"


def _checksum(array_N_D: Array) -> int:
    """CRC-32 of all numbers as float64, whatever type they are stored as."""
    value = 0
    for start in range(0, len(array_N_D), _ROWS):
        value = zlib.crc32(np.ascontiguousarray(array_N_D[start : start + _ROWS], "<f8").data, value)
    return value


def check_features(wanted: object) -> None:
    """Refuse a text that names no features, for configurations."""
    if wanted in (None, "network", "fixed") or (isinstance(wanted, str) and ":" in wanted):
        return
    raise ParameterError(
        f'features must be "network", "fixed" or the place of a function, "package.module:function", not '
        f"{budget.shorten(wanted)}."
    )
