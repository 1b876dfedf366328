"""Predictions of K posterior samples for N points over C classes, wherever they are stored."""

from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Self, TypeVar, get_args

import torch

from poolwise import budget
from poolwise.arrays import Array, as_embeddings
from poolwise.errors import NotFiniteError, NotNormalisedError, ParameterError, ShapeError
from poolwise.parallel import one_thread_an_operation
from poolwise.predictions.blocks import Block, Kind
from poolwise.predictions.files import open_array
from poolwise.predictions.passes import FarSource, Walk
from poolwise.predictions.shards import ShardSource, is_shards
from poolwise.predictions.sources import Layout, Source, array_source, unflattened
from poolwise.predictions.traffic import Traffic
from poolwise.progress import Report, silent

Result = TypeVar("Result")


class Predictions:
    """Predictions `[N, K, C]`: N pool points, K posterior samples, C classes.

    Sample k must be the same parameter draw for every point. The values are read where they are: nothing is copied
    or converted as a whole. Float16 and float32 are computed in float32, float64 in float64.

    Use `from_log_probs`, `from_probs`, `from_logits` or `open`; none guesses what it was given.
    """

    def __init__(
        self,
        source: Source,
        kind: Kind,
        *,
        embeddings: Array | None = None,
        labelled_embeddings: Array | None = None,
        name: str = "",
    ) -> None:
        self._source, self._kind, self._name = source, kind, name
        self._index: Array | None = None
        self.dtype = torch.float64 if source.dtype == torch.float64 else torch.float32
        self.embeddings, self.labelled_embeddings = embeddings, labelled_embeddings
        self._checked = False

    @classmethod
    def from_log_probs(
        cls,
        values: object,
        *,
        embeddings: object = None,
        labelled_embeddings: object = None,
        layout: Layout = "NKC",
        validate: bool = True,
    ) -> Self:
        """Predictions from log-probabilities, normalised over the classes; -inf is a probability of zero.

        Args:
            values: array or tensor whose axes are in the order of `layout`.
            embeddings: `[N, D]` features of the pool points, for the methods that need them.
            labelled_embeddings: `[L, D]` features of the points that are labelled already.
            layout: order of the axes: `"NKC"`, `"KNC"` or `"NCK"`.
            validate: check all values now; if False, the first pass over the pool checks them as it goes.
        """
        return cls._build(array_source(values, layout), "log-probs", embeddings, labelled_embeddings, validate)

    @classmethod
    def from_probs(
        cls,
        values: object,
        *,
        embeddings: object = None,
        labelled_embeddings: object = None,
        layout: Layout = "NKC",
        validate: bool = True,
    ) -> Self:
        """Predictions from probabilities; the arguments are those of `from_log_probs`."""
        return cls._build(array_source(values, layout), "probs", embeddings, labelled_embeddings, validate)

    @classmethod
    def from_logits(
        cls,
        values: object,
        *,
        embeddings: object = None,
        labelled_embeddings: object = None,
        layout: Layout = "NKC",
        validate: bool = True,
    ) -> Self:
        """Predictions from raw network outputs, normalised over the classes when they are read.

        The arguments are those of `from_log_probs`.
        """
        return cls._build(array_source(values, layout), "logits", embeddings, labelled_embeddings, validate)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        kind: Kind | None = None,
        layout: Layout | None = None,
        key: str | None = None,
        samples: int | None = None,
        embeddings: object = None,
        labelled_embeddings: object = None,
        validate: bool = True,
        verify: bool = False,
    ) -> Self:
        """Predictions in a file or in a folder of shards, read where they are and never loaded whole.

        `.npy` files are mapped and shards are read in parts; the columns of `.parquet`, `.arrow` and `.feather` files
        are unpacked once, to a temporary file; `.npz` and `.pt` are loaded, safely.

        Args:
            path: the file, or a folder with a manifest or with Parquet or Arrow files only.
            kind: `"log-probs"` (the default), `"probs"` or `"logits"`; a manifest knows it.
            layout: order of the axes in the file, `"NKC"` by default; a manifest knows it.
            key: which array of an `.npz` or `.pt`, or which column, where there is more than one.
            samples: K, where the K·C numbers of a point are one flat list.
            embeddings: an array or the path of a file; by default those in the folder, if there are any.
            labelled_embeddings: likewise.
            validate: check all values now, in one streaming pass; if False, the first pass over the pool does it.
            verify: compare shards with their checksums, which reads all of them.
        """
        for name, value, options in (("kind", kind, get_args(Kind)), ("layout", layout, get_args(Layout))):
            if value is not None and value not in options:
                raise ParameterError(f"{name} must be one of {', '.join(options)}, not {value!r}.")
        if is_shards(path):
            if key is not None or samples is not None:
                raise ParameterError(f"{path} is a folder of shards, which needs neither key nor samples.")
            shards = ShardSource(Path(path), verify=verify)
            for name, value, known in (("kind", kind, shards.kind), ("layout", layout, shards.layout)):
                if value not in (None, known):
                    raise ParameterError(
                        f"{path}: its manifest says {name} {known}, not {value}. Leave {name} out; if the manifest is "
                        "wrong and Poolwise did not write the shards, remove it and use predictions.adopt again."
                    )
            source: Source = shards
            kind, embeddings = shards.kind, shards.embeddings() if embeddings is None else embeddings
        else:
            array, mapping = open_array(path, key)
            if verify:
                raise ParameterError(f"{path} has no checksums to verify: only a folder of shards has.")
            if samples is not None:
                array = unflattened(array, samples, layout or "NKC")
            source = array_source(array, layout or "NKC", mapping)
        if isinstance(embeddings, str | Path):
            embeddings = open_array(embeddings)[0]
        if isinstance(labelled_embeddings, str | Path):
            labelled_embeddings = open_array(labelled_embeddings)[0]
        return cls._build(source, kind or "log-probs", embeddings, labelled_embeddings, validate, str(path))

    @classmethod
    def _build(
        cls,
        source: Source,
        kind: Kind,
        embeddings: object,
        labelled_embeddings: object,
        validate: bool,
        name: str = "",
    ) -> Self:
        features, labelled = _check_embeddings(embeddings, labelled_embeddings, source.shape[0])
        predictions = cls(source, kind, embeddings=features, labelled_embeddings=labelled, name=name)
        if validate:
            predictions.check()
        return predictions

    def with_embeddings(self, embeddings: object = None, labelled_embeddings: object = None) -> "Predictions":
        """The same predictions with other embeddings; None keeps those that are there."""
        other = copy(self)
        other.embeddings, other.labelled_embeddings = _check_embeddings(
            self.embeddings if embeddings is None else embeddings,
            self.labelled_embeddings if labelled_embeddings is None else labelled_embeddings,
            len(self),
        )
        return other

    @property
    def source(self) -> Source:
        """Where the numbers are."""
        return self._source

    def moved_to(self, source: Source) -> "Predictions":
        """The same predictions, read from another place."""
        other = copy(self)
        other._source = source
        return other

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(N, K, C)`."""
        return len(self), *self._source.shape[1:]

    def __len__(self) -> int:
        return self._source.shape[0] if self._index is None else len(self._index)

    def __repr__(self) -> str:
        N, K, C = self.shape
        stored = f"{self._source.where} {self._source.dtype} {self._kind}".strip().replace("torch.", "")
        return f"Predictions(N={N}, K={K}, C={C}, {stored})"

    @property
    def traffic(self) -> Traffic:
        """What was moved between machines so far; nothing, where the predictions are on this one."""
        return self._source.traffic if isinstance(self._source, FarSource) else Traffic()

    @property
    def on_disk(self) -> bool:
        """Whether a row that is read anew comes from a file of this machine."""
        return bool(self._source.where) and not isinstance(self._source, FarSource)

    @property
    def row_bytes(self) -> int:
        """Bytes that one row takes in working precision."""
        _, K, C = self.shape
        return K * C * (8 if self.dtype == torch.float64 else 4)

    def scan(
        self,
        kernel: Callable[[Block], Result],
        memory: int = budget.DEFAULT,
        report: Report = silent,
        stage: str = "reading the pool",
    ) -> Iterator[tuple[slice, Result]]:
        """Walk the pool in order, in blocks sized for the cache and the memory budget, several at a time.

        The first complete walk also checks the values.

        Args:
            kernel: from a block of rows to whatever is wanted of them; each row's part must depend on that row only,
                so that no result depends on the size of a block. Blocks are reused, since fresh memory costs more than
                the arithmetic on it: the result must not be a view of one, and only `probs` may be overwritten.
            memory: working memory to stay within, in bytes.
            report: told about progress.
            stage: what to call the walk.
        Yields:
            The rows and the kernel's result for each block.
        """
        step = budget.block_rows(self.row_bytes, memory)
        walk = Walk(kernel, self._kind, self.dtype, step, not self._checked)
        where = slice(0, len(self)) if self._index is None else self._index
        source = self._source
        results = source.walk(walk, where) if isinstance(source, FarSource) else walk.over(source, where)
        try:
            for rows, result in results:
                yield rows, result
                report(stage, rows.stop, len(self))
        except (NotFiniteError, NotNormalisedError) as error:
            raise type(error)(f"{self._name}: {error}" if self._name else str(error)) from None
        self._checked = True

    def rows(self, indices_n: Array) -> Block:
        """The rows at some positions of the pool, in the order asked for."""
        block = Block.empty(len(indices_n), *self.shape[1:], self.dtype)
        positions_n = indices_n if self._index is None else self._index[indices_n]
        block.fill(self._source.at(positions_n), self._kind, None)
        return block

    def take(self, indices_n: Array) -> "Predictions":
        """The points at some positions of the pool, as predictions of their own; the predictions are not copied."""
        other = copy(self)
        other.embeddings = None if self.embeddings is None else self.embeddings[indices_n]
        other._index = indices_n if self._index is None else self._index[indices_n]
        return other

    def check(self, memory: int = budget.DEFAULT, report: Report = silent) -> None:
        """Check every value in one streaming pass, unless an earlier pass did."""
        if not self._checked:
            with one_thread_an_operation():
                for _ in self.scan(lambda block: None, memory, report, "checking the pool"):
                    pass


def _check_embeddings(embeddings: object, labelled_embeddings: object, rows: int) -> tuple[Array | None, Array | None]:
    """Embeddings of the pool and of the labelled points as arrays that fit each other."""
    features = None if embeddings is None else as_embeddings(embeddings, "embeddings", rows)
    labelled = None if labelled_embeddings is None else as_embeddings(labelled_embeddings, "labelled_embeddings")
    if features is not None and labelled is not None and labelled.shape[1] != features.shape[1]:
        raise ShapeError(
            f"embeddings have {features.shape[1]} columns and labelled_embeddings {labelled.shape[1]}: "
            "both must come from the same layer of the same network."
        )
    return features, labelled
