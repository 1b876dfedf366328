"""The background process: when it trains, what it finds to review, and how it ends."""

import os
import time

import numpy as np
import pytest
from labelling_server import write_texts

from poolwise.labelling import model
from poolwise.labelling import review as reviews
from poolwise.labelling.project import Project
from poolwise.labelling.review import Review, load_review, review
from poolwise.labelling.saved import Saved, estimate_saved, load_saved
from poolwise.labelling.store import Event, ModelRecord
from poolwise.labelling.worker import Rounds, Worker

pytestmark = pytest.mark.usefixtures("brief_training")

WORDS = {"cat": "purr meow whiskers claws", "dog": "bark woof leash fetch"}


def some_texts(count):
    """Texts of two classes that words tell apart, and the class of each."""
    labels = ["cat" if n % 2 else "dog" for n in range(count)]
    return [f"{WORDS[label]} {n}" for n, label in enumerate(labels)], labels


@pytest.fixture
def project(tmp_path, monkeypatch, one_thread):
    monkeypatch.setattr(model, "_MEMBERS", 2)  # small, to be quick
    monkeypatch.setattr(model, "_HIDDEN", 8)
    texts, labels = some_texts(120)
    with Project.open(write_texts(tmp_path, texts), classes=["cat", "dog"], encoder="tfidf", batch_size=20) as found:
        found.truth = dict(zip(found.items.ids, labels, strict=True))
        yield found


def label(project, count, wrong=()):
    """Label the next items of the newest batch."""
    batch = project.store.batches(last=1)[-1]
    todo = [item for item in batch.ids if item not in project.store.current()][:count]
    other = {"cat": "dog", "dog": "cat"}
    for item in todo:
        right = project.truth[item]
        project.record(item, other[right] if item in wrong else right, person="anna")
    return todo


def test_a_batch_is_prepared_at_the_start_and_again_as_labels_come(project):
    told = []
    rounds = Rounds(project, told.append)
    assert rounds.due()
    assert rounds.step()
    assert told[0]["doing"] == "training"
    assert told[-1] == {"doing": None, "renewed": True}
    assert len(project.store.batches()) == 1
    assert not rounds.due()
    assert not rounds.step()
    label(project, 5)
    assert not rounds.due()
    label(project, 6)
    assert rounds.due()  # ten labels are enough for a first model
    rounds.step()
    assert len(project.store.models()) == 1
    assert len(project.store.batches()) == 2
    assert not rounds.due()


def test_more_people_get_larger_batches(project):
    rounds = Rounds(project, lambda message: None)
    rounds.people = 5
    rounds.step()
    assert len(project.store.batches()[-1].picks) == 50


def test_a_batch_that_was_drawn_because_nobody_wanted_to_wait_is_followed_by_a_better_one(project):
    from poolwise.labelling.server.desk import Desk

    Desk(project)._begin()
    rounds = Rounds(project, lambda message: None)
    assert rounds.due()
    rounds.step()
    assert len(project.store.batches()) == 2
    assert not rounds.due()


def test_labels_that_contradict_the_others_are_found(project, monkeypatch):
    monkeypatch.setattr(model, "_MEMBERS", 5)
    monkeypatch.setattr(model, "_HIDDEN", 32)
    project.prepare(60)
    wrong = set(project.store.batches()[-1].ids[20:22])
    label(project, 60, wrong)
    found = review(project)
    assert {doubt.item for doubt in found.doubts[:2]} == wrong
    first = found.doubts[0]
    assert first.label != first.said == project.truth[first.item]
    assert first.share > first.own
    found.save(project.folder)
    assert load_review(project.folder) == found
    assert review(project, lambda: False) is None


def test_near_duplicates_with_different_labels_are_found(draw):
    values = draw.normal(size=(50, 8)).astype(np.float32)
    numbers = np.arange(50) % 2
    values[7] = values[20] + 1e-3
    values[9] = values[11]  # these two have the same label
    [pair] = reviews._twins([str(n) for n in range(50)], values, numbers)
    assert (pair.first, pair.second) == ("7", "20")
    assert pair.distance < 0.01


def test_a_damaged_review_is_an_empty_one(project):
    assert load_review(project.folder) == Review()
    (project.folder / "cache").mkdir(exist_ok=True)
    for text in ("{", "[]", '{"doubts": [{"x": 1}], "twins": [], "after_event": 1}', '{"doubts": 1}'):
        (project.folder / "cache" / "review.json").write_text(text)
        (project.folder / "cache" / "saved.json").write_text(text)
        assert load_review(project.folder) == Review()
        assert load_saved(project.folder) is None


def test_how_many_labels_were_saved_is_estimated_from_the_random_ones(project):
    assert estimate_saved(project) is None
    project.prepare(110)
    label(project, 110)
    found = estimate_saved(project)
    assert found.measured == 22
    assert found.random == 16
    assert found.labels == 88
    assert found.chosen is None or 1 <= found.chosen <= found.random
    assert estimate_saved(project, lambda: False) is None
    found.save(project.folder)
    assert load_saved(project.folder) == found


def test_the_saving_in_numbers():
    saved = Saved(random=40, chosen=20.0, accuracy=0.8, measured=50, labels=200)
    assert saved.share == 0.5
    assert saved.count == 200
    assert Saved(40, None, 0.8, 50, 200).count == 0
    assert Saved(40, 40.0, 0.8, 50, 200).share == 0.0


def test_an_error_is_told_and_not_repeated_until_there_are_new_labels(project):
    rounds = Rounds(project, lambda message: None)
    rounds.give_up()
    assert not rounds.due()
    project.store.append(Event("label", "0", "cat", "anna"))
    assert rounds.due()
    assert project.store.add_model(ModelRecord(1, ["cat", "dog"], "m")).number == 1


def test_the_process_works_and_ends_with_the_server(project):
    heard = []
    place = {"data": str(project.folder), "project": None, "database": None, "model": None}
    worker = Worker(place, lambda: heard.append(True))
    worker.start()
    try:
        until = time.monotonic() + 300
        while not project.store.batches() and time.monotonic() < until:
            time.sleep(0.1)
        assert project.store.batches(), worker.doing
        process = worker.process
    finally:
        worker.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert heard
