"""Predictions of K posterior samples for N points over C classes, wherever they are stored."""

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np

from poolwise.arrays import Array, ArrayOrTensor, as_embeddings
from poolwise.errors import ShapeError
from poolwise.predictions.array_access import as_numpy, chosen, within
from poolwise.predictions.forms import PredictionKind, PredictionLayout
from poolwise.predictions.ids import as_ids
from poolwise.predictions.layout_check import warn_of_layout
from poolwise.predictions.opening import open_embeddings, open_source
from poolwise.predictions.reading import PoolReader
from poolwise.predictions.sources import Source, array_source


class Predictions(PoolReader):
    """Predictions `[N, K, C]`: N pool points, K posterior samples, C classes.

    Make them with `from_log_probs`, `from_probs`, `from_logits` or `open`: what the numbers are is never guessed.
    Sample k must be the same model for every point.

    Values are read where they are stored, in blocks; the whole is never copied or converted. Computing is in float32,
    or in float64 where float64 is stored. `Block` says exactly how stored numbers become log-probabilities and
    probabilities: float16 is renormalised, and the logarithm of 0 becomes -110 (-750 in float64).

    They behave like an array along the points: `len(p)`, `p.shape`, `p[10:20]`, `p[[3, 1]]`, `p[mask]`, and `p[7]`,
    which is one point, still `[1, K, C]`. `p.log_probs`, `p.probs`, `p.numpy()` and `np.asarray(p)` are NumPy arrays.
    `for block in p` reads a pool of any size block by block.

    Attributes:
        dtype: the PyTorch type that is computed in: float32 or float64.
        embeddings: `[N, D]` features of the points, or None.
        labelled_embeddings: `[L, D]` features of the points that are labelled already, or None.
        ids: `[N]` names of the points, such as file names, or None.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> p = pw.Predictions.from_logits(np.zeros((3, 2, 4), np.float32))
        >>> p
        Predictions(N=3, K=2, C=4, float32 logits)
        >>> p[1:].probs.shape
        (2, 2, 4)
        >>> float(p.probs[0, 0, 0])
        0.25
    """

    def __init__(
        self,
        source: Source,
        kind: PredictionKind,
        *,
        embeddings: Array | None = None,
        labelled_embeddings: Array | None = None,
        ids: Array | None = None,
        name: str = "",
    ) -> None:
        super().__init__(source, kind, name)
        self.embeddings, self.labelled_embeddings, self.ids = embeddings, labelled_embeddings, ids

    @classmethod
    def from_log_probs(
        cls,
        values: ArrayOrTensor,
        *,
        embeddings: ArrayOrTensor | None = None,
        labelled_embeddings: ArrayOrTensor | None = None,
        ids: Sequence[str] | None = None,
        layout: PredictionLayout | None = None,
        validate: bool = True,
    ) -> Self:
        """Predictions from log-probabilities that are normalised over the classes; -inf is a probability of zero.

        Args:
            values: array or tensor whose axes are in the order of `layout`.
            embeddings: `[N, D]` features of the pool points, for the methods that need them.
            labelled_embeddings: `[L, D]` features of the points that are labelled already.
            ids: `[N]` names of the points, which a batch then shows.
            layout: order of the axes: `"NKC"` (the default), `"KNC"` or `"NCK"`. If the shape makes the default
                unlikely, there is a `LayoutWarning`; name the layout to avoid it.
            validate: whether to check all values now; if False, the first pass over the pool checks them.

        Example:
            >>> import numpy as np, poolwise as pw
            >>> pw.Predictions.from_log_probs(np.log(np.full((6, 5, 2), 0.5)))
            Predictions(N=6, K=5, C=2, float64 log-probs)
        """
        return cls._of(values, "log-probs", embeddings, labelled_embeddings, ids, layout, validate)

    @classmethod
    def from_probs(
        cls,
        values: ArrayOrTensor,
        *,
        embeddings: ArrayOrTensor | None = None,
        labelled_embeddings: ArrayOrTensor | None = None,
        ids: Sequence[str] | None = None,
        layout: PredictionLayout | None = None,
        validate: bool = True,
    ) -> Self:
        """Predictions from probabilities that sum to one over the classes.

        `values` are the probabilities. All other arguments are those of `from_log_probs`.

        Example:
            >>> import numpy as np, poolwise as pw
            >>> pw.Predictions.from_probs(np.full((6, 5, 2), 0.5), ids=list("abcdef"))[2:4].ids
            array(['c', 'd'], dtype=object)
        """
        return cls._of(values, "probs", embeddings, labelled_embeddings, ids, layout, validate)

    @classmethod
    def from_logits(
        cls,
        values: ArrayOrTensor,
        *,
        embeddings: ArrayOrTensor | None = None,
        labelled_embeddings: ArrayOrTensor | None = None,
        ids: Sequence[str] | None = None,
        layout: PredictionLayout | None = None,
        validate: bool = True,
    ) -> Self:
        """Predictions from raw network outputs, which go through a log-softmax over the classes when they are read.

        `values` are the logits. All other arguments are those of `from_log_probs`.

        Example:
            >>> import numpy as np, poolwise as pw
            >>> pw.Predictions.from_logits(np.zeros((5, 6, 2)), layout="KNC").shape
            (6, 5, 2)
        """
        return cls._of(values, "logits", embeddings, labelled_embeddings, ids, layout, validate)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        kind: PredictionKind | None = None,
        layout: PredictionLayout | None = None,
        key: str | None = None,
        samples: int | None = None,
        embeddings: ArrayOrTensor | str | Path | None = None,
        labelled_embeddings: ArrayOrTensor | str | Path | None = None,
        ids: Sequence[str] | None = None,
        validate: bool = True,
        verify: bool = False,
    ) -> Self:
        """Open predictions in a file or in a folder of shards.

        `.npy` files are mapped and shards are read in parts: neither is loaded whole. The columns of `.parquet`,
        `.arrow` and `.feather` files are unpacked once, to a temporary file. `.npz` and `.pt` files are loaded, without
        running code.

        Args:
            path: the file, or a folder with a manifest or with Parquet or Arrow files only.
            kind: `"log-probs"` (the default), `"probs"` or `"logits"`. Leave it out if there is a manifest.
            layout: order of the axes in the file, `"NKC"` by default. Leave it out if there is a manifest.
            key: which array of an `.npz` or `.pt`, or which column, where there is more than one.
            samples: K, where the K·C numbers of a point are one flat list.
            embeddings: an array or the path of a file; by default those in the folder, if there are any.
            labelled_embeddings: likewise, for the points that are labelled already.
            ids: `[N]` names of the points; by default those in the folder, if there are any.
            validate: whether to check all values now, in one pass; if False, the first pass over the pool checks them.
            verify: whether to compare shards with their checksums, which reads all of them.

        Example:
            >>> import numpy as np, pathlib, tempfile, poolwise as pw
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "preds.npy"
            >>> np.save(path, np.full((4, 3, 2), 0.5, np.float16))
            >>> pw.Predictions.open(path, kind="probs")
            Predictions(N=4, K=3, C=2, mapped float16 probs)
        """
        found = open_source(path, kind, layout, key, samples, verify)
        if found.layout_to_check:
            warn_of_layout(found.source.shape, layout)
        features = found.embeddings if embeddings is None else open_embeddings(embeddings)
        labelled = open_embeddings(labelled_embeddings)
        names = found.ids if ids is None else ids
        return cls._build(found.source, found.kind, features, labelled, names, validate, str(path))

    @classmethod
    def _of(
        cls,
        values: ArrayOrTensor,
        kind: PredictionKind,
        embeddings: ArrayOrTensor | None,
        labelled_embeddings: ArrayOrTensor | None,
        ids: Sequence[str] | Array | None,
        layout: PredictionLayout | None,
        validate: bool,
    ) -> Self:
        source = array_source(values, "NKC" if layout is None else layout)
        warn_of_layout(source.shape, layout)
        return cls._build(source, kind, embeddings, labelled_embeddings, ids, validate)

    @classmethod
    def _build(
        cls,
        source: Source,
        kind: PredictionKind,
        embeddings: ArrayOrTensor | None,
        labelled_embeddings: ArrayOrTensor | None,
        ids: Sequence[str] | Array | None,
        validate: bool,
        name: str = "",
    ) -> Self:
        features, labelled = _check_embeddings(embeddings, labelled_embeddings, source.shape)
        names = None if ids is None else as_ids(ids, source.shape[0])
        predictions = cls(source, kind, embeddings=features, labelled_embeddings=labelled, ids=names, name=name)
        if validate:
            predictions.check()
        return predictions

    def with_embeddings(
        self, embeddings: ArrayOrTensor | None = None, labelled_embeddings: ArrayOrTensor | None = None
    ) -> "Predictions":
        """The same predictions with other embeddings.

        Args:
            embeddings: `[N, D]` features of the points; None keeps the present ones.
            labelled_embeddings: `[L, D]` features of the points that are labelled already; None keeps the present ones.
        """
        other = copy(self)
        other.embeddings, other.labelled_embeddings = _check_embeddings(
            self.embeddings if embeddings is None else embeddings,
            self.labelled_embeddings if labelled_embeddings is None else labelled_embeddings,
            self.shape,
        )
        return other

    def with_ids(self, ids: Sequence[str]) -> "Predictions":
        """The same predictions with other names of the points.

        Args:
            ids: `[N]` names, one per point.
        """
        other = copy(self)
        other.ids = as_ids(ids, len(self))
        return other

    def moved_to(self, source: Source) -> "Predictions":
        """The same predictions, read from another place.

        Args:
            source: where the numbers are now.
        """
        other = copy(self)
        other._source = source
        return other

    @property
    def log_probs(self) -> Array:
        """`[N, K, C]` log-probabilities as a NumPy array, as `Block` describes them.

        Float32 or float64 log-probabilities in memory or in a mapped file are not copied: the array is a read-only view
        of all points, or of a slice such as `p[10:20]`. Where -inf has to be replaced, a copy is made.
        """
        return as_numpy(self, "log_probs")

    @property
    def probs(self) -> Array:
        """`[N, K, C]` probabilities as a NumPy array; a read-only view where float32 or float64 ones are stored."""
        return as_numpy(self, "probs")

    def numpy(self) -> Array:
        """The log-probabilities as a NumPy array: the same as `log_probs` and as `np.asarray(p)`.

        Example:
            >>> import numpy as np, poolwise as pw
            >>> x = np.log(np.full((4, 3, 2), 0.5))
            >>> np.shares_memory(pw.Predictions.from_log_probs(x).numpy(), x)
            True
        """
        return self.log_probs

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        values = self.log_probs
        if copy is False and (values.flags.owndata or (dtype is not None and np.dtype(dtype) != values.dtype)):
            raise ValueError(f"{self} cannot be an array without a copy: they are stored in another form.")
        return np.array(values, dtype, copy=True) if copy else values.astype(dtype or values.dtype, copy=False)

    def __getitem__(self, key: Any) -> "Predictions":
        rows = chosen(key, len(self))
        other = copy(self)
        other.embeddings = None if self.embeddings is None else self.embeddings[rows]
        other.ids = None if self.ids is None else self.ids[rows]
        other._rows = within(self._rows, rows)
        return other

    def take(self, indices_n: Array) -> "Predictions":
        """The points at some positions, as predictions of their own; the numbers are not copied.

        Args:
            indices_n: the positions.
        """
        return self[indices_n]


def _check_embeddings(
    embeddings: ArrayOrTensor | None, labelled_embeddings: ArrayOrTensor | None, shape: tuple[int, int, int]
) -> tuple[Array | None, Array | None]:
    """Embeddings of the pool and of the labelled points as arrays that fit each other and the predictions."""
    N, K, _ = shape
    labelled = None if labelled_embeddings is None else as_embeddings(labelled_embeddings, "labelled_embeddings")
    try:
        features = None if embeddings is None else as_embeddings(embeddings, "embeddings", N)
    except ShapeError as error:
        if np.shape(embeddings)[:1] != (K,) or N == K:  # type: ignore[arg-type]
            raise
        raise ShapeError(
            f"{error} There are {K} embeddings, and the predictions were read as {N} points and {K} posterior samples: "
            'if it is the other way round, pass layout="KNC".'
        ) from None
    if features is not None and labelled is not None and labelled.shape[1] != features.shape[1]:
        raise ShapeError(
            f"embeddings have {features.shape[1]} columns and labelled_embeddings {labelled.shape[1]}: "
            "both must come from the same layer of the same network."
        )
    return features, labelled
