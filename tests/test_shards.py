"""Predictions in folders of shards: what is written, what is read, and what happens when a folder is not as it says."""

import errno
import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import processes
import pytest
import torch
from pools import features, messy, pool
from processes import Program

import poolwise as pw
from poolwise import errors
from poolwise.predictions import Predictions, ShardWriter, adopt

CUTS = {"one": [97], "two": [50, 47], "uneven": [1, 40, 3, 52, 1], "single rows": [1] * 97}


def write(folder, values, rows_per_shard, kind="log-probs", embeddings=None):
    width = None if embeddings is None else embeddings.shape[1]
    with ShardWriter(
        folder, values.shape, kind=kind, dtype=values.dtype.name, rows_per_shard=rows_per_shard, embeddings=width
    ) as writer:
        for number in writer.missing:
            rows = writer.rows(number)
            writer.put(number, values[rows], None if embeddings is None else embeddings[rows])
    return folder


def cut(folder, values, sizes, axis=0):
    folder.mkdir()
    for number, part in enumerate(np.split(values, np.cumsum(sizes)[:-1], axis)):
        np.save(folder / f"part-{number:05}.npy", part)
    return folder


def change(folder, **changes):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}))


# The same numbers, however they are cut


@pytest.mark.parametrize("sizes", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("method", ["lbb", "power-lbb", "bald", "posterior-coverage"])
def test_no_result_depends_on_how_rows_are_cut_into_shards(tmp_path, sizes, dtype, method):
    x = messy(97, 4, 3, seed=1).astype(dtype)
    np.save(tmp_path / "x.npy", x)
    adopt(cut(tmp_path / "shards", x, sizes), "log-probs")
    expected = pw.select(Predictions.open(tmp_path / "x.npy"), 20, method, information=False)
    batch = pw.select(Predictions.open(tmp_path / "shards"), 20, method, information=False)
    np.testing.assert_array_equal(batch.indices, expected.indices)
    np.testing.assert_array_equal(batch.scores, expected.scores)
    np.testing.assert_array_equal(pw.select(x, 20, method, information=False).indices, expected.indices)


def test_blocks_that_span_shards_and_small_budgets_change_nothing(tmp_path):
    x = pool(1500, 6, 5).astype(np.float16)
    write(tmp_path / "x", x, 211)
    expected = pw.select(x, 30, "lbb", information=False)
    for memory in (1 << 30, 100_000, 8_000):
        batch = pw.select(Predictions.open(tmp_path / "x"), 30, "lbb", information=False, memory=memory)
        np.testing.assert_array_equal(batch.indices, expected.indices)
        np.testing.assert_array_equal(batch.scores, expected.scores)


@pytest.mark.parametrize("kind", ["log-probs", "probs", "logits"])
@pytest.mark.parametrize("layout", ["NKC", "KNC", "NCK"])
def test_every_kind_and_layout_is_read(tmp_path, kind, layout):
    x = pool(60, 4, 3)
    values = np.exp(x) if kind == "probs" else x + (kind == "logits")
    moved = np.ascontiguousarray(values.transpose(["NKC".index(axis) for axis in layout]))
    adopt(cut(tmp_path / "x", moved, [11, 30, 19], layout.index("N")), kind, layout)
    opened = Predictions.open(tmp_path / "x")
    assert repr(opened) == f"Predictions(N=60, K=4, C=3, 3 shards of float32 {kind})"
    np.testing.assert_allclose(opened.rows(np.arange(60)).log_probs.numpy(), x, atol=1e-5)
    some = np.array([59, 0, 11, 10, 11, 41])
    np.testing.assert_allclose(opened.rows(some).log_probs.numpy(), x[some], atol=1e-5)
    np.testing.assert_array_equal(pw.select(opened, 9, "lbb").indices, pw.select(x, 9, "lbb").indices)


def test_rows_far_apart_and_near_each_other_are_read_in_the_order_asked_for(tmp_path):
    x = pool(3000, 5, 4)
    opened = Predictions.open(write(tmp_path / "x", x, 640))
    draw = np.random.default_rng(0)
    for count in (1, 7, 300, 3000):
        positions = draw.choice(3000, count)
        np.testing.assert_array_equal(opened.rows(positions).log_probs.numpy(), x[positions])
    part = opened.take(np.sort(draw.choice(3000, 900, replace=False))).take(np.array([5, 880, 0]))
    assert part.shape == (3, 5, 4)
    assert len(opened.rows(np.empty(0, np.int64)).probs) == 0


def test_more_shards_than_files_may_be_open(tmp_path, monkeypatch):
    monkeypatch.setattr("poolwise.predictions.shards._OPEN", 10)
    x = pool(40, 2, 3)
    opened = Predictions.open(write(tmp_path / "x", x, 1))
    np.testing.assert_array_equal(opened.rows(np.arange(40)).log_probs.numpy(), x)
    assert open_files(tmp_path) == 10
    del opened
    assert open_files(tmp_path) == 0


def open_files(folder):
    """How many files of a folder this process has open: other threads open and close files of their own meanwhile."""
    links = Path("/proc/self/fd").iterdir()
    return sum(os.path.realpath(link).startswith(str(folder)) for link in links)


def test_embeddings_lie_beside_the_shards(tmp_path):
    x, z = pool(50, 3, 4), features(50)
    write(tmp_path / "x", x, 20, embeddings=z)
    opened = Predictions.open(tmp_path / "x", verify=True)
    np.testing.assert_array_equal(opened.embeddings, z)
    for method in ("badge", "coreset"):
        expected = pw.select(x, 8, method, embeddings=z).indices
        np.testing.assert_array_equal(pw.select(opened, 8, method).indices, expected)
    other = features(50, seed=3)
    np.testing.assert_array_equal(Predictions.open(tmp_path / "x", embeddings=other).embeddings, other)


def test_values_are_checked_at_opening_or_on_the_first_pass(tmp_path):
    x = pool(100, 3, 4)
    x[77, 1, 2] = np.nan
    write(tmp_path / "x", x, 30)
    with pytest.raises(errors.NotFiniteError, match=r"row 77\b"):
        Predictions.open(tmp_path / "x")
    late = Predictions.open(tmp_path / "x", validate=False)
    with pytest.raises(errors.NotFiniteError, match=r"row 77\b"):
        pw.select(late, 3, "bald")


def test_checksums_are_those_of_sha256sum(tmp_path):
    write(tmp_path / "x", pool(30, 2, 3), 20)
    manifest = json.loads((tmp_path / "x" / "manifest.json").read_text())
    printed = subprocess.run(
        ["sha256sum", "part-00000.npy", "part-00001.npy"],
        cwd=tmp_path / "x",
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[0] for line in printed.stdout.splitlines()] == [s["sha256"] for s in manifest["shards"]]
    np.testing.assert_array_equal(np.load(tmp_path / "x" / "part-00001.npy"), pool(30, 2, 3)[20:])


# Folders that are not as they say


def other_dtype(folder):
    np.save(folder / "part-00001.npy", np.load(folder / "part-00001.npy").astype(np.float64))


def other_samples(folder):
    np.save(folder / "part-00001.npy", np.load(folder / "part-00001.npy")[:, :-1])


def fewer_rows(folder):
    np.save(folder / "part-00001.npy", np.load(folder / "part-00001.npy")[:-1])


def fortran(folder):
    np.save(folder / "part-00001.npy", np.asfortranarray(np.load(folder / "part-00001.npy")))


def truncated(folder):
    os.truncate(folder / "part-00001.npy", 400)


def longer(folder):
    with (folder / "part-00001.npy").open("ab") as file:
        file.write(b"more")


def empty(folder):
    (folder / "part-00001.npy").write_bytes(b"")


def missing(folder):
    (folder / "part-00001.npy").unlink()


def a_folder(folder):
    missing(folder)
    (folder / "part-00001.npy").mkdir()


def one_too_many(folder):
    shutil.copy(folder / "part-00001.npy", folder / "part-00003.npy")


def no_manifest(folder):
    (folder / "manifest.json").unlink()


def damaged_manifest(folder):
    (folder / "manifest.json").write_text("{")


MANIFESTS = {
    "format": "another",
    "version": 2,
    "kind": "scores",
    "layout": "CKN",
    "dtype": "int8",
    "rows": 61,
    "samples": 5,
    "classes": 0,
    "embeddings": "six",
    "shards": [{"rows": 60, "sha256": "0", "colour": "red"}],
    "colour": "red",
}


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (other_dtype, "part-00001.*float64.*float32"),
        (other_samples, r"part-00001.*\[20, 3, 3\].*\[20, 4, 3\]"),
        (fewer_rows, r"part-00001.*\[19, 4, 3\]"),
        (fortran, "part-00001.*Fortran"),
        (truncated, "part-00001.*cut short"),
        (longer, "part-00001.*bytes"),
        (empty, "part-00001.*not a whole"),
        (missing, "part-00001.*No such file"),
        (a_folder, "part-00001.*directory"),
        (one_too_many, "part-00003.*not in the manifest"),
        (no_manifest, "adopt"),
        (damaged_manifest, "manifest.json is damaged"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, damage, named):
    folder = write(tmp_path / "x", pool(60, 4, 3), 20)
    damage(folder)
    with pytest.raises(errors.FileError, match=named):
        Predictions.open(folder, validate=False)


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_that_disagrees_is_refused(tmp_path, name):
    folder = write(tmp_path / "x", pool(60, 4, 3), 20)
    change(folder, **{name: MANIFESTS[name]})
    with pytest.raises(errors.FileError, match=r"manifest|part-00000"):
        Predictions.open(folder, validate=False)
    (folder / "manifest.json").write_text("[1, 2]")
    with pytest.raises(errors.FileError, match="not a manifest"):
        Predictions.open(folder, validate=False)


def test_damage_that_sizes_do_not_show_is_found_by_the_checksums(tmp_path):
    folder = write(tmp_path / "x", pool(60, 4, 3), 20, embeddings=features(60))
    for name, place in (("part-00002.npy", -4), ("embeddings.npy", -30 * 24)):
        whole = bytearray((folder / name).read_bytes())
        whole[place] ^= 1
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(bytes(whole))
        Predictions.open(folder)
        with pytest.raises(errors.FileError, match=rf"{name}: rows (40|20) to"):
            Predictions.open(folder, verify=True)
        (folder / name).write_bytes(before)
    Predictions.open(folder, verify=True)
    np.save(tmp_path / "x.npy", pool(5, 2, 3))
    with pytest.raises(errors.ParameterError, match="checksums"):
        Predictions.open(tmp_path / "x.npy", verify=True)


def test_a_shard_that_is_cut_short_or_removed_after_opening_is_an_error_and_no_crash(tmp_path):
    folder = write(tmp_path / "x", pool(60, 4, 3), 20)
    opened = Predictions.open(folder, validate=False)
    os.truncate(folder / "part-00001.npy", 400)
    with pytest.raises(errors.FileError, match=r"part-00001.*cut short"):
        pw.select(opened, 3, "bald")
    late = Predictions.open(write(tmp_path / "y", pool(60, 4, 3), 20), validate=False)
    (tmp_path / "y" / "part-00002.npy").unlink()
    with pytest.raises(errors.FileError, match=r"part-00002.*No such file"):
        pw.select(late, 3, "bald")


def test_kind_and_layout_may_be_said_again_but_not_otherwise(tmp_path):
    folder = write(tmp_path / "x", pool(60, 4, 3), 20)
    Predictions.open(folder, kind="log-probs", layout="NKC")
    for wrong in ({"kind": "probs"}, {"layout": "KNC"}):
        with pytest.raises(errors.ParameterError, match="manifest says"):
            Predictions.open(folder, **wrong)
    for needless in ({"key": "x"}, {"samples": 4}):
        with pytest.raises(errors.ParameterError, match="leave out key= and samples="):
            Predictions.open(folder, **needless)


def test_adopting_refuses_what_is_not_alike(tmp_path):
    x = pool(60, 4, 3)
    folder = cut(tmp_path / "gap", x, [20, 20, 20])
    (folder / "part-00001.npy").unlink()
    with pytest.raises(errors.FileError, match=r"part-00001\.npy is missing"):
        adopt(folder, "log-probs")
    folder = cut(tmp_path / "alike", x, [20, 20, 20])
    other_samples(folder)
    with pytest.raises(errors.FileError, match="part-00001"):
        adopt(folder, "log-probs")
    for bad in (np.zeros((3, 2), np.float32), np.zeros((3, 2, 2), int)):
        np.save(folder / "part-00000.npy", bad)
        with pytest.raises(errors.ShapeError, match="part-00000"):
            adopt(folder, "log-probs")
    (folder / "part-00000.npy").write_text("text")
    with pytest.raises(errors.FileError, match="part-00000"):
        adopt(folder, "log-probs")
    with pytest.raises(errors.ParameterError, match="kind"):
        adopt(folder, "scores")
    with pytest.raises(errors.FileError, match=r"part-00000\.npy is missing"):
        adopt(tmp_path, "log-probs")
    with pytest.raises(errors.FileError, match="already"):
        adopt(write(tmp_path / "done", x, 20), "log-probs")


def test_adopting_names_a_shard_without_points_and_one_in_another_order(tmp_path):
    x = pool(60, 4, 3)
    folder = cut(tmp_path / "x", x, [20, 20, 20])
    np.save(folder / "part-00001.npy", x[:0])
    with pytest.raises(errors.ShapeError, match=r"part-00001\.npy: has no points"):
        adopt(folder, "log-probs")
    np.save(folder / "part-00001.npy", np.asfortranarray(x[20:40]))
    with pytest.raises(errors.FileError, match=r"part-00001\.npy: .* Fortran order.* like part-00000\.npy"):
        adopt(folder, "log-probs")


def test_a_bad_value_is_named_with_the_folder(tmp_path):
    x = pool(60, 4, 3)
    x[33] += 1
    folder = cut(tmp_path / "x", x, [20, 40])
    adopt(folder, "log-probs")
    for validate in (True, False):
        with pytest.raises(errors.NotNormalisedError, match=f"{folder}: row 33, posterior sample 0"):
            pw.select(Predictions.open(folder, validate=validate), 5)


def test_what_is_not_there_is_said_also_if_it_was_to_be_verified(tmp_path):
    with pytest.raises(errors.FileError, match="no such file"):
        Predictions.open(tmp_path / "x", verify=True)
    with pytest.raises(errors.FileError, match=r"a folder without a manifest\.json"):
        Predictions.open(tmp_path, verify=True)


def test_the_next_step_for_embeddings_that_are_gone_works(tmp_path):
    x = pool(60, 4, 3)
    folder = write(tmp_path / "x", x, 20, embeddings=features(60))
    (folder / "embeddings.npy").unlink()
    with pytest.raises(errors.FileError, match=r"embeddings\.npy: .* Restore it from a copy, or predict again into"):
        Predictions.open(folder)


# Writing


def begun(folder, count=2):
    """A folder with `count` of three shards."""
    x = pool(60, 4, 3)
    with ShardWriter(folder, x.shape, dtype="float32", rows_per_shard=20) as writer:
        for number in range(count):
            writer.put(number, x[writer.rows(number)])
    return folder


def test_what_is_unfinished_is_refused_and_goes_on(tmp_path):
    folder = begun(tmp_path / "x")
    with pytest.raises(errors.FileError, match="2 of 3 shards"):
        Predictions.open(folder)
    (folder / ".part-00002.npy.1-2.part").write_bytes(b"torn")
    kept = (folder / "part-00000.npy").stat().st_mtime_ns
    with ShardWriter(folder, (60, 4, 3), dtype="float32") as writer:  # the length of the shards is in the folder
        assert writer.missing == [2]
        assert not list(folder.glob(".*.part"))
        writer.put(2, pool(60, 4, 3)[40:])
    assert (folder / "part-00000.npy").stat().st_mtime_ns == kept
    np.testing.assert_array_equal(Predictions.open(folder).rows(np.arange(60)).log_probs.numpy(), pool(60, 4, 3))


@pytest.mark.parametrize(
    ("shape", "changes", "named"),
    [
        ((60, 4, 3), {"dtype": "float16"}, "dtype = float32, not float16"),
        ((60, 4, 3), {"kind": "probs"}, "kind = log-probs, not probs"),
        ((61, 4, 3), {}, "rows = 60, not 61"),
        ((60, 5, 3), {}, "samples = 4, not 5"),
        ((60, 4, 2), {}, "classes = 3, not 2"),
        ((60, 4, 3), {"embeddings": 7}, "embeddings = None, not 7"),
        ((60, 4, 3), {"rows_per_shard": 30}, "shards of 20 rows, not 30"),
    ],
)
def test_another_shape_or_type_is_not_written_into_the_same_folder(tmp_path, shape, changes, named):
    folder = begun(tmp_path / "x")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(errors.FileError, match=named), ShardWriter(folder, shape, **{"dtype": "float32", **changes}):
        pass
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_shard_that_was_removed_is_made_again_and_one_that_is_damaged_is_named(tmp_path):
    folder = begun(tmp_path / "x", 3)
    truncated(folder)
    with pytest.raises(errors.FileError, match=r"part-00001.*remove the file"):
        ShardWriter(folder, (60, 4, 3), dtype="float32").__enter__()
    missing(folder)
    with ShardWriter(folder, (60, 4, 3), dtype="float32") as writer:
        assert writer.missing == [1]
        writer.put(1, pool(60, 4, 3)[20:40])
    Predictions.open(folder, verify=True)


def test_a_writer_checks_what_it_is_given(tmp_path):
    for options, error in (
        ({"kind": "scores"}, errors.ParameterError),
        ({"dtype": "int8"}, errors.ParameterError),
        ({"rows_per_shard": 0}, errors.ParameterError),
        ({"shape": (0, 2, 3)}, errors.ShapeError),
    ):
        with pytest.raises(error):
            ShardWriter(tmp_path / "no", **{"shape": (6, 2, 3), **options})
    writer = ShardWriter(tmp_path / "x", (6, 2, 3), embeddings=4)
    with pytest.raises(errors.StateError):
        writer.put(0, pool(6, 2, 3), features(6, 4))
    with writer:
        for bad, embeddings in (
            (pool(5, 2, 3), features(6, 4)),
            (pool(6, 2, 3), features(6, 5)),
            (pool(6, 2, 3), None),
        ):
            with pytest.raises(errors.ShapeError):
                writer.put(0, bad, embeddings)
        with pytest.raises(errors.ShapeError, match="float32"):
            writer.put(0, np.full((6, 2, 3), 1e6), features(6, 4))
        assert writer.missing == [0]
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.FileError, match="cannot write"):
        ShardWriter(tmp_path / "file", (6, 2, 3)).__enter__()
    with pytest.raises(errors.FileError, match="without a manifest"):
        ShardWriter(cut(tmp_path / "foreign", pool(6, 2, 3), [6]), (6, 2, 3)).__enter__()


def test_a_tensor_of_any_order_is_written(tmp_path):
    x = torch.from_numpy(pool(40, 3, 4))
    write(tmp_path / "x", x.numpy().transpose(1, 0, 2).copy().transpose(1, 0, 2), 30)
    np.testing.assert_array_equal(Predictions.open(tmp_path / "x").rows(np.arange(40)).log_probs.numpy(), x.numpy())


HOLDING = """
import sys, time
from poolwise.predictions import ShardWriter
with ShardWriter(sys.argv[1], (60, 4, 3), dtype="float32", rows_per_shard=20):
    print("ready", flush=True)
    time.sleep(300)
"""


def test_two_processes_do_not_write_one_folder(tmp_path):
    with Program(["-c", HOLDING, tmp_path / "x"], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout.readline() == b"ready\n"
            with pytest.raises(errors.FileError, match="another process"):
                ShardWriter(tmp_path / "x", (60, 4, 3), dtype="float32").__enter__()
        finally:
            other.kill()
    begun(tmp_path / "x")  # the lock of a killed process is gone


def test_a_writer_that_fails_to_begin_gives_the_folder_back(tmp_path):
    folder = begun(tmp_path / "x")
    with pytest.raises(errors.FileError):
        ShardWriter(folder, (61, 4, 3), dtype="float32").__enter__()
    with (folder / ".lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_too_small_a_disk_is_said_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: shutil._ntuple_diskusage(10_000, 9_000, 1_000))
    with pytest.raises(errors.FileError, match="no room"):
        ShardWriter(tmp_path / "x", (60, 4, 3)).__enter__()


FILLING = """
import resource, signal, sys
import numpy as np
from poolwise.predictions import ShardWriter
x = np.log(np.full((60, 4, 3), 1 / 3, np.float32))
with ShardWriter(sys.argv[1], x.shape, dtype="float32", rows_per_shard=20) as writer:
    for number in writer.missing:
        if number == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
        writer.put(number, x[writer.rows(number)])
"""


def test_a_file_that_may_not_grow_is_an_error_and_what_is_complete_stays(tmp_path):
    done = processes.run(["-c", FILLING, tmp_path / "x"])
    assert done.returncode == 1
    assert "FileError" in done.stderr
    assert "2 of 3 shards are complete" in done.stderr
    assert sorted(path.name for path in (tmp_path / "x").iterdir() if path.name != ".lock") == [
        "manifest.json",
        "part-00000.npy",
        "part-00001.npy",
    ]
    with ShardWriter(tmp_path / "x", (60, 4, 3), dtype="float32") as writer:
        assert writer.missing == [2]


@pytest.fixture
def small_disk(tmp_path):
    """A real disk of 64 kB, where this user may have one."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("mounting needs a privilege that this user does not have")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_disk_that_fills_up_while_shards_are_written(small_disk):
    x = pool(500, 4, 3)
    with ShardWriter(small_disk / "x", (1000, 4, 3), dtype="float32", rows_per_shard=500) as writer:
        writer.put(0, x)
        filler = small_disk / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(small_disk).free - 12_288))  # another program takes the space
        with pytest.raises(errors.FileError, match=f"{os.strerror(errno.ENOSPC)}.*1 of 2 shards"):
            writer.put(1, x)
        assert writer.missing == [1]
        filler.unlink()
        writer.put(1, x)
    assert len(Predictions.open(small_disk / "x", verify=True)) == 1000


# Memory


MEASURE = """
import sys, warnings
import numpy as np
import poolwise as pw
from poolwise.predictions import Predictions
warnings.simplefilter("ignore")
def resident(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024
pw.select(np.log(np.full((100, 2, 2), 0.5, np.float32)), 2, "lbb")
before = resident("VmRSS")
opened = Predictions.open(sys.argv[1], validate=False)
pw.select(opened, 5, "bald", memory="16MB", information=False)
for _ in range(10):
    opened.rows(np.random.default_rng(0).choice(len(opened), 2000))
print(resident("VmHWM") - before)
"""


@pytest.mark.parametrize("shards", [True, False])
def test_reading_keeps_little_resident(tmp_path, shards):
    x = np.zeros((200_000, 5, 100), np.float16)  # 200 MB
    x -= np.float16(np.log(100))
    path = tmp_path / "x.npy"
    if shards:
        path = write(tmp_path / "x", x, 50_000)
    else:
        np.save(path, x)
    del x
    done = processes.run(["-c", MEASURE, path])  # of which the measure begins at what it has when it is forked
    assert int(done.stdout) < 120e6, done.stderr
    shutil.rmtree(tmp_path / "x", ignore_errors=True)
    (tmp_path / "x.npy").unlink(missing_ok=True)
