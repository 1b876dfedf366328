"""Label Studio: the loop against a small one in memory, its calls over HTTP, files, errors, crashes."""

import csv
import http.client
import importlib.util
import json
from pathlib import Path

import pytest
from fake_label_studio import PEOPLE, TOKEN, Direct, Served, Studio
from PIL import Image

import poolwise as pw
from poolwise.errors import FileError, LabelError, LockedError, ParameterError
from poolwise.labelling.label_studio import connection
from poolwise.labelling.label_studio.answers import DELETED
from poolwise.labelling.label_studio.connection import Connection, LabelStudioError
from poolwise.labelling.label_studio.forms import as_xml, make_form, read_form
from poolwise.labelling.label_studio.syncing import Sync, make_project, watch
from poolwise.labelling.label_studio.webhook import HEADER, Receiver
from poolwise.storage import FolderLock

pytestmark = pytest.mark.usefixtures("brief_training")

SDK = pytest.mark.skipif(
    importlib.util.find_spec("label_studio_sdk") is None,
    reason="label-studio-sdk is not installed; try it with: pip install -c constraints.txt label-studio-sdk",
)
CLASSES = ["billing", "technical"]
WORDS = {"billing": "invoice refund money", "technical": "crash error screen"}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch, one_thread):
    monkeypatch.chdir(tmp_path)
    for name in ("LABEL_STUDIO_API_KEY", "LABEL_STUDIO_URL", "POOLWISE_WEBHOOK_SECRET", "POOLWISE_DATABASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def studio():
    return Studio()


@pytest.fixture
def cli(run):
    return run


@pytest.fixture
def cli_fails(run):
    return lambda *arguments: run(*arguments, code=2).err


def tickets(count=32):
    """A table of texts, and the class of each."""
    true = {f"t{number}": CLASSES[number % 2] for number in range(count)}
    with Path("tickets.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "message"])
        table.writerows([name, f"{WORDS[label]} {name}"] for name, label in true.items())
    return true


@pytest.fixture
def true():
    return tickets()


@pytest.fixture
def project(true):
    with pw.Project.open("tickets.csv", classes=CLASSES, encoder="tfidf", held_out=0.25) as opened:
        yield opened


@pytest.fixture
def sync(project, studio):
    server = Direct(studio)
    return Sync(project, server, make_project(project, server, "Tickets"), count=8, low=1)


def answers(project, item):
    current = project.store.current().get(item)
    return {} if current is None else {answer.person: answer.label or answer.kind for answer in current.answers}


class TestForms:
    @pytest.mark.parametrize("kind", ["text", "image"])
    def test_come_back_as_they_were(self, kind):
        form = make_form(kind, ["a & b", '"x"', "<c>", "d'"])
        assert read_form(as_xml(form)) == form

    def test_of_others_are_understood(self):
        form = read_form(
            '<View><Header value="$title"/><Image name="pic" value="$url"/><Choices name="what" toName="pic">'
            '<Choice value="Cat" alias="cat"/><Choice value="dog"/></Choices>'
            '<TextArea name="note" toName="pic"/></View>'
        )
        assert (form.control, form.shown, form.kind, form.key, form.classes) == (
            "what", "pic", "image", "url", ["cat", "dog"],
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("config", "said"),
        [
            ("<View/>", "0 choices"),
            ("<View><Text", "cannot be read"),
            ('<!DOCTYPE x [<!ENTITY a "b">]><View/>', "document type"),
            (
                '<View><Text name="t" value="$t"/><Choices name="a" toName="t"/><Choices name="b" toName="t"/></View>',
                "2 choices",
            ),
        ],
    )
    def test_that_cannot_be_used(self, config, said):
        with pytest.raises(LabelError, match=said):
            read_form(config)


class TestTheLoop:
    def test_a_batch_comes_in_our_order_and_labels_come_back(self, sync, project, studio, true):
        done = sync.step()
        assert (done.sent, done.open) == (8, 8)
        assert studio.open_items() == done.batch.ids
        assert studio.projects[sync.there.id]["model_version"] == "poolwise"
        task = studio.tasks[min(studio.tasks)]
        assert task["data"]["text"] == project.items.shown(done.batch.ids[0])
        for number, item in enumerate(done.batch.ids):
            studio.annotate(item, true[item], person=1 + number % 2)
        done = sync.step()
        assert (done.taken.labels, done.sent) == (8, 8)
        assert {name: known.label for name, known in project.store.current().items()}.items() <= true.items()
        assert {known.person for known in project.store.current().values()} == set(PEOPLE.values())
        said = [task["predictions"][0]["result"] for task in studio.tasks.values() if not task["annotations"]]
        assert {part[0]["value"]["choices"][0] for part in said} <= set(CLASSES)

    def test_twice_is_once(self, sync, project, studio, true):
        first = sync.step().batch
        assert sync.step().sent == 0
        for item in first.ids:
            studio.annotate(item, true[item])
        sync.step()
        events, tasks = project.store.last_event(), len(studio.tasks)
        again = sync.step()
        assert (project.store.last_event(), len(studio.tasks), bool(again.taken)) == (events, tasks, False)

    def test_people_who_disagree_are_both_kept(self, sync, project, studio):
        item = sync.step().batch.ids[0]
        studio.annotate(item, "billing", person=1)
        studio.annotate(item, "technical", person=2)
        sync.step()
        assert project.store.current()[item].conflict
        assert answers(project, item) == {"anna@example.org": "billing", "bert@example.org": "technical"}

    def test_a_changed_label_replaces_that_of_the_same_person(self, sync, project, studio):
        item = sync.step().batch.ids[0]
        entry = studio.annotate(item, "billing", person=1)
        studio.annotate(item, "billing", person=2)
        sync.step()
        studio.change(entry, "technical")
        assert sync.step().taken.changed == 1
        assert answers(project, item) == {"anna@example.org": "technical", "bert@example.org": "billing"}

    def test_a_correction_here_is_not_undone(self, sync, project, studio):
        item = sync.step().batch.ids[0]
        studio.annotate(item, "billing")
        sync.step()
        project.record(item, "technical", kind="correct", person="chief")
        sync.step()
        assert answers(project, item) == {"chief": "technical"}

    def test_an_annotation_that_is_deleted_takes_its_label_back(self, sync, project, studio):
        item = sync.step().batch.ids[0]
        studio.annotate(item, "billing", person=1)
        studio.annotate(item, "billing", person=2)
        project.record(item, "billing", person="page")
        sync.step()
        task = next(task for task in studio.tasks.values() if task["meta"]["item"] == item)
        task["annotations"].pop(0)
        assert sync.step().taken.cleared == 1
        assert answers(project, item) == {"page": "billing", "bert@example.org": "billing"}

    def test_annotations_that_are_hidden_from_us_take_nothing_back(self, sync, project, studio, monkeypatch):
        item = sync.step().batch.ids[0]
        studio.annotate(item, "billing")
        sync.step()
        listed = studio.listed
        monkeypatch.setattr(studio, "listed", lambda project: [{**t, "annotations": []} for t in listed(project)])
        assert sync.step().taken.cleared == 0
        assert answers(project, item) == {"anna@example.org": "billing"}

    def test_skipped_tasks_are_not_asked_for_again_while_others_are_left(self, sync, project, studio, true):
        batch = sync.step().batch.ids
        studio.annotate(batch[0], cancelled=True)
        for item in batch[1:]:
            studio.annotate(item, true[item])
        done = sync.step()
        assert (done.taken.skipped, answers(project, batch[0])) == (1, {"anna@example.org": "skip"})
        assert batch[0] not in done.batch.ids

    def test_a_deleted_task_is_not_sent_again(self, sync, project, studio, true):
        batch = sync.step().batch.ids
        sync.step()
        studio.remove_task(batch[0])
        done = sync.step()
        assert (done.taken.deleted, answers(project, batch[0])) == (1, {DELETED: "skip"})
        while not done.finished:
            for item in studio.open_items():
                studio.annotate(item, true[item])
            done = sync.step()
        assert studio.items.count(batch[0]) == 0
        assert len(studio.items) == len(set(studio.items)) == len(true) - 1
        assert any("deleted in Label Studio" in note for note in done.notes)

    def test_deleting_a_task_with_a_label_keeps_the_label(self, sync, project, studio):
        item = sync.step().batch.ids[0]
        studio.annotate(item, "billing")
        sync.step()
        studio.remove_task(item)
        assert not sync.step().taken
        assert answers(project, item) == {"anna@example.org": "billing"}

    def test_other_tasks_are_left_alone(self, sync, project, studio):
        item = sync.step().batch.ids[0]
        studio.add({"data": {"text": "not ours", "item": item}})  # an id alone says nothing
        studio.add({"data": {"text": "not ours"}, "meta": {"poolwise": "another", "item": item}})
        for task in studio.tasks.values():
            if task["data"]["text"] == "not ours":
                task["annotations"].append({"id": 99, "completed_by": 1, "result": [], "was_cancelled": True})
        done = sync.step()
        assert (done.taken.foreign, bool(done.taken), len(studio.tasks)) == (2, False, 10)
        assert "2 tasks are not of this project" in done.notes[0]

    def test_unknown_classes_wait_until_they_are_wanted(self, sync, project, studio):
        first, second, third = sync.step().batch.ids[:3]
        studio.annotate(first, "sales")
        studio.annotate(second, "billing")
        studio.annotate(third)  # submitted without a choice
        done = sync.step()
        assert (done.taken.labels, done.taken.unknown, done.taken.unclear) == (1, {"sales": 1}, 1)
        assert "--new-classes" in done.notes[0]
        sync._new_classes = True
        assert sync.step().taken.classes == ["sales"]
        assert project.store.current()[first].label == "sales"
        assert "sales" in read_form(studio.projects[sync.there.id]["label_config"]).classes or sync.step()
        assert "sales" in read_form(studio.projects[sync.there.id]["label_config"]).classes

    def test_a_class_that_was_renamed_stays_renamed(self, sync, project, studio):
        item = sync.step().batch.ids[0]
        studio.annotate(item, "billing")
        sync.step()
        project.rename_class("billing", "money")
        done = sync.step()
        assert (done.taken.unknown, project.store.current()[item].label) == ({}, "money")

    def test_a_project_of_others_keeps_its_configuration(self, project, studio):
        config = as_xml(make_form("text", ["billing"])).replace("<View>", '<View><Header value="Hello"/>')
        studio.new_project("Theirs", config, sampling="Uniform sampling")
        server = Direct(studio)
        done = Sync(project, server, server.find("Theirs"), count=4).step()
        assert done.sent == 4
        assert "does not offer 'technical'" in done.notes[0]
        assert "at random" in done.notes[1]
        assert studio.projects[1]["label_config"] == config

    def test_classes_come_from_label_studio_if_there_are_none(self, true, studio):
        studio.new_project("Theirs", as_xml(make_form("text", CLASSES)))
        server = Direct(studio)
        with pw.Project.open("tickets.csv", encoder="tfidf") as project:
            Sync(project, server, server.find("Theirs"), count=4).step()
            assert project.classes == CLASSES
            studio.new_project("Pictures", as_xml(make_form("image", CLASSES)))
            with pytest.raises(ParameterError, match="shows images, and the data are texts"):
                Sync(project, server, server.find("Pictures")).step()

    def test_a_new_project_needs_classes(self, true, studio):
        with (
            pw.Project.open("tickets.csv", classes=["one"], encoder="tfidf") as project,
            pytest.raises(ParameterError, match="at least two classes"),
        ):
            make_project(project, Direct(studio), "Tickets")

    def test_images_are_sent_along_or_named(self, studio):
        Path("photos/in").mkdir(parents=True)
        for number in range(6):
            Image.new("RGB", (9, 9), (40 * number, 0, 0)).save(f"photos/in/{number} x.png")
        server = Direct(studio)
        with pw.Project.open("photos", classes=CLASSES) as project:
            there = make_project(project, server, "Photos")
            Sync(project, server, there, count=3).step()
            Sync(project, server, there, count=6, low=9, images_at="/data/local-files/?d=photos/").step()
        shown = [task["data"]["image"] for task in studio.tasks.values()]
        assert [address.startswith("data:image/png;base64,") for address in shown] == [True] * 3 + [False] * 3
        assert all(address.startswith("/data/local-files/?d=photos/in/") and "%20x" in address for address in shown[3:])
        assert len(set(studio.items)) == 6


class Killed(BaseException):
    """What `kill -9` is to a test: nothing catches it."""


class TestCrashes:
    def test_killed_at_any_call_it_continues_and_nothing_is_doubled(self, sync, project, studio, true):
        """Dies at the first call, then at the second one, and so on, until a whole round gets through; three rounds."""
        deaths = 0
        for _ in range(3):
            left = 0
            while True:
                calls = iter(range(left))

                def fail(call, calls=calls):
                    if next(calls, None) is None:
                        raise Killed

                studio.fail, left = fail, left + 1
                try:
                    sync.step()
                except Killed:
                    deaths += 1
                else:
                    break
            studio.fail = lambda call: None
            assert len(studio.items) == len(set(studio.items))
            for item in studio.open_items():
                studio.annotate(item, true[item])
        sync.step()
        assert deaths > 12
        current = project.store.current()
        assert len(current) == 24
        assert all(known.label == true[name] for name, known in current.items())
        requests = [event.request_id for event in project.store.events() if event.kind == "label"]
        assert len(requests) == len(set(requests)) == 24

    def test_tasks_that_are_there_twice_are_removed_unless_somebody_answered(self, sync, project, studio):
        first, second = sync.step().batch.ids[:2]
        for task in [task for task in studio.tasks.values() if task["meta"]["item"] in (first, second)]:
            studio.add(task, sync.there.id)
        studio.tasks[max(studio.tasks)]["annotations"] += [studio.annotate(second, "billing")]
        assert sync.step().removed == 1
        assert (studio.items.count(first), studio.items.count(second)) == (1, 2)

    def test_one_at_a_time(self, sync, project):
        sync.step()
        with FolderLock(project.folder / "label-studio"), pytest.raises(LockedError):
            sync.step()

    def test_a_damaged_note_of_tasks_is_made_again(self, sync, project):
        sync.step()
        (project.folder / "label-studio" / "tasks.json").write_text("{")
        assert not sync.step().taken
        assert len(json.loads((project.folder / "label-studio" / "tasks.json").read_text())[sync.origin]["tasks"]) == 8

    def test_a_server_that_is_away_is_waited_for(self, sync, studio, true):
        waits, said, failed = [], [], []
        down = {3, 4}

        def wait(seconds):
            waits.append(seconds)
            for item in studio.open_items():
                studio.annotate(item, true[item])

        def fail(call):
            if call == "find" and len(waits) in down:
                raise LabelStudioError("away", passing=True)

        studio.fail = fail
        watch(sync, 5.0, wait, said.append, failed.append)
        assert said[-1].finished
        assert failed == ["away"]
        assert waits[3:6] == [10.0, 20.0, 5.0]
        studio.fail = lambda call: (_ for _ in ()).throw(LabelStudioError("no"))
        with pytest.raises(LabelStudioError):
            watch(sync, 5.0, wait, said.append, failed.append)


class TestFiles:
    def export(self, studio):
        """What Label Studio writes as JSON."""
        Path("export.json").write_text(
            json.dumps([{**t, "data": studio.tasks[t["id"]]["data"]} for t in studio.listed(1)])
        )

    def test_both_directions(self, project, studio, true, cli):
        project.close()
        out = cli("next", "tickets.csv", "-n", "6", "-o", "tasks.json")
        assert '<Choice value="billing"/>' in out.err
        studio.new_project("By hand", "")
        for task in json.loads(Path("tasks.json").read_text()):
            studio.add(task)
        for item in studio.open_items():
            studio.annotate(item, true[item])
        self.export(studio)
        assert "6 new labels." in cli("add", "export.json").out
        assert "0 new labels; 6 were there already." in cli("add", "export.json").out
        cli("export", "label-studio.json")
        written = json.loads(Path("label-studio.json").read_text())
        assert {task["meta"]["item"]: task["annotations"][0]["result"][0]["value"]["choices"] for task in written} == {
            item: [true[item]] for item in studio.items
        }

    def test_a_file_and_the_server_are_the_same_annotations(self, sync, project, studio):
        item = sync.step().batch.ids[0]
        entry = studio.annotate(item, "billing")
        sync.step()
        studio.change(entry, "technical")
        self.export(studio)
        assert project.add("export.json").changed == 1
        assert answers(project, item) == {"anna@example.org": "technical"}
        assert not sync.step().taken

    def test_what_is_wrong_with_a_file(self, sync, project, studio):
        item = sync.step().batch.ids[0]
        studio.annotate(item, "sales")
        self.export(studio)
        with pytest.raises(LabelError, match=r"does not have: 'sales'.*Nothing was stored"):
            project.add("export.json")
        assert project.add("export.json", new_classes=True).classes == ["sales"]
        Path("other.json").write_text(json.dumps([{"id": 1, "data": {"text": "x"}, "annotations": []}]))
        with pytest.raises(LabelError, match="none of its 1 tasks is of this project"):
            project.add("other.json")
        for content in ('[{"id": 1, "label": "x"}]', "{}", "[1]"):
            Path("min.json").write_text(content)
            with pytest.raises(FileError, match="not JSON-MIN"):
                project.add("min.json")

    @pytest.mark.parametrize("annotations", [[7], [{"result": 5}], [{"result": [{"value": 3}]}], [{"result": [[]]}]])
    def test_strange_annotations_are_left_out(self, sync, project, studio, annotations):
        sync.step()
        task = next(studio.listed(1))
        Path("odd.json").write_text(json.dumps([{**task, "annotations": annotations}]))
        assert project.add("odd.json").new == 0


class TestWebhook:
    def call(self, receiver, headers, body=b"{}"):
        link = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=10)
        link.request("POST", "/", body, headers)
        status = link.getresponse().status
        link.close()
        return status

    def test_only_the_secret_ends_the_wait(self):
        with Receiver("127.0.0.1", 0, "s" * 32) as receiver:
            assert self.call(receiver, {}) == 403
            assert self.call(receiver, {HEADER: "s" * 31}) == 403
            assert self.call(receiver, {HEADER: "é".encode().decode("latin-1")}) == 403
            assert not receiver.wait(0.05)
            assert self.call(receiver, {HEADER: "s" * 32, "Content-Length": str(1 << 30)}, b"") == 413
            assert not receiver.wait(0.05)
            assert self.call(receiver, {HEADER: "s" * 32}) == 204
            assert receiver.wait(5)
            assert not receiver.wait(0.05)

    def test_a_port_that_is_taken_and_a_short_secret(self):
        with Receiver("127.0.0.1", 0, "s" * 32) as receiver, pytest.raises(ParameterError, match="cannot listen"):
            Receiver("127.0.0.1", receiver.port, "s" * 32)
        with pytest.raises(ParameterError, match="16 characters"):
            Receiver("127.0.0.1", 0, "short")


@SDK
class TestOverHTTP:
    """The same through `label-studio-sdk`, against a server that answers as Label Studio 1.23.2 does."""

    @pytest.fixture
    def served(self, studio):
        with Served(studio) as served:
            yield served

    @pytest.fixture
    def server(self, served):
        with Connection(served.url, TOKEN) as server:
            yield server

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_the_loop_from_the_command_line(self, served, studio, true, monkeypatch, cli):
        monkeypatch.setattr(connection, "_PAGE", 3)
        monkeypatch.setattr(connection, "_REQUEST", 1_000)
        monkeypatch.setenv("LABEL_STUDIO_API_KEY", TOKEN)
        begin = ["sync", "label-studio", "tickets.csv", "--url", served.url, "-n", "8"]
        out = cli(*begin, "--create", "Tickets", "--classes", ",".join(CLASSES), "--encoder", "tfidf")
        assert "made the project 1, 'Tickets'" in out.err
        assert "sent batch 1: 8 tasks" in out.err
        assert studio.projects[1]["sampling"] == "Uncertainty sampling"
        assert studio.projects[1]["show_collab_predictions"] is False
        assert sum(path.endswith("/import") for _, path, _ in served.calls) > 1
        for number, item in enumerate(studio.open_items()):
            studio.annotate(item, true[item], person=1 + number % 2)
        out = cli(*begin, "--project", "Tickets")
        assert "8 new labels" in out.err
        assert "sent batch 2: 8 tasks" in out.err
        out = cli(*begin, "--project", "1")
        assert "8 tasks are open. The next batch is sent when 1 or fewer are." in out.err
        with pw.Project.open("tickets.csv", create=False) as project:
            assert {known.person for known in project.store.current().values()} == set(PEOPLE.values())
            kept = b"".join(path.read_bytes() for path in project.folder.rglob("*") if path.is_file())
        assert TOKEN.encode() not in kept
        assert TOKEN not in out.err + out.out
        assert len(studio.items) == len(set(studio.items)) == 16

    @pytest.mark.parametrize(
        ("token", "project", "answer", "said"),
        [
            ("wrong", "1", None, "does not accept the token (Invalid token.)"),
            ("", "1", None, "LABEL_STUDIO_API_KEY"),
            (TOKEN, "77", None, "does not have the project 77. Check --project, or make a new project with --create."),
            (TOKEN, "None such", None, "has no project called 'None such'. Make it with --create 'None such'."),
            (TOKEN, "1", 500, "Try again: nothing is sent twice."),
            (TOKEN, "1", 403, "does not allow this user"),
        ],
    )
    def test_errors_are_one_sentence(self, served, studio, true, cli_fails, monkeypatch, token, project, answer, said):
        studio.new_project("Tickets", as_xml(make_form("text", CLASSES)))
        served.answer = answer
        monkeypatch.setattr("label_studio_sdk.core.http_client._retry_timeout", lambda **_: 0.0)
        error = cli_fails(
            "sync", "label-studio", "tickets.csv", "--url", served.url, "--project", project, "--token", token
        )
        assert said in error
        assert error.startswith("poolwise: ")
        assert TOKEN not in error

    def test_a_server_that_is_not_there(self, true, cli_fails):
        error = cli_fails(
            "sync", "label-studio", "tickets.csv", "--url", "http://127.0.0.1:9", "--project", "1", "--token", TOKEN
        )
        assert "http://127.0.0.1:9 cannot be reached" in error

    @pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "http://", "http://me:secret@host"])
    def test_addresses_that_are_none(self, url):
        with pytest.raises(ParameterError, match="url must"):
            Connection(url, TOKEN)

    def test_a_webhook_is_registered_with_its_secret_and_removed(self, server, studio):
        from poolwise.cli.sync import _news

        studio.webhooks[9] = {"id": 9, "url": "http://127.0.0.1:0/", "project": 1}  # of a process that was killed
        with _news(server, 1, "127.0.0.1:0", None) as wait:
            hook = next(hook for number, hook in studio.webhooks.items() if number != 9)
            assert len(hook["headers"][HEADER]) >= 32
            assert hook["send_payload"] is False
            TestWebhook().call(wait.__self__, hook["headers"])
            assert wait(5)
        assert list(studio.webhooks) == [9]
        server.add_webhook(1, "http://127.0.0.1:0/", {})
        assert len(studio.webhooks) == 1
        with pytest.raises(LabelStudioError, match="SSRF_PROTECTION_ENABLED"):
            server.add_webhook(1, "http://10.0.0.1/", {})

    def test_titles(self, server, studio):
        server.create("Tickets", "<View/>")
        with pytest.raises(ParameterError, match="already"):
            server.create("Tickets", "<View/>")
        with pytest.raises(ParameterError, match="3 to 50"):
            server.create("T", "<View/>")
        studio.new_project("Tickets", "<View/>")
        with pytest.raises(ParameterError, match="by its number: 1, 2"):
            server.find("Tickets")


def test_options_that_belong_together(true, cli_fails):
    base = ["sync", "label-studio", "tickets.csv", "--url", "http://127.0.0.1:9", "--token", "x"]
    assert "--create" in cli_fails(*base)
    assert "--watch" in cli_fails(*base, "--project", "1", "--webhook", "127.0.0.1:8079")


def test_without_the_package(true, cli_fails, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "label_studio_sdk.client", None)
    monkeypatch.setitem(__import__("sys").modules, "label_studio_sdk", None)
    error = cli_fails(
        "sync", "label-studio", "tickets.csv", "--url", "http://127.0.0.1:9", "--project", "1", "--token", "x"
    )
    assert "pip install 'poolwise[label-studio]'" in error
