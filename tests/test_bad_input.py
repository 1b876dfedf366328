"""Input at the edge of what makes sense, as one list, tried on every method of the registry.

Each gives a right answer, or an error of `poolwise.errors` that says what to do. A method is given what it needs and
nothing else.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from cases import case
from pools import features, one_hot, pool

import poolwise as pw
from poolwise import errors

METHODS = pw.methods()
WITH_FEATURES = [name for name, method in METHODS.items() if "embeddings" in method.inputs({})]
WITH_LABELLED = [name for name, method in METHODS.items() if any("labelled" in need for need in method.inputs({}))]
pytestmark = pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")


@dataclass
class Given:
    """What a selection is given: predictions, how many to pick, features, and how many points are labelled."""

    x: np.ndarray
    size: int = 4
    embeddings: np.ndarray | None = None
    labelled: int = 5
    labels: np.ndarray | None = None

    def select(self, method, replaced=None, **options):
        """The batch of a method that gets all that it needs, some of it replaced."""
        N, K, C = self.x.shape
        h = features(N) if self.embeddings is None else self.embeddings
        known = {
            "embeddings": h,
            "labelled_embeddings": np.asarray(features(self.labelled, h.shape[1], seed=1), h.dtype),
            "labelled_predictions": pool(self.labelled, K, C, seed=1) if self.labelled else np.empty((0, K, C)),
            "labels": np.arange(self.labelled) % C if self.labels is None else self.labels,
            "held_out_predictions": pool(self.labelled, K, C, seed=2) if self.labelled else np.empty((0, K, C)),
            "held_out_labels": np.arange(self.labelled) % C if self.labels is None else self.labels,
        }
        own = METHODS[method]
        if "configurations" in own.parameters:
            options = {"configurations": 500, **options}
        known = {name: value for name, value in {**known, **(replaced or {})}.items() if name in own.inputs({})}
        return pw.select(self.x, self.size, method, **known, **options)


def constant(array):
    """All rows are the first."""
    return np.repeat(array[:1], len(array), 0)


def some_zero(array):
    array = array.copy()
    array[::3] = 0
    return array


RIGHT = {
    "two classes": Given(pool(20, 3, 2)),
    "5,000 classes": Given(pool(2, 2, 5000), 2),
    "one sample": Given(pool(20, 1, 3)),
    "two samples": Given(pool(20, 2, 3)),
    "20 samples": Given(pool(20, 20, 3)),
    "100 samples": Given(pool(16, 100, 3)),
    "one-hot members that differ": Given(one_hot(np.random.default_rng(0).integers(0, 3, (20, 4)), 3)),
    "one-hot members that agree": Given(one_hot(np.repeat(np.arange(20)[:, None] % 3, 4, 1), 3)),
    "identical members": Given(np.repeat(pool(20, 1, 3), 4, 1)),
    "all points equal": Given(constant(pool(20, 3, 3)), embeddings=constant(features(20))),
    "features with zero rows": Given(pool(20, 3, 3), embeddings=some_zero(features(20))),
    "features that are all zero": Given(pool(20, 3, 3), embeddings=np.zeros((20, 4), np.float32)),
    "features of one column": Given(pool(20, 3, 3), embeddings=features(20, 1)),
    "features of 10,000 columns": Given(pool(12, 3, 3), 3, embeddings=features(12, 10_000)),
    "features in float16": Given(pool(20, 3, 3), embeddings=features(20).astype(np.float16)),
    "nothing labelled": Given(pool(20, 3, 3), labelled=0),
    "more labelled than there are points": Given(pool(20, 3, 3), labelled=70),
    "labelled points of one class": Given(pool(20, 3, 3), labels=np.full(5, 2)),
    "the whole pool": Given(pool(12, 3, 3), 12),
    "the whole pool, all points equal": Given(constant(pool(12, 3, 3)), 12, embeddings=constant(features(12))),
    "one point": Given(pool(1, 3, 3), 1),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_right_answer(method):
    for name, given in RIGHT.items():
        with case(name):
            check_answer(given, method)


def check_answer(given, method):
    before = [None if array is None else array.copy() for array in (given.x, given.embeddings)]
    batch = given.select(method)
    assert sorted({*batch.indices.tolist()} & {*range(len(given.x))}) == sorted(batch.indices.tolist())
    assert len(batch) == given.size
    assert np.isfinite(batch.scores).all()
    information = batch.diagnostics.information
    assert information is None or (np.isfinite(information).all() and information[-1] <= batch.diagnostics.ceiling)
    if given.size == len(given.x):
        assert sorted(batch.indices.tolist()) == list(range(given.size))
    for array, kept in zip((given.x, given.embeddings), before, strict=True):
        assert kept is None or np.array_equal(array, kept, equal_nan=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["identical members", "one-hot members that agree"])
def test_members_that_agree_tell_nothing_about_the_model(name, method):
    """No method may claim information where there is none."""
    information = RIGHT[name].select(method, information=True).diagnostics.information
    np.testing.assert_allclose(information, 0, atol=1e-6)


@pytest.mark.parametrize("method", WITH_FEATURES)
def test_half_precision_is_read_as_the_numbers_it_stands_for(method):
    half = Given(pool(40, 3, 3), 8, embeddings=features(40).astype(np.float16))
    single = Given(half.x, 8, embeddings=half.embeddings.astype(np.float32))
    known = features(5, seed=1).astype(np.float16).astype(np.float32)
    expected = single.select(method, {"labelled_embeddings": known})
    assert half.select(method).indices.tolist() == expected.indices.tolist()


@pytest.mark.parametrize("method", WITH_FEATURES)
def test_mapped_features_larger_than_the_budget(method, tmp_path):
    """They give the batch that the same features in memory give with plenty of it."""
    h = features(600, 500)
    np.save(tmp_path / "h.npy", h)
    mapped = np.load(tmp_path / "h.npy", mmap_mode="r")
    x = pool(600, 3, 3)
    small = Given(x, 10, embeddings=mapped).select(method, memory=mapped.nbytes // 4)
    assert small.indices.tolist() == Given(x, 10, embeddings=h).select(method).indices.tolist()


def spoilt(array, value, at=7):
    array = array.copy()
    array[at] = value
    return array


WRONG = {
    "NaN in predictions": (Given(spoilt(pool(20, 3, 3), np.nan)), errors.NotFiniteError, "7"),
    "predictions that do not sum to 1": (Given(pool(20, 3, 3) + 0.5), errors.NotNormalisedError, "sum"),
    "a batch larger than the pool": (Given(pool(20, 3, 3), 21), errors.BatchSizeError, "at most 20"),
    "an empty batch": (Given(pool(20, 3, 3), 0), errors.BatchSizeError, "at least 1"),
    "no points": (Given(pool(20, 3, 3)[:0], 1), errors.EmptyPoolError, "empty"),
}


@pytest.mark.parametrize("method", METHODS)
def test_an_error_that_says_what_to_do(method):
    for name, (given, error, words) in WRONG.items():
        with case(name):
            with pytest.raises(error, match=words) as caught:
                given.select(method)
            assert len(str(caught.value)) > 20


WRONG_FEATURES = {
    "NaN": (spoilt(features(20), np.nan), errors.NotFiniteError, "7"),
    "infinite": (spoilt(features(20), np.inf), errors.NotFiniteError, "7"),
    "for other points": (features(19), errors.ShapeError, "20"),
    "of one axis": (features(20)[:, 0], errors.ShapeError, "D"),
    "without columns": (features(20)[:, :0], errors.ShapeError, "D"),
}


@pytest.mark.parametrize("method", WITH_FEATURES)
def test_features_that_cannot_be_used(method):
    given = Given(pool(20, 3, 3))
    for name, (wrong, error, words) in WRONG_FEATURES.items():
        with case(name), pytest.raises(error, match=words):
            given.select(method, {"embeddings": wrong})


@pytest.mark.parametrize("method", WITH_LABELLED)
def test_labelled_points_that_do_not_fit(method):
    given, inputs = Given(pool(20, 3, 3)), METHODS[method].inputs({})
    wrong = {
        "labelled_embeddings": (features(5, 9), errors.ShapeError),
        "labelled_predictions": (pool(5, 3, 4), errors.InputError),
        "labels": (np.full(5, 3), errors.LabelError),
    }
    for name, (value, error) in wrong.items():
        if name in inputs:
            with pytest.raises(error):
                given.select(method, {name: value})
    if {"labelled_embeddings", "labels"} <= inputs:
        with pytest.raises(errors.InputError, match="the same everywhere"):
            given.select(method, {"labels": np.zeros(4, int)})


WATCH = """
import sys, threading
import numpy as np
import poolwise as pw

def anonymous():  # megabytes that are not pages of the mapped file
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("RssAnon"))

def watch():
    while not done.wait(0.01):
        peak[0] = max(peak[0], anonymous())

mapped = np.load(sys.argv[1], mmap_mode="r")
x = np.full((len(mapped), 2, 3), np.log(1 / 3), np.float32)
pw.select(x[:50], 2, "margin")  # and not a method with features: that would leave room that is used again
before, done = anonymous(), threading.Event()
peak = [before]
watcher = threading.Thread(target=watch)
watcher.start()
try:
    for method in ("coreset", "badge"):
        pw.select(x, 5, method, embeddings=mapped, memory="4MB", information=False)
finally:
    done.set()
    watcher.join()
print(peak[0] - before)
"""


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc, which this system lacks")
def test_features_on_disk_are_never_in_memory_whole(tmp_path):
    shape = (24_000, 1_000)  # 96 MB
    mapped = np.lib.format.open_memmap(tmp_path / "h.npy", "w+", np.float32, shape)
    for start in range(0, len(mapped), 1_000):
        mapped[start : start + 1_000] = np.random.default_rng(start).normal(size=(1_000, shape[1]))
    mapped.flush()
    command = [sys.executable, "-W", "ignore", "-c", WATCH, str(tmp_path / "h.npy")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 50
