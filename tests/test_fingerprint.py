"""A learner that is opened again recognises its data: rows added, removed, edited or moved are refused."""

import json

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from small_learners import TEST, X, Y, ensemble, history, learner, started
from torch.utils.data import Dataset, TensorDataset

import poolwise as pw
from poolwise import errors
from poolwise.data.examples import TensorExamples, TextExamples, as_examples
from poolwise.data.tokens import TokenExamples
from poolwise.learning import fingerprint as module
from poolwise.learning.differences import changes, difference
from poolwise.learning.fingerprint import Fingerprint, extended, fingerprint, hash_rows
from poolwise.posteriors import Committee

pytestmark = pytest.mark.usefixtures("one_thread")

NOTHING = np.empty(0, np.int64)
NUMBERS = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
WORDS = [f"text number {number} of this pool" for number in range(30)]


class Items(Dataset):
    """Read item by item; with labels if there are any."""

    def __init__(self, inputs, labels=None):
        self.inputs, self.labels, self.reads = inputs, labels, 0

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        self.reads += 1
        item = torch.as_tensor(self.inputs[index])
        return item if self.labels is None else (item, int(self.labels[index]))


class Jittered(Items):
    """Augmentation where the data is read."""

    def __getitem__(self, index):
        return super().__getitem__(index) + torch.from_numpy(np.random.default_rng().normal(size=4)).float()


def pandas_texts(rows):
    pandas = pytest.importorskip("pandas")
    return pandas.Series(rows, index=np.arange(len(rows))[::-1] * 7).tolist()


def pandas_numbers(rows):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(rows, index=[f"r{n}" for n in range(len(rows))]).to_numpy()


KINDS = {
    "tensor": (NUMBERS, lambda rows: torch.from_numpy(np.ascontiguousarray(rows))),
    "array": (NUMBERS, lambda rows: rows),
    "doubles": (NUMBERS, lambda rows: rows.astype(np.float64)),
    "images": ((NUMBERS.reshape(30, 1, 2, 2) * 40 + 128).astype(np.uint8), torch.from_numpy),
    "dataset": (NUMBERS, Items),
    "pairs": (NUMBERS, lambda rows: Items(rows, np.zeros(len(rows)))),
    "tensor dataset": (NUMBERS, lambda rows: TensorDataset(torch.from_numpy(np.ascontiguousarray(rows)))),
    "texts": (np.array(WORDS, object), lambda rows: rows.tolist()),
    "a frame": (NUMBERS, pandas_numbers),
    "a series": (np.array(WORDS, object), pandas_texts),
}


def opened(folder, data, **options):
    texts = isinstance(data, list)
    estimator = make_pipeline(TfidfVectorizer(), LogisticRegression()) if texts else LogisticRegression()
    return pw.ActiveLearner(Committee(estimator, 3), pw.Pool(data, 3), "entropy", 3, folder, **options)


def edited(rows, position=7):
    rows = rows.copy()
    rows[position] = rows[position] + ("!" if rows.dtype == object else 1)
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_other_rows_are_refused_and_the_same_are_taken(kind, tmp_path):
    rows, make = KINDS[kind]
    this = opened(tmp_path, make(rows))
    asked = this.query().indices
    this.update(asked, [0, 1, 2])
    this.query()
    stored = {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.startswith(".")}
    for changed, message in [
        (rows[np.r_[1, 0, 2:30]], r"reordered \(what was at position 0 is at 1 now\).*check_data=False"),
        (rows[::-1].copy(), "the same rows were reordered"),
        (edited(rows), r"1 row was edited \(position 7\).*same rows in the same order, or pass check_data=False"),
        (edited(edited(rows), 29), r"2 rows were edited \(positions 7, 29\)"),
        (rows[:-1], r"1 row was removed \(before: position 29\)"),
        (rows[3:], r"3 rows were removed \(before: positions 0, 1, 2\)"),
        (np.concatenate([rows, edited(rows)[7:8]]), r"1 row was added \(position 30\)"),
        (np.concatenate([edited(rows)[7:8], rows]), r"1 row was added \(position 0\)"),
    ]:
        for again in (
            lambda data: opened(tmp_path, data),
            lambda data: pw.ActiveLearner.load(tmp_path, data=data),
        ):
            with pytest.raises(errors.DataMismatchError, match=message):
                again(make(changed))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.startswith(".")} == stored
    assert this.query() is this.pending  # a learner that could not be opened takes nothing over
    this.update(this.pending.indices[:1], [0])
    assert history(opened(tmp_path, make(rows))) == history(this)
    assert history(pw.ActiveLearner.load(tmp_path, data=make(rows))) == history(this)
    assert history(pw.ActiveLearner.load(tmp_path)) == history(this)


def test_the_container_does_not_matter(tmp_path):
    opened(tmp_path, NUMBERS).query()
    for data in (torch.from_numpy(NUMBERS), NUMBERS.astype(np.float64), Items(NUMBERS), NUMBERS[::-1][::-1]):
        opened(tmp_path, data)


def test_the_check_can_be_switched_off(tmp_path):
    this = opened(tmp_path, NUMBERS)
    this.update(this.query().indices, [0, 1, 2])
    again = opened(tmp_path, NUMBERS[::-1].copy(), check_data=False)
    assert again.pool.labelled.tolist() == this.pool.labelled.tolist()
    again.query()  # from now on, the new order counts again
    opened(tmp_path, NUMBERS, check_data=False)
    fresh = opened(tmp_path, NUMBERS[::-1].copy())
    fresh.update(fresh.query().indices, [0, 1, 2])
    with pytest.raises(errors.DataMismatchError, match="reordered"):
        opened(tmp_path, NUMBERS)


def test_random_data_does_not_lock_its_owner_out(tmp_path):
    this = opened(tmp_path, Jittered(NUMBERS))
    this.update(this.query().indices, [0, 1, 2])
    again = opened(tmp_path, Jittered(NUMBERS))
    again.query()
    with pytest.raises(errors.DataMismatchError, match="it has 29 rows now and had 30"):
        opened(tmp_path, Jittered(NUMBERS[1:]))
    # Also if it was not random at first.
    opened(tmp_path / "later", Items(NUMBERS)).query()
    opened(tmp_path / "later", Jittered(NUMBERS)).query()


def test_data_that_cannot_be_hashed_is_taken(tmp_path):
    class Odd(TensorExamples):
        def batch(self, indices_n):
            return [object() for _ in indices_n]

    assert fingerprint(Odd(torch.from_numpy(NUMBERS)), NOTHING).random


def test_ids_are_compared_where_there_are_any(tmp_path):
    def named(names, rows=NUMBERS):
        data = TensorExamples(torch.from_numpy(np.ascontiguousarray(rows)))
        data.ids = list(names)
        return data

    names = [f"{n}.png" for n in range(30)]
    opened(tmp_path, named(names)).query()
    opened(tmp_path, named(names))
    opened(tmp_path, NUMBERS)  # without ids, the rows alone count
    swapped = [names[1], names[0], *names[2:]]
    for data, message in [
        (named(swapped), r"the same ids were reordered"),
        (named([*names[:-1], "other.png"]), r"1 id was changed \(position 29, 'other.png'\)"),
        (named(names[1:], NUMBERS[1:]), r"1 id was removed \(before: position 0\)"),
        (named([*names, "new"], np.concatenate([NUMBERS, NUMBERS[:1]])), r"1 id was added \(position 30, 'new'\)"),
        (named(names, edited(NUMBERS)), r"1 row was edited \(position 7, '7.png'\)"),
    ]:
        with pytest.raises(errors.DataMismatchError, match=message):
            opened(tmp_path, data)


def test_token_ids_are_not_ids_of_examples():
    tokens = TokenExamples(np.arange(30), np.ones(30, int))
    assert pw.Pool(tokens, 2).ids is None


def test_test_and_validation_sets_are_recognised_with_their_labels(tmp_path):
    x, y = TEST
    learner(tmp_path, test=TEST, validation=(X, Y)).query()
    learner(tmp_path, test=TEST, validation=(X, Y))
    relabelled = np.r_[(y[0] + 1) % 3, y[1:]]
    for options, message in [
        (
            {"test": (x, relabelled), "validation": (X, Y)},
            r"the test set is not that .*1 row was edited \(position 0\)",
        ),
        ({"test": (x[:-1], y[:-1]), "validation": (X, Y)}, "1 row was removed.*check_data=False"),
        ({"test": TEST, "validation": (X.flip(0), Y[::-1].copy())}, "the validation set .*reordered"),
    ]:
        with pytest.raises(errors.DataMismatchError, match=message):
            learner(tmp_path, **options)
    learner(tmp_path, test=(x, relabelled), validation=(X, Y), check_data=False)
    # Labels that the data of the pool carries do not count: those given to the pool do.
    pw.ActiveLearner.load(tmp_path, data=X, test=TEST)


def test_large_data_is_sampled_with_all_rows_that_labels_belong_to(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SAMPLE", 10)
    this = opened(tmp_path, Items(NUMBERS))
    asked = this.query().indices
    this.update(asked[:2], [0, 1])
    pending = asked[2]
    with np.load(next(tmp_path.glob("rows-*.npz"))) as saved:
        known = saved["pool.positions"]
    assert {*asked.tolist()} <= {*known.tolist()}
    assert 10 <= len(known) <= 13
    opened(tmp_path, Items(NUMBERS))
    for position in (asked[0], pending, known[0]):
        with pytest.raises(errors.DataMismatchError, match=rf"1 row was edited or moved \(position {position}\), of"):
            opened(tmp_path, Items(edited(NUMBERS, position)))
    with pytest.raises(errors.DataMismatchError, match="were reordered"):
        opened(tmp_path, Items(NUMBERS[::-1].copy()))
    with pytest.raises(errors.DataMismatchError, match="2 rows were added at the end"):
        opened(tmp_path, Items(np.concatenate([NUMBERS, NUMBERS[:2]])))
    with pytest.raises(errors.DataMismatchError, match="1 rows were removed, the first of them at position"):
        opened(tmp_path, Items(NUMBERS[1:]))
    data = Items(NUMBERS)
    opened(tmp_path, data)
    assert data.reads < 30


def test_a_single_edit_among_a_hundred_thousand_rows_is_noticed():
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(100_000, 8))).float()
    old = fingerprint(TensorExamples(rows), NOTHING)
    changed = rows.clone()
    changed[77_777, 3] = torch.nextafter(changed[77_777, 3], torch.tensor(9.0))
    assert difference(old, TensorExamples(rows)) is None
    assert difference(old, TensorExamples(changed)) == "1 row was edited (position 77777)"


def test_larger_data_in_memory_is_sampled():
    rows = torch.arange(100_001.0)[:, None]
    found = fingerprint(TensorExamples(rows), np.array([5, 99_999]))
    assert 2_000 <= len(found.positions) <= 2_002
    assert {5, 99_999} <= {*found.positions.tolist()}
    more = extended(found, TensorExamples(rows), np.array([7, 5]))
    assert 7 in more.positions
    assert (np.diff(more.positions) > 0).all()
    assert difference(more, TensorExamples(rows)) is None
    assert extended(more, TensorExamples(rows), np.array([7])) is more


def test_hashes_depend_on_the_row_alone(monkeypatch):
    tokens = TokenExamples(np.arange(60) % 7, np.r_[1, 29, 10, 20])
    whole = hash_rows(tokens, np.arange(4))
    alone = [hash_rows(tokens, np.array([n]))[0] for n in range(4)]  # without the padding
    assert whole.tolist() == alone
    assert len(set(alone)) == 4
    examples = TensorExamples(torch.from_numpy(NUMBERS))
    expected = hash_rows(examples, np.arange(30))
    monkeypatch.setattr(module, "_BLOCK", 64)
    assert hash_rows(examples, np.arange(30)).tolist() == expected.tolist()
    assert hash_rows(examples, np.array([4, 2])).tolist() == expected[[4, 2]].tolist()
    assert len(set(expected.tolist())) == 30
    assert len(set(hash_rows(TextExamples(WORDS), np.arange(30)).tolist())) == 30


@pytest.mark.parametrize(
    "collate",
    [
        lambda items: {"a": torch.stack(items), "b": torch.stack(items)[:, :1].long()},
        lambda items: (torch.stack(items), [f"{item[0]}" for item in items]),
        lambda items: torch.stack(items).numpy(),
        lambda items: torch.stack(items).bfloat16(),
        lambda items: torch.stack(items).double(),
    ],
)
def test_batches_of_any_make_are_hashed(collate):
    def examples(rows):
        made = as_examples(Items(rows))
        made._collate = collate
        made.batch = lambda indices_n: collate([made.dataset[int(index)] for index in indices_n])
        return made

    old = fingerprint(examples(NUMBERS), NOTHING)
    assert len(old.hashes) == 30
    assert difference(old, examples(NUMBERS)) is None
    assert "1 row was edited" in difference(old, examples(edited(NUMBERS)))


def test_changes_of_lists():
    def words(old, new):
        found = changes(np.array(old), np.array(new))
        return [part.tolist() for part in found]

    assert words([1, 2, 3], [1, 2, 3]) == [[], [], [], []]
    assert words([1, 2, 3], [3, 2, 1]) == [[], [], [], [[0, 2], [2, 0]]]
    assert words([1, 2, 3], [1, 9, 3]) == [[1], [], [], []]
    assert words([1, 1, 2], [1, 2]) == [[], [1], [], []]
    assert words([1, 1, 2], [1, 1, 1, 2]) == [[], [], [2], []]
    assert words([1, 2, 3, 4], [9, 1, 2, 3]) == [[], [3], [0], []]
    assert words([], [5]) == [[], [], [0], []]


def test_a_state_of_version_0_1_is_opened(tmp_path):
    """It has no fingerprint, no checksums, and files of another make are fine; from then on the data is recognised."""
    this = learner(tmp_path, agreement=True)
    list(pw.simulate(this, Y, 16))
    this.close()
    as_version_0_1(tmp_path)
    again = pw.ActiveLearner.load(tmp_path)
    assert [entry.indices for entry in again.rounds] == [entry.indices for entry in this.rounds]
    assert [entry.agreement for entry in again.rounds] == [entry.agreement for entry in this.rounds]
    whole = learner()
    list(pw.simulate(whole, Y, 26))
    list(pw.simulate(again, Y, 26))
    assert [entry.indices for entry in again.rounds] == [entry.indices for entry in whole.rounds]
    again.close()
    with pytest.raises(errors.DataMismatchError, match="reordered"):
        pw.ActiveLearner.load(tmp_path, data=X.flip(0))


def as_version_0_1(folder):
    """Take away what version 0.1 did not write."""
    for path in [*folder.glob("rows-*"), *folder.glob("history-*"), *folder.glob(".lock*")]:
        path.unlink()
    state = json.loads((folder / "learner.json").read_text())
    for name in ("checksum", "format", "files", "fingerprint", "saved", "history", "outdated", "model_classes"):
        del state[name]
    for name in ("rejected", "reasons", "class_names", "added_classes"):
        del state["pool"][name]
    del state["settings"]["agreement"]
    for entry in (*state["rounds"], state["query"], state["trained"]):
        for name in ("origin", "tracked", "made_by", "ids"):
            if entry is not None:
                entry.pop(name, None)
    (folder / "learner.json").write_text(json.dumps(state))


def test_the_fingerprint_file_may_be_gone_or_damaged(tmp_path):
    learner(tmp_path).query()
    path = next(tmp_path.glob("rows-*.npz"))
    whole = path.read_bytes()
    for damage in (b"", whole[:-30], whole[:100] + b"x" + whole[101:], None):
        path.unlink() if damage is None else path.write_bytes(damage)
        with pytest.raises(errors.FileError, match=r"rows-.*npz cannot be read.*check_data=False"):
            learner(tmp_path)
        learner(tmp_path, check_data=False)
        if damage is not None:
            path.write_bytes(whole)


def test_a_fingerprint_survives_its_file():
    old = Fingerprint(9, np.array([1, 4]), np.array([2**64 - 1, 3], np.uint64), np.arange(9, dtype=np.uint64))
    again = Fingerprint.from_arrays(old.arrays())
    assert (again.examples, again.random) == (9, False)
    assert all(np.array_equal(getattr(again, name), getattr(old, name)) for name in ("positions", "hashes", "ids"))


def test_nothing_is_read_without_a_directory():
    data = Items(NUMBERS)
    pool = pw.Pool(data, 3)
    reads = data.reads
    this = pw.ActiveLearner(ensemble(), pool, "random", 3)
    this.query()
    assert data.reads == reads


def test_the_pool_of_a_finished_learner_is_recognised(tmp_path):
    this = learner(tmp_path, pool=started())
    list(pw.simulate(this, Y, 16))
    this.close()
    with pytest.raises(errors.DataMismatchError):
        learner(tmp_path, pool=started(data=(X.flip(0), Y[::-1].copy())))
