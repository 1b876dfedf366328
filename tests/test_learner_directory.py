"""The directory of a learner: who may write to it, what a crash leaves behind, and what damage is answered with."""

import copy
import gc
import json
import os
import random
import shutil
import signal
import subprocess
import textwrap
import threading
import time

import numpy as np
import pytest
from processes import Program
from sklearn.linear_model import LogisticRegression
from small_learners import TEST, X, Y, history, learner, plain
from test_fingerprint import as_version_0_1

import poolwise as pw
from poolwise import errors
from poolwise.learning.ownership import Ownership
from poolwise.posteriors import Committee
from poolwise.storage import FolderLock

pytestmark = pytest.mark.usefixtures("one_thread")

# Who may write

HOLDING = """
    import sys, time, numpy as np, poolwise as pw
    from sklearn.linear_model import LogisticRegression
    posterior = pw.posteriors.Committee(LogisticRegression(), 2)
    pool = pw.Pool(np.arange(60.0)[:, None], 3)
    learner = pw.ActiveLearner(posterior, pool, "random", 5, sys.argv[1])
    print("ready", flush=True)
    if sys.argv[2] == "die":
        raise SystemExit(1)
    time.sleep(100)
"""


def other_process(folder, *, die=False):
    command = ["-c", textwrap.dedent(HOLDING), folder, "die" if die else "stay"]
    process = Program(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def same(folder, **options):
    pool = pw.Pool(np.arange(60.0)[:, None], 3)
    return pw.ActiveLearner(Committee(LogisticRegression(), 2), pool, "random", 5, folder, **options)


def test_two_processes_are_kept_apart_and_a_killed_one_blocks_nobody(tmp_path):
    process = other_process(tmp_path)
    try:
        host = os.uname().nodename
        for open_it in (
            lambda: same(tmp_path),
            lambda: pw.ActiveLearner.load(tmp_path),
            lambda: learner().save(tmp_path),
        ):
            with pytest.raises(errors.LockedError, match=rf"another process \(id {process.pid} on {host}, since 20.*:"):
                open_it()
        assert pw.ActiveLearner.load(tmp_path, read_only=True).rounds == ()  # looking is allowed
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    same(tmp_path).query()


def test_a_process_that_ends_leaves_no_note(tmp_path):
    process = other_process(tmp_path, die=True)
    process.wait()
    process.stdout.close()
    assert not (tmp_path / ".lock.holder").exists()
    same(tmp_path).query()


def test_a_notebook_cell_can_be_run_twice(tmp_path):
    old = learner(tmp_path)
    old.query()
    new = learner(tmp_path)  # while the old one is alive
    assert history(new) == history(old)
    stored = (tmp_path / "learner.json").read_bytes()
    asked = old.query().indices
    for change in (
        lambda: old.update(asked, Y[asked]),
        lambda: old.correct(old.pool.labelled[0], 0),
        old.skip,
        old.save,
        old.fit,
        lambda: old.finish("enough"),
    ):
        with pytest.raises(errors.StateError, match=r"another learner of this process took over .* open the directory"):
            change()
    assert (tmp_path / "learner.json").read_bytes() == stored
    assert old.predict(X).shape == (60, 3, 3)
    old.close()  # changes nothing for the new one
    new.update(asked, Y[asked])
    with pytest.raises(errors.LockedError):
        open_elsewhere(tmp_path)
    del new
    open_elsewhere(tmp_path)


def open_elsewhere(folder):
    """Take the folder's lock as another process would."""
    with FolderLock(folder):
        pass


def test_a_learner_that_could_not_be_opened_leaves_the_older_one_in_place(tmp_path):
    old = learner(tmp_path)
    for fail in (lambda: learner(tmp_path, batch_size=7), lambda: learner(tmp_path, pool=pw.Pool((X + 1, Y)))):
        with pytest.raises(errors.PoolwiseError):
            fail()
        gc.collect()
        old.query()
        with pytest.raises(errors.LockedError):
            open_elsewhere(tmp_path)
        old.skip()


def test_deleting_closing_and_leaving_give_the_directory_back(tmp_path):
    this = learner(tmp_path)
    del this
    open_elsewhere(tmp_path)
    with learner(tmp_path) as this:
        this.query()
        with pytest.raises(errors.LockedError):
            open_elsewhere(tmp_path)
    open_elsewhere(tmp_path)
    with pytest.raises(errors.StateError, match=r"this learner is closed. To continue, open .* again"):
        this.skip()
    this.close()
    assert sorted(path.name for path in tmp_path.glob(".*")) == [".lock"]
    learner().close()  # without a directory there is nothing to close


def test_saving_elsewhere_moves_the_lock(tmp_path):
    this = learner(tmp_path / "a")
    this.save(tmp_path / "b")
    open_elsewhere(tmp_path / "a")
    with pytest.raises(errors.LockedError):
        open_elsewhere(tmp_path / "b")
    this.save(tmp_path / "b" / ".." / "b")
    this.query()
    assert this.directory.resolve() == (tmp_path / "b").resolve()
    process = other_process(tmp_path / "c")
    try:
        with pytest.raises(errors.LockedError):
            this.save(tmp_path / "c")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert this.directory == tmp_path / "b"
    this.skip()
    assert history(pw.ActiveLearner.load(tmp_path / "b")) == history(this)


def test_saving_again_writes_posterior_and_data_anew_and_leaves_one_copy(tmp_path):
    this = learner(tmp_path)
    this.query()
    this.save()
    this.save()
    assert [path.name for path in tmp_path.glob("objects*")] == ["objects-00002.pkl"]
    assert history(pw.ActiveLearner.load(tmp_path)) == history(this)


def test_a_directory_that_was_removed_can_be_made_again(tmp_path):
    this = learner(tmp_path / "run")
    this.query()
    shutil.rmtree(tmp_path / "run")
    again = learner(tmp_path / "run")
    assert again.rounds == ()
    with pytest.raises(errors.StateError, match=r"was removed, .* made it again"):
        this.skip()
    with pytest.raises(errors.LockedError):
        open_elsewhere(tmp_path / "run")
    del this
    gc.collect()
    with pytest.raises(errors.LockedError):
        open_elsewhere(tmp_path / "run")
    again.query()


def test_a_forked_copy_may_not_write(tmp_path):
    this = learner(tmp_path, method="random", pool=pw.Pool(X, 3))
    this.query()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            this.skip()
        except errors.StateError as error:
            code = 0 if "is only a copy in process" in str(error) else 2
        try:
            open_elsewhere(tmp_path)
            code = 3
        except errors.LockedError:
            pass
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(errors.LockedError):
        open_elsewhere(tmp_path)
    this.skip()


def test_threads_take_over_from_each_other_without_a_torn_state(tmp_path):
    learner(tmp_path, method="random", pool=pw.Pool(X, 3)).close()
    refused, wrong = [], []

    def work():
        for _ in range(6):
            try:
                this = learner(tmp_path, method="random", pool=pw.Pool(X, 3))
                this.query()
                this.skip()
            except errors.StateError as error:
                refused.append(error)
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all("took over" in str(error) for error in refused)
    pw.ActiveLearner.load(tmp_path).query()


def test_a_learner_can_be_opened_while_another_thread_forgets_the_last_one(tmp_path, monkeypatch):
    giving_back, release = threading.Event(), FolderLock.release

    def slowly(lock):
        giving_back.set()
        time.sleep(0.2)  # whatever its length, the learner below must wait for the end
        release(lock)

    monkeypatch.setattr(FolderLock, "release", slowly)
    monkeypatch.setattr("poolwise.learning.ownership._GIVEN_BACK", 300.0)  # however busy the machine is
    last = [learner(tmp_path)]
    thread = threading.Thread(target=last.clear)
    thread.start()
    assert giving_back.wait(60)
    learner(tmp_path).query()
    thread.join()


def test_a_learner_that_was_taken_over_before_it_was_open_leaves_the_newest_one_in_place(tmp_path):
    learner(tmp_path).close()
    first = Ownership(tmp_path)
    second = Ownership(tmp_path)
    third = Ownership(tmp_path)
    second.undo()
    third.check()
    for refused in (first, second):
        with pytest.raises(errors.StateError, match="took over"):
            refused.check()
    third.undo()
    first.check()  # past the second one, which could not be opened either
    with pytest.raises(errors.StateError, match="could not be opened"):
        third.check()
    del second, third
    gc.collect()
    with pytest.raises(errors.LockedError):
        open_elsewhere(tmp_path)
    first.close()
    open_elsewhere(tmp_path)


def test_a_learner_that_was_closed_after_it_was_taken_over_stays_closed(tmp_path):
    first = Ownership(tmp_path)
    second = Ownership(tmp_path)
    first.close()
    second.undo()
    for refused in (first, second):
        with pytest.raises(errors.StateError):
            refused.check()
    open_elsewhere(tmp_path)


def test_read_only(tmp_path):
    this = learner(tmp_path)
    this.query()
    looking = pw.ActiveLearner.load(tmp_path, read_only=True)
    assert history(looking) == history(this)
    assert looking.query().indices.tolist() == this.query().indices.tolist()
    for change in (looking.skip, looking.fit, looking.save):
        with pytest.raises(errors.StateError, match="read_only=True"):
            change()
    looking.close()
    this.skip()  # the lock is where it was
    next(tmp_path.glob("weights-*")).unlink()
    with pytest.raises(errors.FileError, match="weights"):
        pw.ActiveLearner.load(tmp_path, read_only=True)


@pytest.mark.parametrize("copied", [copy.copy, lambda this: this])
def test_a_shallow_copy_does_not_free_the_directory(copied, tmp_path):
    this = learner(tmp_path)
    other = copied(this)
    del other
    gc.collect()
    with pytest.raises(errors.LockedError):
        open_elsewhere(tmp_path)
    this.query()


# What a crash leaves behind


@pytest.mark.parametrize("name", [".objects.pkl.1-2.part", ".learner.json.host-99-7.part"])
def test_a_killed_first_write_leaves_nothing_for_good(name, tmp_path):
    """Killed before there was any state: the next learner starts from nothing, and tidies up."""
    (tmp_path / name).write_bytes(b"half")
    learner(tmp_path).query()
    assert not list(tmp_path.glob(".*.part"))
    (tmp_path / name).write_bytes(b"half")
    gc.collect()
    learner(tmp_path)
    learner(tmp_path)
    gc.collect()
    pw.ActiveLearner.load(tmp_path).close()
    pw.ActiveLearner.load(tmp_path).close()
    assert not list(tmp_path.glob(".*.part"))


def test_nothing_piles_up_over_many_rounds(tmp_path):
    this = learner(tmp_path, method="random", batch_size=1, agreement=True)
    list(pw.simulate(this, Y, 19))
    names = sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("."))
    assert names == [
        *("classes-00012.npy", "history-00000.jsonl", "learner.json", "objects.pkl"),
        *("rows-0000120.npz", "weights-00014.pt"),
    ]


# Damage


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A learner in the middle of its work, with every kind of file."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with learner(folder, test=TEST, agreement=True) as this:
        simulation = pw.simulate(this, Y, 21)
        next(simulation)
        next(simulation)
        this.query()
    (folder / ".lock").unlink()
    return folder


def attempt(folder, expected):
    """A damaged directory is refused with one clear error, or gives what it gave before."""
    try:
        with pw.ActiveLearner.load(folder) as again:
            assert [plain(entry) for entry in again.rounds] == expected
            again.query()
            if list(folder.glob("weights-*")):
                again.predict(X)
    except (errors.FileError, errors.StateError, errors.DataMismatchError) as error:
        message = str(error)
        assert str(folder) in message
        assert len(message) < 1000
        assert "\n" not in message
        return message
    return None


def damage(path, draw):
    content = path.read_bytes()
    at = draw.randrange(len(content))
    choice = draw.randrange(6)
    if choice == 0:
        path.write_bytes(content[:at])
    elif choice == 1:
        path.write_bytes(b"")
    elif choice == 2:
        path.write_bytes(content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :])
    elif choice == 3:
        path.write_bytes(draw.randbytes(draw.randrange(1, 2000)))
    elif choice == 4:
        path.write_bytes(content[:at] + draw.randbytes(8) + content[at:])
    else:
        path.unlink()


@pytest.mark.parametrize("seed", range(4))
def test_random_damage_is_refused_or_harmless(seed, whole, tmp_path):
    draw = random.Random(seed)
    expected = [plain(entry) for entry in pw.ActiveLearner.load(whole, read_only=True).rounds]
    names = sorted(path.name for path in whole.iterdir() if not path.name.startswith("."))
    assert len(names) == 6
    refused = 0
    for number in range(25):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        damage(folder / draw.choice(names), draw)
        refused += attempt(folder, expected) is not None
    assert refused >= 20  # weights that are gone are trained again


def refusal(folder):
    """Why a directory cannot be opened, or None if it can."""
    try:
        with pw.ActiveLearner.load(folder) as again:
            again.query()
    except (errors.InputError, errors.StateError) as error:
        return str(error)
    return None


NONSENSE = [None, True, -1, 10**30, 1.5, float("nan"), "x", [], {}, [None], {"a": 1}, [[1]], [-1, 10**9]]


def places(value, path=()):
    """Every place in a JSON value."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from places(part, (*path, key))


@pytest.mark.parametrize("seed", range(2))
def test_wrong_types_in_a_state_without_a_checksum_are_refused_or_harmless(seed, whole, tmp_path):
    """Version 0.1 wrote no checksum, so its values are checked one by one."""
    draw = random.Random(seed)
    as_old = tmp_path / "old"
    shutil.copytree(whole, as_old)
    as_version_0_1(as_old)
    state = json.loads((as_old / "learner.json").read_text())
    everywhere = list(places(state))
    top = [place for place in everywhere if len(place) <= 2]
    for number in range(60):
        changed = copy.deepcopy(state)
        *parents, last = draw.choice(top if number % 2 else everywhere)
        inner = changed
        for key in parents:
            inner = inner[key]
        if draw.random() < 0.2:
            del inner[last]
        else:
            inner[last] = draw.choice(NONSENSE)
        (as_old / "learner.json").write_text(json.dumps(changed))
        message = refusal(as_old)
        assert message is None or str(as_old) in message, (parents, last, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "does not contain the state"),
        ("{}", "settings: field required"),
        ('{"format": 4}', "newer version"),
        ('{"format": 2}', "checksum"),
        ("[" * 100_000, "damaged"),
    ],
)
def test_states_that_are_none(content, message, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "x")
    (tmp_path / "x" / "learner.json").write_text(content)
    with pytest.raises(errors.FileError, match=message):
        pw.ActiveLearner.load(tmp_path / "x")


def test_an_edited_state_is_noticed(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "x")
    path = tmp_path / "x" / "learner.json"
    state = json.loads(path.read_text())
    state["pool"]["labels"][0] = (state["pool"]["labels"][0] + 1) % 3
    path.write_text(json.dumps(state))
    with pytest.raises(errors.FileError, match=r"do not fit its checksum\. Restore it from a copy"):
        pw.ActiveLearner.load(tmp_path / "x")


def test_weights_with_a_flipped_bit_are_noticed(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "x")
    path = next((tmp_path / "x").glob("weights-*.pt"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(errors.FileError, match=r"weights-.* do not fit its checksum"):
        pw.ActiveLearner.load(tmp_path / "x")


def test_a_method_that_is_not_known(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "x")
    as_version_0_1(tmp_path / "x")
    path = tmp_path / "x" / "learner.json"
    path.write_text(path.read_text().replace('"bald"', '"mine"'))
    with pytest.raises(errors.MissingInputError, match=r"learner\.json names the method 'mine'.*method=\.\.\."):
        pw.ActiveLearner.load(tmp_path / "x")
