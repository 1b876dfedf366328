"""Data sets by name: found on this machine, read, checked, and ready for a model."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poolwise.arrays import Array, as_view
from poolwise.data.examples import Examples, TensorExamples, TextExamples
from poolwise.data.formats.official import OfficialSplit, Raw
from poolwise.data.hub import read_hub
from poolwise.data.labels import number
from poolwise.data.repeats import Repeated
from poolwise.data.search import VARIABLE, places, search
from poolwise.data.specs import SPECS, InputKind, Spec, find_spec
from poolwise.errors import FileError, ParameterError


@dataclass(frozen=True, eq=False, repr=False)
class DataSet:
    """A data set that has been read.

    Attributes:
        spec: what is known about it.
        train: the examples to choose from and to train on.
        test: the examples to evaluate on.
        class_names: the names of the classes, in the order of their numbers.
        origin: where it was read from.

    Example:
        >>> data = load("digits")
        >>> data
        DataSet('digits': 1,297 images to train and 500 to test, 10 classes, from scikit-learn)
    """

    spec: Spec
    train: Examples
    test: Examples
    class_names: tuple[str, ...]
    origin: str

    def __repr__(self) -> str:
        return (
            f"DataSet({self.name!r}: {len(self.train):,} {self.kind}s to train and {len(self.test):,} to test, "
            f"{len(self.class_names)} classes, from {self.origin})"
        )

    @property
    def name(self) -> str:
        """What to pass to `load`."""
        return self.spec.name

    @property
    def kind(self) -> InputKind:
        """Images or texts."""
        return self.spec.kind


@dataclass(frozen=True)
class Status:
    """Whether a data set is on this machine.

    Attributes:
        spec: what is known about it.
        found: the folder or archive it is in; `"scikit-learn"` if it comes with that; None if it was not found.
        looked: all folders that were searched.
        how: how to get it.

    Example:
        >>> {status.spec.name: status.found for status in datasets_table()}["digits"]
        'scikit-learn'
    """

    spec: Spec
    found: str | None
    looked: tuple[Path, ...]
    how: str


def load(
    name: str,
    root: str | Path | None = None,
    *,
    repeats: int = 1,
    noise: float = 0.1,
    seed: int = 0,
    check: bool = True,
    hub: bool = False,
) -> DataSet:
    """Read a data set by name.

    These folders are searched: `root`, those in the environment variable `POOLWISE_DATA`, `./data` and
    `~/.cache/poolwise`. The files may be in the folder itself or in one named after the data set. Nothing is downloaded
    unless `hub` is set.

    Args:
        name: one of `SPECS`.
        root: the folder to search first.
        repeats: how many noisy copies of each training image there are; 1 is the image itself, unchanged.
        noise: standard deviation of the noise on repeated images, after scaling.
        seed: of the noise.
        check: whether to check that the files are the official ones, as far as their counts, classes and digests are
            known. Pass False for a part of a data set in the same format.
        hub: whether to take it from the Hugging Face hub when it is not on this machine.

    Example:
        >>> digits = load("digits")
        >>> len(digits.train), digits.train.inputs.shape[1:]
        (1297, torch.Size([1, 8, 8]))
    """
    spec = find_spec(name)
    if repeats != 1 and spec.kind == "text":
        raise ParameterError(f"repeats must be 1 for {spec.name}: noise cannot be added to texts.")
    found = search(spec, root)
    if found is not None:
        found = found.opened()
        form, origin = found.form, str(found.place or "scikit-learn")
        train, test = form.train.read(found.paths), form.test.read(found.paths)
        if check:
            for source, raw in ((form.train, train), (form.test, test)):
                _check_contents(spec, source, raw, origin)
    elif hub:
        train, test = read_hub(spec)
        origin = f"https://huggingface.co/datasets/{spec.hub.path}" if spec.hub else ""
    else:
        raise FileError(_not_found(spec, root))
    return _assemble(spec, train, test, origin, check, repeats, noise, seed)


def datasets_table(root: str | Path | None = None) -> list[Status]:
    """List all data sets: whether each is on this machine, and how to get it. Nothing is read or extracted.

    Args:
        root: the folder to search first.

    Example:
        >>> [status.spec.name for status in datasets_table()][:3]
        ['mnist', 'fashion-mnist', 'kmnist']
    """
    table = []
    for spec in SPECS.values():
        found = search(spec, root)
        where = None if found is None else str(found.place or "scikit-learn")
        table.append(Status(spec, where, tuple(places(spec, root)), _how_to_get(spec)))
    return table


def _assemble(
    spec: Spec, train: Raw, test: Raw, origin: str, check: bool, repeats: int, noise: float, seed: int
) -> DataSet:
    classes, examples = spec.classes, list[TensorExamples | TextExamples]()
    for split, raw, count in zip(("train", "test"), (train, test), spec.count, strict=True):
        labels, classes = _numbered(raw, classes, f"{origin}, {split}")
        _check_shape(spec, raw, f"{origin}, {split}")
        if check:
            _check_counts(spec, labels, count, len(classes), f"{origin}, {split}")
        examples.append(
            TextExamples(raw.inputs, labels, classes)
            if isinstance(raw.inputs, list)
            else TensorExamples(as_view(raw.inputs), labels, classes, spec.mean, spec.std)
        )
    pool: Examples = examples[0]
    if repeats != 1:
        pool = Repeated(pool, repeats, noise, seed)
    return DataSet(spec, pool, examples[1], classes or (), origin)


def _numbered(raw: Raw, classes: tuple[str, ...] | None, where: str) -> tuple[Array, tuple[str, ...]]:
    """The labels as numbers from 0, each of a class, and the names of the classes."""
    if isinstance(raw.labels, list):
        return number(raw.labels, classes, lambda position: f"{where}, example {position}")
    labels, classes = raw.labels.astype(np.int64), classes or ()
    if len(labels) and not (labels.min() >= 0 and labels.max() < len(classes)):
        raise FileError(
            f"{where}: expected labels of {len(classes)} classes, found numbers from {labels.min()} to {labels.max()} "
            "(after counting from 0). The file is damaged, or belongs to another data set."
        )
    return labels, classes


def _check_shape(spec: Spec, raw: Raw, where: str) -> None:
    if not isinstance(raw.inputs, list) and raw.inputs.shape[1:] != spec.shape:
        raise FileError(
            f"{where}: expected images [channels, height, width] {list(spec.shape or ())} for {spec.name}, found "
            f"{list(raw.inputs.shape[1:])}. They belong to another data set."
        )


def _check_counts(spec: Spec, labels: Array, count: int, classes: int, where: str) -> None:
    received = (len(labels), len(np.unique(labels)))
    if received != (count, spec.class_count) or classes != spec.class_count:
        raise FileError(
            f"{where}: expected {count:,} examples of {spec.class_count} classes for {spec.name}, found "
            f"{received[0]:,} of {received[1]}. Fetch the official files from {spec.home}, or pass check=False if you "
            "mean to use another part of the set."
        )


def _check_contents(spec: Spec, source: OfficialSplit, raw: Raw, where: str) -> None:
    """Refuse contents that differ from what is known of this set, or are known to be of another.

    MNIST, Fashion-MNIST and KMNIST share their file names, counts and shapes: nothing else tells them apart.
    """
    known = {digest: other.name for other in SPECS.values() for digest in other.md5}
    for position, digest in enumerate(raw.md5):
        expected, owner = source.md5[position] if source.md5 else None, known.get(digest)
        if digest != expected and (expected is not None or owner is not None):
            raise FileError(
                f"{where}: the contents of {source.files[position]} are not those of {spec.name}"
                f"{f', but of {owner}' if owner not in (None, spec.name) else ''} (MD5 {digest}"
                f"{f', expected {expected}' if expected else ''}). Fetch the official file from {spec.home}, or pass "
                "check=False if you mean to use this one."
            )


def _how_to_get(spec: Spec) -> str:
    files = spec.forms[0].files
    if not files:
        return "it comes with scikit-learn"
    archive = f", or {' or '.join(spec.archives)} as it is," if spec.archives else ""
    hub = f"; or `pip install datasets` and pass hub=True, to download {spec.hub.path}" if spec.hub else ""
    return f"put {', '.join(files)} (each may end in .gz){archive} from {spec.home} into ./data/{spec.name}{hub}"


def _not_found(spec: Spec, root: str | Path | None) -> str:
    looked = "\n".join(f"  {place.absolute()}" for place in places(spec, root))
    return (
        f"{spec.name} was not found. Looked in\n{looked}\nTo get it: {_how_to_get(spec)}.\nAnother folder can be named "
        f"with root= or in the environment variable {VARIABLE}."
    )
