"""Opening predictions: a folder of shards, or one file."""

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from poolwise.arrays import Array, ArrayOrTensor
from poolwise.errors import EmptyPoolError, ParameterError, ShapeError
from poolwise.predictions.files import open_array
from poolwise.predictions.forms import PredictionKind, PredictionLayout
from poolwise.predictions.ids import read_ids
from poolwise.predictions.shards import ShardSource, is_shards
from poolwise.predictions.sources import Source, array_source, unflattened


@dataclass(frozen=True)
class Opened:
    """Predictions that were found at a path.

    Attributes:
        source: the numbers.
        kind: what they are.
        embeddings: `[N, D]` features that are stored with them, or None.
        ids: `[N]` names that are stored with them, or None.
        layout_to_check: whether the order of the axes is only what the caller says or left out.
    """

    source: Source
    kind: PredictionKind
    embeddings: Array | None
    ids: Array | None
    layout_to_check: bool


def open_source(
    path: str | Path,
    kind: PredictionKind | None,
    layout: PredictionLayout | None,
    key: str | None,
    samples: int | None,
    verify: bool,
) -> Opened:
    """The numbers at a path and what is stored with them; the arguments are those of `Predictions.open`."""
    kinds, layouts = get_args(PredictionKind), get_args(PredictionLayout)
    for name, value, options in (("kind", kind, kinds), ("layout", layout, layouts)):
        if value is not None and value not in options:
            raise ParameterError(f"{name} must be one of {', '.join(options)}, not {value!r}.")
    if is_shards(path):
        return _open_shards(Path(path), kind, layout, key, samples, verify)
    array, mapping = open_array(path, key)
    if verify:
        raise ParameterError(f"{path} has no checksums to verify: only a folder of shards has them. Leave out verify=.")
    try:
        if samples is not None:
            array = unflattened(array, samples, layout or "NKC")
        source = array_source(array, layout or "NKC", mapping)
    except (ShapeError, EmptyPoolError) as error:
        raise type(error)(f"{path}: {error}") from None
    return Opened(source, kind or "log-probs", None, None, samples is None)


def _open_shards(
    folder: Path,
    kind: PredictionKind | None,
    layout: PredictionLayout | None,
    key: str | None,
    samples: int | None,
    verify: bool,
) -> Opened:
    if key is not None or samples is not None:
        raise ParameterError(f"{folder} is a folder of shards: leave out key= and samples=.")
    shards = ShardSource(folder, verify=verify)
    for name, value, known in (("kind", kind, shards.kind), ("layout", layout, shards.layout)):
        if value not in (None, known):
            raise ParameterError(
                f"{folder}: its manifest says {name} {known}, not {value}. Leave out {name}=. If the manifest is wrong "
                "and another program wrote the shards, remove it and use poolwise.predictions.adopt again."
            )
    return Opened(shards, shards.kind, shards.embeddings(), read_ids(folder, shards.shape[0]), False)


def open_embeddings(given: ArrayOrTensor | str | Path | None) -> ArrayOrTensor | None:
    """Embeddings as they are, or those in a file."""
    return open_array(given)[0] if isinstance(given, str | Path) else given
