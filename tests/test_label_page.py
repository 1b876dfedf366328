"""The page: items are handed out, answers are stored once, and what is shown is true."""

import random
from collections import Counter

import pytest
from labelling_server import Page, application, begin_of, client_of, open_desk, open_images, write_digits, write_texts

from poolwise.labelling.server import desk as desks
from poolwise.labelling.store import Event, ModelRecord, Pick, Proposal


@pytest.fixture
def desk(tmp_path):
    found = open_desk(write_texts(tmp_path))
    yield found
    found.project.close()


@pytest.fixture
def page(desk):
    app, _ = application(desk)
    with client_of(app) as client:
        yield Page(client)


def test_a_new_browser_gets_items_and_labels_them(desk, page):
    items = page.work(3)
    assert [item["id"] for item in items] == ["0", "1", "2"]
    assert items[0]["text"] == "text number 0 about dogs"
    assert items[0]["why"] == "because"
    answer = page.say("0", "dog")
    assert answer.status_code == 200
    assert len(answer.json()["stored"]) == 1
    event = desk.store.events()[-1]
    assert (event.kind, event.item, event.label, event.person, event.origin) == ("label", "0", "dog", "olga", "page")
    assert [item["id"] for item in page.work(3)] == ["1", "2", "3"]


def test_an_answer_that_is_sent_again_is_stored_once(desk, page):
    for _ in range(3):
        answer = page.say("0", "dog", request="a-request-name")
        assert answer.json()["stored"] == ["a-request-name"]
    assert sum(event.item == "0" for event in desk.store.events()) == 1


def test_another_answer_under_a_known_name_is_refused(desk, page):
    page.say("0", "dog", request="a-request-name")
    answer = page.say("1", "dog", request="a-request-name")
    assert answer.json()["stored"] == []
    assert "another answer" in answer.json()["refused"]["a-request-name"]
    assert "1" not in desk.store.current()


def test_a_wrong_answer_does_not_keep_the_others_from_being_stored(desk, page):
    wrong = [
        {"request": "request-1", "item": "0", "kind": "label", "label": "dog"},
        {"request": "request-2", "item": "no such item", "kind": "label", "label": "dog"},
        {"request": "request-3", "item": "1", "kind": "label", "label": "cow"},
        {"request": "request-4", "item": "1", "kind": "class", "label": "cow"},
        {"request": "request-5", "item": "1", "kind": "label", "label": None},
        {"request": "request-6", "item": "1", "kind": "skip"},
    ]
    answer = page.post("/api/answers", {"answers": wrong}).json()
    assert answer["stored"] == ["request-1", "request-6"]
    assert set(answer["refused"]) == {"request-2", "request-3", "request-4", "request-5"}
    assert desk.store.classes() == ["cat", "dog"]


def test_undo_brings_the_item_back_and_a_change_replaces_the_label(desk, page):
    page.work(2)
    page.say("0", "dog")
    page.say("0", kind="clear")
    assert "0" not in desk.store.current()
    assert page.work(2)[0]["id"] == "0"
    page.say("0", "dog")
    page.say("0", "cat")
    assert desk.store.current()["0"].label == "cat"
    assert desk.status()["labels"] == 1


@pytest.mark.parametrize("kind", ["skip", "unsure", "unlabelable"])
def test_an_item_that_was_set_aside_is_not_offered_again(desk, page, kind):
    page.say("0", kind=kind)
    assert "0" not in [item["id"] for item in page.work(20)]


def test_what_was_skipped_comes_back_when_nothing_else_is_left(tmp_path):
    desk = open_desk(write_texts(tmp_path, ["one", "two", "three"]), batch=3)
    app, _ = application(desk)
    with client_of(app) as client:
        page = Page(client)
        page.say("0", kind="skip")
        page.say("1", "cat")
        assert [item["id"] for item in page.work(5)] == ["2", "0"]
        page.say("2", "cat")
        [again] = page.work(5)
        assert again["id"] == "0"
        page.say("0", "dog")
        assert page.work(5) == []
    desk.project.close()


def test_two_browsers_get_different_items_and_names(desk):
    app, _ = application(desk)
    with client_of(app) as first, client_of(app) as second:
        one, two = Page(first), Page(second)
        names = begin_of(one.page)["person"], begin_of(two.page)["person"]
        assert names == ("olga", "olga 2")
        mine, others = {item["id"] for item in one.work(4)}, {item["id"] for item in two.work(4)}
        assert len(mine) == len(others) == 4
        assert not mine & others
        assert begin_of(Page(first).page)["person"] == "olga"


def test_who_gets_nothing_is_told_that_others_have_the_last_items(tmp_path):
    desk = open_desk(write_texts(tmp_path, ["one", "two"]), batch=2)
    app, _ = application(desk)
    with client_of(app) as first, client_of(app) as second:
        one, two = Page(first), Page(second)
        assert len(one.work(5)) == 2
        assert (two.work(5), two.post("/api/work", {"want": 5}).json()["held"]) == ([], True)
        for item in ("0", "1"):
            one.say(item, "cat")
        assert (two.work(5), two.post("/api/work", {"want": 5}).json()["held"]) == ([], False)
    desk.project.close()


def test_items_of_somebody_who_has_gone_come_back(desk):
    assert [item["id"] for item in desk.work("anna", 2)] == ["0", "1"]
    assert [item["id"] for item in desk.work("bert", 2)] != ["0", "1"]
    desk.store.renew("anna", -1.0)  # as if her five minutes were over
    assert [item["id"] for item in desk.work("carl", 2)] == ["0", "1"]


def test_a_share_of_the_items_goes_to_two_people_and_no_more(tmp_path):
    desk = open_desk(write_texts(tmp_path), batch=20, twice=1.0)
    given = {person: [item["id"] for item in desk.work(person, 5)] for person in ("anna", "bert", "carl")}
    assert given["anna"] == given["bert"] == [str(n) for n in range(5)]
    assert not set(given["carl"]) & set(given["anna"])
    for person, label in (("anna", "cat"), ("bert", "dog")):
        desk.answer(person, [desks.Said(f"request-{person}", "0", "label", label)])
    assert desk.agreement().items == 1
    assert desk.agreement().name == "Cohen's kappa"
    desk.project.close()


def test_people_who_are_faster_than_training_still_get_items(desk, page):
    """The batch has ten items; the page hands out others when it is done."""
    for n in range(10):
        page.say(str(n), "dog")
    more = page.work(5)
    assert len(more) == 5
    assert all("before there was a model" in item["why"] for item in more)


def test_while_the_first_batch_is_chosen_people_wait_only_for_a_moment(tmp_path, monkeypatch):
    from poolwise.labelling.project import Project

    project = Project.open(write_texts(tmp_path), classes=["cat", "dog"], encoder="tfidf")
    monkeypatch.setattr(desks, "_PATIENCE", float("inf"))
    desk = desks.Desk(project)
    assert desk.work("anna", 5) == []
    monkeypatch.setattr(desks, "_PATIENCE", 0.0)
    assert len(desk.work("anna", 5)) == 5
    [batch] = project.store.batches()
    assert batch.method == "random"
    assert sum(pick.check for pick in batch.picks) == 8  # a fifth measures models
    assert batch.settings["waiting"] is True
    project.close()


def test_a_class_can_be_added_on_the_page(desk, page):
    assert page.post("/api/classes", {"name": " cow "}).json()["classes"] == ["cat", "dog", "cow"]
    assert page.say("0", "cow").json()["refused"] == {}
    assert page.post("/api/classes", {"name": "   "}).status_code == 422
    assert page.post("/api/classes", {"name": "x" * 201}).status_code == 422


def test_what_the_model_says_is_told_after_the_label_only(desk, page):
    import numpy as np

    from poolwise.labelling.predicted import Predicted

    probs = np.tile(np.array([0.25, 0.75], np.float32), (len(desk.items), 1))
    said = Predicted(1, ["cat", "dog"], desk.items.ids, probs, probs[:, 0])
    folder = desk.project.folder / "models"
    folder.mkdir(exist_ok=True)
    said.save(folder / "said.npz")
    desk.store.add_model(ModelRecord(4, ["cat", "dog"], "a model", details={"predictions": "said.npz"}))
    reason = "the model says dog (75%); the label would settle similar items, and its members disagree"
    desk.store.add_batch(Proposal([Pick("0", 0.1, reason)], "margin", after_event=desk.store.last_event()))
    desk.learn()
    assert page.work(1)[0]["why"] == "its label would settle similar items, and its members disagree"
    assert "dog" not in str({key: value for key, value in page.work(1)[0].items() if key != "text"})
    assert page.say("0", "cat").json()["model"]["0"] == {"label": "dog", "share": 0.75}


def test_progress_counts_what_is_labelled(desk, page):
    page.say("0", "dog")
    page.say("1", kind="unsure")
    status = page.client.get("/api/status").json()
    assert status["labels"] == 1
    assert status["batch"] == {"number": 1, "done": 2, "total": 10}
    assert status["balance"] == [["cat", 0], ["dog", 1]]


@pytest.mark.parametrize("path", ["/", "/progress", "/review", "/team"])
def test_every_page_answers(page, path):
    answer = page.client.get(path)
    assert answer.status_code == 200
    assert "<h1" in answer.text


def test_what_was_set_aside_is_counted_by_kind(page):
    for item, kind in (("0", "skip"), ("1", "unsure"), ("2", "unlabelable"), ("3", "unlabelable")):
        page.say(item, kind=kind)
    assert "Set aside: 1 skipped, 1 not known, 2 that cannot be labelled." in page.client.get("/progress").text
    team = page.client.get("/team").text
    assert '<td data-title="Don’t know">1</td><td data-title="Cannot be labelled">2</td>' in team
    assert '<td data-title="Corrected" class="none">0</td>' in team  # left out on a phone
    page.say("0", "cat")
    assert "Set aside: 1 not known, 2 that" in page.client.get("/progress").text


def test_the_page_of_progress_draws_the_curve_with_its_interval(desk, page):
    for n, accuracy in ((10, 0.5), (40, 0.8)):
        desk.store.add_model(ModelRecord(n, ["cat", "dog"], "a model", 30, int(30 * accuracy), accuracy, 0.4, 0.9))
    desk.learn()
    answer = page.client.get("/progress").text
    assert '<polygon class="band"' in answer
    assert "With 40 labels the model is right on 80% of the held-out items" in answer
    assert "More labels still help" in answer


def test_labels_can_be_downloaded(page):
    page.say("0", "dog")
    assert "text number 0 about dogs,dog,olga" in page.client.get("/labels.csv").text
    assert page.client.get("/labels.jsonl").json()["label"] == "dog"
    assert page.client.get("/labels.exe").status_code == 404


def test_a_long_text_is_sent_in_two_steps(tmp_path):
    desk = open_desk(write_texts(tmp_path, ["x" * 30_000, "short"]))
    app, _ = application(desk)
    with client_of(app) as client:
        page = Page(client)
        item = page.work(1)[0]
        assert len(item["text"]) == 20_000
        assert item["more"] == 10_000
        assert len(client.get(f"/api/text/{item['place']}").json()["text"]) == 30_000
        assert client.get("/api/text/99").status_code == 404
    desk.project.close()


def test_images_are_sent_by_their_position(tmp_path):
    desk = open_images(write_digits(tmp_path / "photos", 3))
    app, _ = application(desk)
    with client_of(app) as client:
        item = Page(client).work(1)[0]
        answer = client.get(item["image"])
        assert answer.headers["content-type"] == "image/png"
        assert answer.content.startswith(b"\x89PNG")
        again = client.get(item["image"], headers={"if-none-match": answer.headers["etag"]})
        assert again.status_code == 304
        assert client.get("/image/0?size=huge").status_code == 404
        assert client.get("/image/3").status_code == client.get("/image/-1").status_code == 404
    desk.project.close()


def test_a_reviewers_decision_overrules_and_is_not_asked_again(desk, page):
    from poolwise.labelling.review import Doubt, Review, Twins

    (desk.project.folder / "cache").mkdir(exist_ok=True)
    desk.store.append(Event("label", "0", "cat", "anna"), Event("label", "1", "dog", "bert"))
    Review([Doubt("0", "cat", "dog", 0.9, 0.1)], [Twins("0", "1", 0.1)], 4).save(desk.project.folder)
    shown = page.client.get("/review").text
    assert "The model says <strong>dog</strong> (90%" in shown
    assert shown.index("Almost the same, different labels") < shown.index("The model disagrees")
    assert "are shown; reload" not in shown
    page.say("0", "dog", kind="correct")
    assert desk.store.current()["0"].label == "dog"
    shown = page.client.get("/review").text
    assert "The model disagrees" not in shown
    assert "Almost the same" not in shown


def test_a_long_review_says_how_much_of_it_is_shown(desk, page):
    from poolwise.labelling.review import Doubt, Review

    (desk.project.folder / "cache").mkdir(exist_ok=True)
    desk.store.append(*(Event("label", str(n), "cat", "anna") for n in range(30)))
    Review([Doubt(str(n), "cat", "dog", 0.9, 0.1) for n in range(30)], (), 30).save(desk.project.folder)
    shown = page.client.get("/review").text
    assert shown.count("data-review") == 24
    assert "The first 24 are shown; reload the page for more." in shown


def test_people_who_disagree_are_shown(desk, page):
    desk.store.append(Event("label", "0", "cat", "anna"), Event("label", "0", "dog", "bert"))
    shown = page.client.get("/review").text
    assert "People disagree" in shown
    assert "anna" in shown
    shown = page.client.get("/team").text
    assert "Cohen&#39;s kappa" in shown


def test_labels_that_come_from_elsewhere_are_noticed(desk, page):
    desk.project.add({"0": "dog"}, person="file")
    desk.refresh()  # which a server does every second
    assert page.client.get("/api/status").json()["labels"] == 1
    assert "0" not in [item["id"] for item in page.work(20)]


def test_what_is_counted_event_by_event_is_what_a_recount_gives(desk):
    """Labels, changes, answers taken back, corrections and renamed classes, by several people."""
    draw = random.Random(0)
    for n in range(300):
        item, person, kind = str(draw.randrange(15)), draw.choice("ab"), draw.choice(desks.KINDS)
        label = draw.choice(desk.classes) if kind in ("label", "correct") else None
        desk.store.append(Event(kind, item, label, person))
        if n == 150:
            desk.store.append(Event("rename-class", "cat", "Cat"), Event("class", label="cow"))
        desk.refresh()
        counted, done = dict(desk.counts()), desk.status()["batch"]["done"]
        assert {name: count for name, count in counted.items() if count} == Counter(
            current.label for current in desk.store.current().values() if current.label is not None
        )
        assert done == sum(name in desk.store.current() for name in desk.known.batches[-1].ids)
    assert desk.fold == desk.store.fold()
    assert desk.classes == ["Cat", "dog", "cow"]


def test_a_person_can_go_back_to_their_last_answers_after_a_reload(desk, page, monkeypatch):
    monkeypatch.setattr(desks, "_REMEMBERED", 3)
    items = [item["id"] for item in page.work(5)]
    for item in items:
        page.say(item, "cat")
    page.say(items[3], None, "clear")
    page.say(items[2], "dog")
    page.say(items[0], None, "skip")
    found = page.client.get("/api/recent").json()["items"]
    assert [(item["id"], item["answer"]["kind"], item["answer"]["label"]) for item in found] == [
        (items[4], "label", "cat"),
        (items[2], "label", "dog"),
        (items[0], "skip", None),
    ]
    assert found[0]["text"]
    other = Page(client_of(application(desk)[0]))
    assert other.client.get("/api/recent").json() == {"items": []}
