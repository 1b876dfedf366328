"""Files that are never half written, whatever happens while they are."""

import errno
import json
import math
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import poolwise as pw
from poolwise import errors, storage
from poolwise.storage import FolderLock, read_json, remove_unfinished, replacing, write_json


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    return tmp_path / "file"


def names(path):
    return sorted(entry.name for entry in path.parent.iterdir())


def test_a_file_is_replaced_once_it_is_complete(path):
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(path) == ["file"]


def test_a_new_file(tmp_path):
    with replacing(tmp_path / "new") as file:
        file.write(b"new")
    assert (tmp_path / "new").read_bytes() == b"new"


@pytest.mark.parametrize("exception", [ValueError, KeyboardInterrupt, RuntimeError, SystemExit])
def test_whatever_goes_wrong_the_old_contents_stay(exception, path):
    def fail():
        with replacing(path) as file:
            file.write(b"half")
            raise exception("the caller's own")

    with pytest.raises(exception, match="the caller's own"):
        fail()
    assert path.read_bytes() == b"old"
    assert names(path) == ["file"]


def full(*args, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(("owner", "name"), [(os, "fsync"), (Path, "replace"), (Path, "open")])
def test_a_full_disk(owner, name, path, monkeypatch):
    monkeypatch.setattr(owner, name, full)
    with (
        pytest.raises(errors.FileError, match=r"cannot write .*file \(No space left on device\).* unchanged"),
        replacing(path) as file,
    ):
        file.write(b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert names(path) == ["file"]


WRITERS = {
    "plain": lambda file: file.write(b"x" * 1_000_000),
    "torch": lambda file: torch.save({"weights": torch.zeros(300_000)}, file),
    "numpy": lambda file: np.save(file, np.zeros(300_000), allow_pickle=False),
    "pickle": lambda file: pickle.dump(np.zeros(300_000), file),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_device_that_is_really_full(writer, path, monkeypatch):
    real = Path.open
    monkeypatch.setattr(Path, "open", lambda self, *rest: real(Path("/dev/full"), *rest))
    with pytest.raises(errors.FileError, match="No space left on device"), replacing(path) as file:
        WRITERS[writer](file)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"


def test_a_folder_that_does_not_exist_or_is_a_file(path, tmp_path):
    for place in (tmp_path / "nowhere" / "file", path / "below"):
        with pytest.raises(errors.FileError, match="cannot write"), replacing(place) as file:
            file.write(b"new")
    assert names(path) == ["file"]


def test_a_file_system_that_cannot_make_a_rename_durable_is_left_alone(path, monkeypatch):
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: full() if os.path.isdir(f"/proc/self/fd/{handle}") else real(handle)
    )
    write_json(path, 1)
    assert read_json(path) == 1


def test_the_order_is_write_sync_rename(path, monkeypatch):
    done = []
    sync, replace = os.fsync, Path.replace

    def synced(handle):
        place = os.readlink(f"/proc/self/fd/{handle}")
        done.append("sync folder" if os.path.isdir(place) else f"sync {os.path.getsize(place)}")
        sync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", lambda self, target: done.append("rename") or replace(self, target))
    with replacing(path) as file:
        file.write(b"12345")
    assert done == ["sync 5", "rename", "sync folder"]


def test_threads_do_not_disturb_each_other(path):
    def work(number):
        for _ in range(30):
            write_json(path, [number] * 1000)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        contents = path.read_bytes()
        assert contents == b"old" or len(set(json.loads(contents))) == 1
    for thread in threads:
        thread.join()
    assert names(path) == ["file"]


@pytest.mark.slow
def test_a_process_killed_while_it_writes(path):
    code = """
        import os, signal, sys
        from pathlib import Path
        from poolwise.storage import replacing
        with replacing(Path(sys.argv[1])) as file:
            file.write(b"half")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(path)]
    done = subprocess.run(command, cwd=Path(pw.__file__).parents[1], check=False)
    assert done.returncode == -9
    assert path.read_bytes() == b"old"
    assert len(names(path)) == 2  # the half that was written
    write_json(path, "and on it goes")
    assert read_json(path) == "and on it goes"
    assert names(path) == ["file"]


def test_json_round_trips_every_number(path):
    value = {"a": [1, 0.1, 1 / 3, 1e-320, -0.0, math.inf, math.nan, 2**60], "b": None, "c": "ä☃", "d": {"e": True}}
    write_json(path, value)
    again = read_json(path)
    assert repr(again) == repr(value)
    assert path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize("contents", [b"", b"{", b"\xff\xfe", b'{"a": 1} {', b"\x00" * 100])
def test_a_damaged_file_is_named(contents, path):
    path.write_bytes(contents)
    with pytest.raises(errors.FileError, match=r"file is damaged: .*Restore it from a copy"):
        read_json(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(errors.FileError, match=r"cannot read .*nothing: No such file"):
        read_json(tmp_path / "nothing")


def test_what_json_cannot_hold_leaves_the_old_contents(path):
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert path.read_bytes() == b"old"
    assert names(path) == ["file"]


def test_json_that_is_nested_too_deeply_is_damaged(tmp_path):
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(errors.FileError, match=r"x\.json is damaged.*Ask Ann\.$"):
        read_json(tmp_path / "x.json", "Ask Ann.")


# What a killed process leaves behind


def abandoned(path, process, host=storage._HOST):
    part = path.with_name(f".{path.name}.{host}-{process}-1.part")
    part.write_bytes(b"half")
    return part


def ended_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_only_what_nobody_writes_any_more_is_removed(path):
    """Another process, another machine or another thread may be about to finish its file."""
    gone = abandoned(path, ended_process())
    other_file = abandoned(path.with_name("other"), ended_process())
    living = [abandoned(path, os.getppid()), abandoned(path, os.getpid()), abandoned(path, 1, "elsewhere")]
    write_json(path, 1)
    assert not gone.exists()
    assert not other_file.exists()
    assert all(part.exists() for part in living)
    remove_unfinished(path.parent)
    assert names(path) == ["file"]


@pytest.mark.parametrize("moment", ["open", "write", "fsync", "replace", "sync_folder"])
@pytest.mark.parametrize("exception", [KeyboardInterrupt, OSError(errno.EIO, "Input/output error")])
def test_an_exception_at_any_moment_leaves_no_unfinished_file(moment, exception, path, monkeypatch):
    def fail(*args, **options):
        raise exception

    owner = {"open": Path, "replace": Path, "fsync": os, "sync_folder": storage}.get(moment)
    if owner is not None:
        monkeypatch.setattr(owner, moment, fail)

    def write():
        with replacing(path) as file:
            file.write(b"new")
            if moment == "write":
                fail()

    with pytest.raises((KeyboardInterrupt, errors.FileError)):
        write()
    monkeypatch.undo()
    assert names(path) == ["file"]
    assert path.read_bytes() == (b"new" if moment == "sync_folder" else b"old")


# Locks


def test_a_lock_keeps_others_out_and_says_who_has_it(tmp_path):
    with FolderLock(tmp_path):
        expected = rf"written by another process \(id {os.getpid()} on .*, since 20..-..-.. ..:..:..\). Wait for it"
        with pytest.raises(errors.LockedError, match=expected):
            FolderLock(tmp_path).acquire()
        for note in ("", "[]", "{}", "nonsense"):
            (tmp_path / ".lock.holder").write_text(note)
            with pytest.raises(errors.LockedError, match=r"written by another process\. Wait for it"):
                FolderLock(tmp_path).acquire()
    with FolderLock(tmp_path):
        pass
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".lock"]
    assert issubclass(errors.LockedError, errors.StateError)
    assert issubclass(errors.LockedError, errors.FileError)


def test_a_lock_waits_if_it_is_told_to(tmp_path):
    order = []

    def second():
        with FolderLock(tmp_path, wait=True):
            order.append("second")

    with FolderLock(tmp_path, wait=True):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_whoever_gets_a_lock_tidies_up(tmp_path):
    for name in (".rounds.jsonl.1-2.part", ".run.json.host-1-2.part"):
        (tmp_path / name).write_bytes(b"half")
    with FolderLock(tmp_path):
        assert sorted(entry.name for entry in tmp_path.iterdir()) == [".lock", ".lock.holder"]


def test_a_lock_given_back_twice_or_by_nobody(tmp_path):
    lock = FolderLock(tmp_path)
    lock.release()
    lock.acquire()
    lock.release()
    with FolderLock(tmp_path):
        lock.release()
        with pytest.raises(errors.LockedError):
            FolderLock(tmp_path).acquire()


def test_a_folder_that_cannot_be_locked(tmp_path):
    (tmp_path / ".lock").mkdir()
    with pytest.raises(errors.FileError, match="cannot write to"):
        FolderLock(tmp_path).acquire()


def test_nothing_here_needs_unix():
    code = "import sys; sys.modules['fcntl'] = None; import poolwise.storage, poolwise.predictions, poolwise.learning"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(pw.__file__).parents[1])
    sources = [path.read_text() for path in Path(pw.__file__).parent.rglob("*.py")]
    assert not [source for source in sources if re.search(r"^import fcntl", source, re.MULTILINE)]  # unless it is tried


def test_searches_through_folders_give_up(tmp_path, monkeypatch, run):
    """The whole disk, given by mistake, is not read."""
    monkeypatch.setattr("poolwise.storage.MOST_EMPTY", 20)
    for number in range(6):
        (tmp_path / "disk" / f"{number}" / "deep" / "deeper" / "deepest").mkdir(parents=True)
    report = run("report", tmp_path / "disk", code=2)
    assert "stopped after 20 folders in which there is no run. Give the folder that an experiment wrote" in report.err
    with pytest.raises(errors.FileError, match=r"disk: stopped after 20 folders in which there is no image\. Give"):
        pw.data.open_data(tmp_path / "disk")
    assert "no image" in run("predict", "--model", _network(tmp_path), tmp_path / "disk", "-o", "preds", code=2).err


def test_folders_in_which_something_was_found_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr("poolwise.storage.MOST_EMPTY", 2)
    for number in range(5):
        folder = tmp_path / "photos" / "class" / f"{number}"
        folder.mkdir(parents=True)
        Image.new("L", (4, 4)).save(folder / "a.png")
    assert len(pw.data.open_data(tmp_path / "photos")) == 5


def _network(folder):
    torch.save(torch.nn.Linear(2, 2), folder / "net.pt")
    return folder / "net.pt"
