"""The store of labels, on SQLite and on PostgreSQL."""

import itertools
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from databases import new_database

from poolwise.errors import FileError, LabelError, ParameterError, StateError
from poolwise.labelling.store import Event, Known, ModelRecord, Pick, Proposal, Store, migrations, schema
from poolwise.labelling.store.events import Fold
from poolwise.labelling.store.leases import LeaseRequest
from poolwise.labelling.store.sqlite import DatabaseFile

numbers = itertools.count()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.xdist_group("postgresql"))])
def place(request, tmp_path):
    """Where a store can be made."""
    if request.param == "sqlite":
        return tmp_path / "labels.db"
    return new_database(request.getfixturevalue("postgresql_server"), f"test{next(numbers)}")


@pytest.fixture
def store(place):
    with Store.open(place) as store:
        yield store


def label(item, name, person="anna", **others):
    return Event("label", item, name, person, **others)


def fold(*events):
    return Fold().add(Event(e.kind, e.item, e.label, e.person, id=n) for n, e in enumerate(events, 1))


class TestEvents:
    def test_are_numbered_and_come_back_in_order(self, store, place):
        first = store.append(Event("class", label="cat"), label("a", "cat", origin="page"))
        second = store.append(label("b", "cat", at=12.5, request_id="r1"))
        assert [event.id for event in [*first, *second]] == [1, 2, 3]
        with Store.open(place) as again:
            assert again.events() == [*first, *second]
            assert again.events(after=2) == second
            assert again.last_event() == 3
        assert second[0].at == 12.5
        assert first[0].at > 1e9

    def test_a_request_that_is_sent_again_is_stored_once(self, store, place):
        first = store.append(label("a", "cat", request_id="r1"))
        assert store.append(label("a", "cat", request_id="r1")) == first
        with Store.open(place) as other:
            mixed = other.append(label("a", "dog", request_id="r1"), label("b", "dog", request_id="r2"))
        assert mixed[0] == first[0]
        assert [event.item for event in store.events()] == ["a", "b"]
        assert store.append(label("c", "x", request_id="r3"), label("c", "x", request_id="r3"))[0].id == 3
        assert len(store.events()) == 3

    def test_all_or_none(self, store):
        with pytest.raises(LabelError, match="needs an item"):
            store.append(label("a", "cat"), Event("label", None, "cat"))

        def refuse(state):
            raise LabelError("no")

        with pytest.raises(LabelError, match="no"):
            store.append(label("a", "cat"), check=refuse)
        with pytest.raises(LabelError, match="no"):
            store.decide(refuse)
        assert store.events() == []
        assert store.current() == {}

    def test_a_check_is_not_asked_about_a_request_that_is_stored(self, store):
        store.append(label("a", "cat", request_id="r1"))
        asked = []
        store.append(label("a", "cat", request_id="r1"), check=asked.append)
        assert asked == []
        store.append(label("b", "cat", request_id="r2"), check=lambda state: asked.append(state.items["a"].label))
        assert asked == ["cat"]

    @pytest.mark.parametrize(
        "event",
        [
            Event("praise", "a"),
            Event("label", "a"),
            Event("label", "a", "  "),
            Event("skip", "a", "cat"),
            Event("label", "a\0", "cat"),
            Event("label", "a", "\ud800"),
            Event("label", "a" * 5_000, "cat"),
            Event("class"),
            Event("rename-class", None, "b"),
        ],
    )
    def test_that_make_no_sense_are_refused(self, store, event):
        with pytest.raises(LabelError):
            store.append(event)
        assert store.events() == []

    def test_texts_of_all_kinds_are_stored(self, store, place):
        names = ["é", "日本語", "🦆", "'; DROP TABLE poolwise_events; --", "a\nb\t\"c'", "%s %(a)s :b ?"]
        store.append(*(label(name, name, name, origin=name, request_id=name) for name in names))
        with Store.open(place) as again:
            assert [event.item for event in again.events()] == names
            assert set(again.current()) == set(names)

    def test_many_threads_and_stores_at_once(self, store, place):
        others = [Store.open(place) for _ in range(2)]
        failures = []

        def work(person, used):
            try:
                for number in range(15):
                    used.append(label(f"{person}-{number}", "cat", str(person), request_id=f"{person}-{number}"))
                    used.append(label(f"{person}-{number}", "cat", str(person), request_id=f"{person}-{number}"))
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(n, [store, *others][n % 3])) for n in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert [event.id for event in store.events()] == list(range(1, 9 * 15 + 1))
        assert len(others[0].current()) == 9 * 15
        for other in others:
            other.close()

    def test_one_bad_request_among_many_fails_alone(self, store):
        barrier, errors = threading.Barrier(8), []

        def refuse(state):
            raise LabelError("refused")

        def work(number):
            barrier.wait()
            try:
                store.append(label(str(number), "cat"), check=refuse if number % 2 else None)
            except LabelError as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(errors) == 4
        assert sorted(store.current()) == ["0", "2", "4", "6"]


class TestCurrentLabels:
    def test_are_up_to_date_across_stores(self, store, place):
        with Store.open(place) as other:
            store.append(label("a", "cat"))
            assert other.current()["a"].label == "cat"
            other.append(label("a", "dog"))
            assert store.current()["a"].label == "dog"
            assert store.current()["a"].answers[0].event == 2

    def test_what_is_returned_is_a_copy(self, store):
        store.append(label("a", "cat"), Event("class", label="cat"))
        store.current().clear()
        store.classes().clear()
        assert store.current()["a"].label == "cat"
        assert store.classes() == ["cat"]

    def test_the_majority_decides_and_then_the_newest(self):
        votes = [label("a", "cat", "anna"), label("a", "dog", "bert")]
        assert fold(*votes).items["a"].label == "dog"
        assert fold(*votes, label("a", "cat", "carl")).items["a"].label == "cat"
        assert fold(*votes, label("a", "cat", "bert")).items["a"].conflict is False
        assert fold(*votes).items["a"].conflict is True
        assert fold(*votes).items["a"].by("anna").label == "cat"

    def test_a_correction_overrules_everybody(self):
        votes = [label("a", "cat", "anna"), label("a", "cat", "bert"), Event("correct", "a", "dog", "carl")]
        state = fold(*votes).items["a"]
        assert (state.label, state.conflict, state.person) == ("dog", False, "carl")
        assert fold(*votes, label("a", "cat", "anna"), label("a", "cat", "bert")).items["a"].label == "cat"

    def test_clear_takes_back_ones_own_answer(self):
        assert fold(label("a", "cat"), Event("clear", "a", person="anna")).items == {}
        assert fold(label("a", "cat"), Event("clear", "a", person="bert")).items["a"].label == "cat"

    def test_an_item_that_cannot_be_labelled(self):
        said = Event("unlabelable", "a", person="anna")
        assert fold(said).items["a"].unlabelable
        assert not fold(said, label("a", "cat", "bert")).items["a"].unlabelable
        for kind in ("skip", "unsure"):
            state = fold(Event(kind, "a", person="anna")).items["a"]
            assert (state.label, state.unlabelable, state.answers[0].kind) == (None, False, kind)

    def test_classes_are_renamed_and_merged(self):
        events = [Event("class", label="cat"), Event("class", label="dog"), Event("class", label="cat")]
        events += [label("a", "cat"), label("a", "dog", "bert"), Event("rename-class", "cat", "Cat")]
        state = fold(*events)
        assert state.classes == ["Cat", "dog"]
        assert {answer.label for answer in state.items["a"].answers} == {"Cat", "dog"}
        merged = fold(*events, Event("rename-class", "dog", "Cat"))
        assert merged.classes == ["Cat"]
        assert merged.items["a"].conflict is False


class TestLeases:
    def test_different_people_get_different_items(self, store):
        queue = list("abcdef")
        assert store.lease("anna", 2, 60, queue, now=0) == ["a", "b"]
        assert store.lease("bert", 3, 60, queue, now=1) == ["c", "d", "e"]
        assert store.lease("anna", 2, 60, queue, now=2) == ["a", "b"]
        assert store.lease("carl", 2, 60, queue, now=3) == ["f"]
        assert store.leased(now=4) == {"anna": ["a", "b"], "bert": ["c", "d", "e"], "carl": ["f"]}

    def test_items_of_a_person_who_went_away_come_back(self, store):
        assert store.lease("anna", 2, 60, list("abc"), now=0) == ["a", "b"]
        assert store.lease("bert", 2, 60, list("abc"), now=59) == ["c"]
        assert store.lease("bert", 3, 60, list("abc"), now=60) == ["c", "a", "b"]
        assert store.renew("anna", 60, now=61) == 0

    def test_renewing_keeps_them(self, store):
        store.lease("anna", 2, 60, list("abc"), now=0)
        assert store.renew("anna", 60, now=50) == 2
        assert store.lease("bert", 3, 60, list("abc"), now=100) == ["c"]

    def test_items_can_be_given_back(self, store):
        store.lease("anna", 3, 60, list("abc"), now=0)
        store.release("anna", ["b"])
        assert store.lease("bert", 3, 60, list("abc"), now=1) == ["b"]
        store.release("anna")
        assert store.lease("bert", 3, 60, list("abc"), now=1) == ["b", "a", "c"]

    def test_what_is_done_is_replaced_by_the_next(self, store):
        assert store.lease("anna", 2, 60, list("abcd"), now=0) == ["a", "b"]
        assert store.lease("anna", 2, 60, list("bcd"), now=1) == ["b", "c"]
        assert store.leased(now=2) == {"anna": ["b", "c"]}

    def test_a_queue_is_read_no_further_than_needed(self, store):
        def queue():
            yield from "abcd"
            raise AssertionError("read too far")

        assert store.lease("anna", 2, 60, queue(), wanted=lambda item: True, now=0) == ["a", "b"]
        assert store.lease("bert", 1, 60, queue(), wanted=lambda item: True, now=0) == ["c"]
        assert store.lease("anna", 2, 60, queue(), wanted=lambda item: item != "a", now=40) == ["b", "d"]

    def test_requests_of_many_people_are_settled_in_one_transaction(self, store):
        """As those that wait while others are settled; anna asks twice, and what fails for carl fails for him alone."""
        store.lease("anna", 2, 60, list("xy"), now=0)

        def broken():
            yield "a"
            raise LabelError("no queue")

        def request(person, count, queue, wanted):
            return LeaseRequest(person, count, 60, 1, queue, wanted.__contains__, lambda item: 1 + (item == "b"))

        group = [
            request("anna", 3, "abcdef", "yab"),  # x is not wanted any more
            request("bert", 2, "abcdef", "abcdef"),
            request("carl", 2, broken(), "a"),
            request("anna", 2, "abcdef", "yf"),  # neither are a and b
            request("dora", 2, "abcdef", "abcdef"),
        ]
        store._lease_all(group)
        got = [one.items for one in group]
        assert got == [["y", "a", "b"], ["b", "c"], [], ["y", "f"], ["a", "b"]]
        assert [type(one.error) for one in group] == [type(None), type(None), LabelError, type(None), type(None)]
        assert store.leased(now=2) == {"anna": ["y", "f"], "bert": ["b", "c"], "dora": ["a", "b"]}

    def test_some_items_go_to_two_people(self, store):
        most = {"a": 2, "b": 1, "c": 2}.get
        assert store.lease("anna", 3, 60, list("abc"), most=most, now=0) == ["a", "b", "c"]
        assert store.lease("bert", 3, 60, list("abc"), most=most, now=0) == ["a", "c"]
        assert store.lease("carl", 3, 60, list("abc"), most=most, now=0) == []

    def test_nobody_gets_what_another_got_at_the_same_time(self, store, place):
        stores = [store, Store.open(place)]
        given, barrier = {}, threading.Barrier(6)

        def work(number):
            barrier.wait()
            given[number] = stores[number % 2].lease(str(number), 4, 60, [str(n) for n in range(30)])

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        items = [item for found in given.values() for item in found]
        assert len(items) == len(set(items)) == 24
        stores[1].close()


class TestPeople:
    def test_have_tokens_that_can_be_revoked(self, store, place):
        token = store.add_person(" Anna ")
        assert store.person_of(token) == "Anna"
        assert store.person_of(token + "x") is None
        assert store.person_of("") is None
        renewed = store.add_person("Anna")
        assert store.person_of(token) is None
        assert store.person_of(renewed) == "Anna"
        store.revoke("Anna")
        assert store.person_of(renewed) is None
        assert [person.name for person in store.people()] == ["Anna"]
        assert store.people()[0].revoked is not None
        with pytest.raises(StateError, match="nobody called 'Anna'"):
            store.revoke("Anna")
        with pytest.raises(LabelError, match="name"):
            store.add_person("  ")

    def test_tokens_are_not_in_the_file(self, tmp_path):
        with Store.open(tmp_path / "labels.db") as store:
            token = store.add_person("Anna")
        contents = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"Anna" in contents
        assert token.encode() not in contents


class TestRecords:
    def test_batches_come_back_as_they_were(self, store, place):
        picks = [Pick("a", 1.5, "because", False), Pick("b", None, "to check", True)]
        added = store.add_batch(Proposal(picks, "lbb", "minilm", 3, 7, {"n": 2}, ["note"], 5))
        store.add_batch(Proposal([Pick("c")], "random"))
        with Store.open(place) as again:
            assert [batch.number for batch in again.batches()] == [1, 2]
            assert again.batches()[0] == added
            assert [batch.ids for batch in again.batches(last=1)] == [["c"]]
            assert again.check_items() == {"b"}

    def test_models_come_back_as_they_were(self, store, place):
        added = store.add_model(ModelRecord(40, ["a", "b"], "name", 10, 9, 0.9, 0.6, 0.98, 1.5, 3, 50, {"x": 1}))
        store.add_model(ModelRecord(50, ["a", "b"], "name"))
        with Store.open(place) as again:
            assert again.models()[0] == added
            assert [model.labels for model in again.models(last=1)] == [50]

    def test_items_are_replaced(self, store):
        store.set_items(Known(str(n), n, "x") for n in range(1_200))
        store.set_items([Known("3", -1, "y", "stamp"), Known("new", 1_200, "z")])
        items = store.items()
        assert len(items) == 1_201
        assert items["3"] == Known("3", -1, "y", "stamp")

    def test_a_backup_is_one_file_that_opens(self, store, tmp_path):
        store.append(label("a", "cat"))
        store.add_batch(Proposal([Pick("a")], "random"))
        store.set_items([Known("a", 0, "x")])
        (tmp_path / "copies").mkdir()
        store.backup(tmp_path / "copies" / "copy.db")
        assert [path.name for path in (tmp_path / "copies").iterdir()] == ["copy.db"]
        with Store.open(tmp_path / "copies" / "copy.db") as copy:
            assert copy.events() == store.events()
            assert copy.batches() == store.batches()
            assert copy.items() == store.items()
        with pytest.raises(FileError, match="already exists"):
            store.backup(tmp_path / "copies" / "copy.db")


class TestVersions:
    def test_a_store_of_a_newer_version_is_refused(self, place):
        with Store.open(place) as store, store._database.writing() as connection:
            connection.execute(sa.update(schema.meta).where(schema.meta.c.name == "version").values(value="99"))
        with pytest.raises(StateError, match=r"version 99.*newer Poolwise"):
            Store.open(place)

    def test_a_store_of_another_project_is_refused(self, place):
        Store.open(place, "mine").close()
        Store.open(place, "mine").close()
        with pytest.raises(StateError, match="another project"):
            Store.open(place, "yours")

    def test_steps_lead_to_the_current_version_once(self, place, monkeypatch):
        with Store.open(place) as store:
            store.append(label("a", "cat"))
        steps = []

        def add_column(connection):
            connection.execute(sa.text("ALTER TABLE poolwise_people ADD COLUMN colour TEXT"))
            steps.append(2)

        monkeypatch.setattr(schema, "VERSION", 3)
        monkeypatch.setattr(migrations, "STEPS", {2: add_column, 3: lambda connection: steps.append(3)})
        with Store.open(place) as store:
            assert store.current()["a"].label == "cat"
            with store._database.reading() as connection:
                connection.execute(sa.text("SELECT colour FROM poolwise_people"))
        Store.open(place).close()
        assert steps == [2, 3]

    def test_a_step_that_fails_changes_nothing(self, place, monkeypatch):
        Store.open(place).close()

        def fail(connection):
            connection.execute(sa.text("ALTER TABLE poolwise_people ADD COLUMN colour TEXT"))
            raise RuntimeError("out of luck")

        monkeypatch.setattr(schema, "VERSION", 2)
        monkeypatch.setattr(migrations, "STEPS", {2: fail})
        with pytest.raises(RuntimeError):
            Store.open(place)
        monkeypatch.setattr(migrations, "STEPS", {2: lambda connection: None})
        with Store.open(place) as store, store._database.reading() as connection:
            names = {column["name"] for column in sa.inspect(connection).get_columns("poolwise_people")}
        assert "colour" not in names

    def test_there_is_a_step_to_every_version(self):
        assert set(migrations.STEPS) == set(range(2, schema.VERSION + 1))

    @pytest.mark.parametrize("version", range(1, schema.VERSION + 1))
    def test_a_file_of_every_released_version_opens(self, tmp_path, version):
        shutil.copy(Path(__file__).parent / "data" / f"store-version-{version}.db", tmp_path / "labels.db")
        with Store.open(tmp_path / "labels.db", "fixture") as store:
            assert store.classes() == ["Cat", "dog"]
            current = store.current()
            assert {name: state.label for name, state in current.items()} == {"1": "Cat", "2": "dog", "3": None}
            assert current["2"].conflict
            assert current["3"].unlabelable
            assert store.batches()[0].picks[1] == Pick("2", None, "to check", True)
            assert store.models()[0].accuracy == 0.5
            assert store.items()["1"].digest == "d1"
            assert [person.name for person in store.people()] == ["Anna"]
            store.append(label("4", "dog"))
            assert store.events()[-1].id == 9
            names = {table.name for table in schema.metadata.sorted_tables}
            with store._database.reading() as connection:
                inspector = sa.inspect(connection)
                for name in names:
                    columns = {column["name"] for column in inspector.get_columns(name)}
                    assert columns == {column.name for column in schema.metadata.tables[name].columns}


class TestFiles:
    def test_the_log_is_never_written_back(self, tmp_path):
        path = tmp_path / "labels.db"
        for number in range(3):
            with Store.open(path) as store:
                before = path.read_bytes()
                store.append(label(str(number), "cat"))
            assert path.read_bytes() == before
        with Store.open(path) as store:
            assert len(store.events()) == 3
        assert sqlite3.connect(path).execute("SELECT count(*) FROM poolwise_events").fetchone() == (3,)

    def test_a_large_log_goes_to_a_new_file(self, tmp_path):
        path = tmp_path / "labels.db"
        with Store.open(path) as store:
            store.append(*(label(str(number), "cat") for number in range(500)))
        kept = {entry.name: entry.read_bytes() for entry in tmp_path.glob("labels.db*") if entry.suffix != ".db-shm"}
        file = DatabaseFile(path, large=1_000)
        assert file.path.name == "labels.2.db"
        file.close()
        for name in ("labels.db", "labels.db-wal"):
            assert (tmp_path / name).read_bytes() == kept[name]
        with Store.open(path) as store:
            assert len(store.events()) == 500
            store.append(*(label(str(number), "dog") for number in range(500)))
        file = DatabaseFile(path, large=1_000)
        assert file.path.name == "labels.3.db"
        file.close()
        assert not path.exists()
        with Store.open(path) as store:
            assert store.where.endswith("labels.3.db")
            assert {state.label for state in store.current().values()} == {"dog"}

    def test_no_new_file_while_somebody_else_has_the_store_open(self, tmp_path):
        path = tmp_path / "labels.db"
        with Store.open(path) as store:
            store.append(*(label(str(number), "cat") for number in range(500)))
            file = DatabaseFile(path, large=1_000)
            assert file.path == path
            file.close()
            store.append(label("new", "cat"))

    def test_a_damaged_file_is_an_error_that_names_it(self, tmp_path):
        (tmp_path / "labels.db").write_bytes(b"not a database" * 1_000)
        with pytest.raises(FileError, match=r"labels\.db"):
            Store.open(tmp_path / "labels.db")

    def test_a_link_is_refused(self, tmp_path):
        Store.open(tmp_path / "other.db").close()
        (tmp_path / "labels.db").symlink_to(tmp_path / "other.db")
        with pytest.raises(FileError, match="link"):
            Store.open(tmp_path / "labels.db")

    def test_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(FileError, match="nowhere"):
            Store.open(tmp_path / "nowhere" / "labels.db")

    @pytest.mark.parametrize("url", ["mysql://me@host/x", "sqlite:///x.db", "://"])
    def test_other_databases_are_refused(self, url):
        with pytest.raises(ParameterError, match="postgresql://"):
            Store.open(url)

    def test_a_server_that_does_not_answer(self):
        with pytest.raises(FileError, match=r"postgresql\+psycopg://me:\*\*\*@"):
            Store.open("postgresql://me:secret@127.0.0.1:1/labels")
