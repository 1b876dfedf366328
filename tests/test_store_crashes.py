"""Processes that are killed, and folders that are copied, while labels come in: nothing is lost, nothing is doubled."""

import itertools
import shutil
import signal
import subprocess
import time

import pytest
from databases import new_database
from processes import Program

from poolwise.labelling.store import Event, Store

numbers = itertools.count()

WRITER = """
import sys
from poolwise.labelling.store import Event, Store
place, first = sys.argv[1], int(sys.argv[2])
store = Store.open(place)
for number in range(first, first + 100_000):
    store.append(Event("label", f"item-{number}", "cat", "anna", request_id=f"request-{number}"))
    print(number, flush=True)
"""

COMPACTER = """
import sys
from pathlib import Path
from poolwise.labelling.store import Event, sqlite
sqlite.LARGE_LOG = 1
from poolwise.labelling.store import Store, databases
databases.DatabaseFile.__init__.__defaults__ = (1,)
for number in range(int(sys.argv[2]), 100_000):
    with Store.open(sys.argv[1]) as store:
        store.append(Event("label", f"item-{number}", "cat", "anna", request_id=f"request-{number}"))
    print(number, flush=True)
"""


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=[pytest.mark.xdist_group("postgresql"), pytest.mark.thorough])]
)
def place(request, tmp_path):
    if request.param == "sqlite":
        return tmp_path / "labels.db"
    return new_database(request.getfixturevalue("postgresql_server"), f"crash{next(numbers)}")


def start(program, place, first, output=subprocess.PIPE):
    return Program(["-c", program, place, first], stdout=output, text=True)


def acknowledged(process, count):
    """Wait until a process has acknowledged some events, kill it, and give the numbers of all that it acknowledged."""
    heard = [int(process.stdout.readline()) for _ in range(count)]
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    return heard + [int(line) for line in rest.split("\n")[:-1]]


def check(place, heard):
    """Everything that was acknowledged is there, and everything is there once."""
    with Store.open(place) as store:
        events = store.events()
        assert [event.id for event in events] == list(range(1, len(events) + 1))
        requests = [event.request_id for event in events]
        assert len(requests) == len(set(requests))
        assert {f"request-{number}" for number in heard} <= set(requests)
        return len(events)


def test_a_process_that_is_killed_loses_nothing_that_it_acknowledged(place):
    heard, first = [], 0
    for attempt in range(4):
        heard += acknowledged(start(WRITER, place, first), 5 + 3 * attempt)
        stored = check(place, heard)
        assert len(set(heard)) <= stored <= len(set(heard)) + 1
        first = heard[-1]  # the last request is sent again, as a page does that got no answer
    assert sorted(set(heard)) == list(range(heard[-1] + 1))


def test_killed_while_it_begins_a_new_file(tmp_path):
    heard, first = [], 0
    for attempt in range(4):
        heard += acknowledged(start(COMPACTER, tmp_path / "labels.db", first), 3 + attempt)
        check(tmp_path / "labels.db", heard)
        first = heard[-1]
    names = [path.name for path in tmp_path.glob("labels*.db")]
    assert len(names) <= 3
    assert max(int(name.split(".")[1]) for name in names if name != "labels.db") > 5


@pytest.mark.parametrize("program", [WRITER, COMPACTER], ids=["writing", "beginning new files"])
def test_a_copy_at_any_moment_opens_and_has_what_was_acknowledged_before(tmp_path, program):
    live, said = tmp_path / "live", tmp_path / "said.txt"
    live.mkdir()
    with said.open("w") as output, start(program, live / "labels.db", 0, output) as process:
        try:
            while not said.read_text():
                time.sleep(0.01)
            heard = []
            for attempt in itertools.count():
                if attempt >= 8 and len(heard) > 4:
                    break
                heard = said.read_text().split("\n")[:-1]
                copy = tmp_path / f"copy-{attempt}"
                if shutil.which("cp"):
                    subprocess.run(["cp", "-r", live, copy], stderr=subprocess.DEVNULL)  # files may go while it copies
                else:
                    shutil.copytree(live, copy)
                with Store.open(copy / "labels.db") as store:
                    assert {f"request-{number}" for number in heard} <= {e.request_id for e in store.events()}
                    store.append(Event("label", "more", "cat"))
                time.sleep(0.02)
        finally:
            process.kill()


def test_two_processes_write_at_once(place):
    writers = [start(WRITER, place, first) for first in (0, 200_000)]
    heard = [number for process in writers for number in acknowledged(process, 15)]
    assert check(place, heard) >= 30


def test_a_process_that_opens_a_store_while_another_makes_it(tmp_path):
    processes = [start(WRITER, tmp_path / "labels.db", 1_000_000 * n) for n in range(3)]
    heard = [number for process in processes for number in acknowledged(process, 2)]
    check(tmp_path / "labels.db", heard)
