"""A learner goes on after an interruption at any moment; what is saved, and what loading refuses."""

import errno
import json
import os
import random
import runpy
import shutil
import signal
import sys
import textwrap
import threading
import time
from pathlib import Path
from subprocess import PIPE

import processes
import pytest
import torch
from processes import Program
from sklearn.tree import DecisionTreeClassifier
from small_learners import TEST, X, Y, ensemble, history, learner, linear, mlp, picture, plain, started
from small_networks import values

import poolwise as pw
from poolwise import errors
from poolwise.learning.rounds import Round
from poolwise.learning.stopping import Stable, Target
from poolwise.posteriors import Committee, DeepEnsemble, MCDropout

pytestmark = pytest.mark.usefixtures("one_thread")


# Interruption at any moment


def contents_of(path):
    with open(path, "rb") as file:
        return file.read()


@pytest.fixture
def snapshots(monkeypatch, tmp_path):
    """Copies of a directory at every step of every write: what `kill -9` at that moment would leave behind."""
    taken, seen = [], set()

    def snap(path):
        folder = next(part for part in path.parents if part.name == "run")
        names = sorted(os.listdir(folder))
        whole = tuple((name, contents_of(folder / name)) for name in names if not name.endswith(".part"))
        contents = whole, any(name.endswith(".part") for name in names)
        if contents not in seen:
            seen.add(contents)
            taken.append(tmp_path / f"snapshot-{len(taken)}")
            shutil.copytree(folder, taken[-1])

    def around(owner, name):
        real = getattr(owner, name)

        def spy(self, *args, **options):
            watched = isinstance(self, Path) and "run" in (part.name for part in self.parents)
            if watched:
                snap(self)
            result = real(self, *args, **options)
            if watched:
                snap(self)
            return result

        monkeypatch.setattr(owner, name, spy)

    for name in ("replace", "unlink", "open"):
        around(Path, name)
    yield taken
    monkeypatch.undo()


def run_script(folder, make):
    """A script as a user would write it, run again after every crash: whole batches."""
    this = pw.ActiveLearner(make(), started(), "power-lbb", 5, folder, 3, test=TEST)
    list(pw.simulate(this, Y, 21, stop=[Stable(0.999, 3)]))
    return this


def run_in_parts(folder, make):
    """The same with labels that come two by two, wrong at first, and are corrected."""
    pool = pw.Pool(X, 3)
    this = pw.ActiveLearner(make(), pool, "batchbald", 4, folder, 3, validation=TEST)
    while len(this.pool.labelled) < 10 or this.pending is not None:
        put_right(this)
        asked = this.query().indices[:2]
        this.update(asked, (Y[asked] + 1) % 3)
    put_right(this)
    this.finish("enough")
    return this


def run_by_features(folder, make):
    """From no labels at all, by features that do not fit the memory."""
    this = pw.ActiveLearner(
        make(), pw.Pool(X, 3), "coreset", 5, folder, 3, features=lambda x: x**2, first="coreset", memory="1KB"
    )
    list(pw.simulate(this, Y, 20))
    return this


def put_right(this):
    """Correct what is wrong, and nothing else: a correction asks for a new model."""
    wrong = this.pool.labelled[this.pool.labels != Y[this.pool.labelled]]
    if len(wrong):
        this.correct(wrong, Y[wrong])


BRIEF = pw.Training(steps=2, batch_size=16, learning_rate=0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::poolwise.errors.SaturationWarning")
@pytest.mark.parametrize(
    ("script", "make"),
    [
        pytest.param(run_script, lambda: DeepEnsemble(linear, 3, training=BRIEF), marks=pytest.mark.thorough),
        pytest.param(
            run_script, lambda: MCDropout(mlp, 4, training=BRIEF, warm_start=True), marks=pytest.mark.thorough
        ),
        pytest.param(
            run_in_parts, lambda: DeepEnsemble(linear, 3, training=BRIEF, warm_start=True), marks=pytest.mark.thorough
        ),
        (run_script, lambda: Committee(DecisionTreeClassifier(max_depth=3), 3)),
        pytest.param(
            run_by_features, lambda: Committee(DecisionTreeClassifier(max_depth=3), 3), marks=pytest.mark.thorough
        ),
    ],
    ids=["ensemble", "dropout, warm", "ensemble in parts, warm", "committee", "by features"],
)
def test_a_run_that_is_killed_at_any_moment_ends_the_same(script, make, snapshots, tmp_path, monkeypatch):
    torch.set_num_threads(1)
    reference = script(tmp_path / "run", make)
    moments = list(snapshots)
    monkeypatch.undo()
    assert len(moments) > 30
    expected, labels = history(reference), (reference.pool.labelled.tolist(), reference.pool.labels.tolist())
    for moment in moments:
        again = script(moment, make)
        assert history(again) == expected, moment.name
        assert (again.pool.labelled.tolist(), again.pool.labels.tolist()) == labels
        names = sorted(path.name.split("-")[0] for path in moment.iterdir() if not path.name.startswith(".lock"))
        kept = ["classes"] * (script is run_script) + ["features.npy"] * (script is run_by_features)
        kept += ["history", "learner.json", "objects.pkl", "rows", "weights"]
        assert names == kept  # nothing piles up


@pytest.mark.slow
def test_kill_9(tmp_path, monkeypatch, capsys):
    """A real process, killed for good at random times, and started again until it comes to its end."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys, torch, numpy as np, poolwise as pw
            from torch import nn
            torch.set_num_threads(1)
            draw = np.random.default_rng(0)
            x, y = torch.from_numpy(draw.normal(size=(80, 4))).float(), draw.integers(0, 3, 80)
            make = lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
            pool = pw.Pool((x, y))
            pool.start_balanced(2)
            posterior = pw.posteriors.MCDropout(make, 5, training=pw.Training(steps=60), warm_start=True)
            learner = pw.ActiveLearner(posterior, pool, "power-lbb", 4, sys.argv[1], 1, test=(x, y))
            print("ready", flush=True)
            for entry in pw.simulate(learner, y, 38):
                print(entry.round, flush=True)
                if "wait" in sys.argv:  # so that it is never done before it is killed
                    sys.stdin.readline()
            """
        )
    )
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path / "whole")])
    runpy.run_path(str(script))
    out = capsys.readouterr().out
    command = [script, tmp_path / "killed"]
    draw = random.Random(0)
    for _ in range(2):
        with Program([*command, "wait"], stdin=PIPE, stdout=PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            for _ in range(draw.randrange(1, 4)):
                process.stdout.readline()
                print(file=process.stdin, flush=True)
            time.sleep(draw.random() * 0.05)
            process.kill()
        assert process.returncode == -signal.SIGKILL
    done = processes.run(command)
    assert done.returncode == 0, done.stderr
    records = [json.loads((tmp_path / name / "learner.json").read_text())["rounds"] for name in ("whole", "killed")]
    assert len(out.split()) == len(records[0]) + 1
    first, second = ([plain(Round.from_dict(entry)) for entry in rounds] for rounds in records)
    assert first == second


def test_rules_wait_for_the_labels_of_the_last_batch(tmp_path):
    """Killed between asking and answering: the labels come first, as they would have."""
    stop = [Target(0.0)]
    whole = learner(tmp_path / "whole", validation=TEST)
    list(pw.simulate(whole, Y, 40, stop=stop))
    this = learner(tmp_path / "this", validation=TEST)
    this.query()
    again = learner(tmp_path / "this", validation=TEST)
    list(pw.simulate(again, Y, 40, stop=stop))
    assert history(again) == history(whole)
    assert again.rounds[-1].labelled == 11


# Saving and loading


def test_load_needs_the_directory_alone(tmp_path):
    whole = learner(tmp_path / "whole", test=TEST)
    list(pw.simulate(whole, Y, 21))
    this = learner(tmp_path / "this", test=TEST)
    next(pw.simulate(this, Y, 21))
    del this
    again = pw.ActiveLearner.load(tmp_path / "this")
    assert (again.method, again.batch_size, again.seed) == ("bald", 5, 0)
    list(pw.simulate(again, Y, 21))
    assert history(again) == history(whole)
    assert torch.equal(values(again.predict(X)), values(whole.predict(X)))
    assert torch.equal(values(pw.ActiveLearner.load(tmp_path / "this").predict(X)), values(whole.predict(X)))


def test_load_in_another_process(tmp_path):
    """The functions of these tests are not there in another process, and the message says what to do."""
    this = learner(tmp_path, test=TEST)
    expected = this.query().indices.tolist()
    this.close()
    code = f"""
        import torch, poolwise as pw
        from torch import nn
        folder = {str(tmp_path)!r}
        try:
            pw.ActiveLearner.load(folder)
        except pw.errors.FileError as error:
            assert "No module named 'small_learners'" in str(error) and "Pass posterior=" in str(error), error
        posterior = pw.posteriors.DeepEnsemble(lambda: nn.Sequential(nn.Linear(4, 3)), 3)
        given = {{"posterior": posterior, "data": torch.zeros(60, 4), "test": (torch.zeros(2, 4), [0, 1])}}
        print(pw.ActiveLearner.load(folder, check_data=False, **given).query().indices.tolist())
    """
    done = processes.run(["-c", textwrap.dedent(code)])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected


def test_load_with_parts_given(tmp_path):
    this = learner(tmp_path, self_contained=False, test=TEST, validation=TEST)
    this.query()
    assert not (tmp_path / "objects.pkl").exists()
    with pytest.raises(errors.MissingInputError, match="pass posterior= and data= and test= and validation="):
        pw.ActiveLearner.load(tmp_path)
    with pytest.raises(errors.MissingInputError, match="pass test= and validation="):
        pw.ActiveLearner.load(tmp_path, posterior=ensemble(), data=X)
    again = pw.ActiveLearner.load(tmp_path, posterior=ensemble(), data=(X, Y), test=TEST, validation=TEST)
    assert history(again) == history(this)
    list(pw.simulate(again, Y, 16))
    whole = learner()
    list(pw.simulate(whole, Y, 16))
    assert [entry.indices for entry in again.rounds] == [entry.indices for entry in whole.rounds]
    assert not (tmp_path / "objects.pkl").exists()


def test_the_saved_test_set_is_used_when_only_posterior_and_data_are_given(tmp_path):
    this = learner(tmp_path, test=TEST)
    next(pw.simulate(this, Y, 21))
    again = pw.ActiveLearner.load(tmp_path, posterior=ensemble(), data=X)
    list(pw.simulate(again, Y, 21))
    assert all(entry.metrics is not None for entry in again.rounds)


def test_a_learner_without_a_directory_is_saved_whole(tmp_path):
    """Also what stopping rules and warm starts need, which a learner with a directory wrote round by round."""
    for contained in (True, False):
        whole = learner(posterior=ensemble(warm_start=True), test=TEST)
        list(pw.simulate(whole, Y, 26))
        this = learner(posterior=ensemble(warm_start=True), test=TEST, self_contained=contained)
        simulation = pw.simulate(this, Y, 26)
        next(simulation)
        next(simulation)
        with pytest.raises(errors.StateError, match="has no directory"):
            this.save()
        folder = tmp_path / f"saved-{contained}"
        this.save(folder)
        given = {} if contained else {"posterior": ensemble(warm_start=True), "data": (X, Y), "test": TEST}
        again = pw.ActiveLearner.load(folder, **given)
        list(pw.simulate(again, Y, 26))
        assert history(again) == history(whole)
        this.save(str(tmp_path / f"elsewhere-{contained}"))
        list(pw.simulate(this, Y, 26))
        assert history(pw.ActiveLearner.load(tmp_path / f"elsewhere-{contained}", **given)) == history(whole)


def test_the_same_script_goes_on_and_a_different_one_is_refused(tmp_path):
    this = learner(tmp_path, method="power-bald", alpha=2.0)
    this.query()
    again = learner(tmp_path, method="power-bald", alpha=2.0, memory="1GB")  # memory changes no result
    assert history(again) == history(this)
    assert again.query().indices.tolist() == this.query().indices.tolist()
    stored = (tmp_path / "learner.json").read_bytes()
    for options, message in [
        ({"method": "bald"}, "method = 'power-bald', not 'bald'"),
        ({"method": "power-bald", "alpha": 3.0}, "parameters"),
        ({"method": "power-bald"}, "parameters"),
        ({"method": "power-bald", "alpha": 2.0, "seed": 1}, "seed = 0, not 1"),
        ({"method": "power-bald", "alpha": 2.0, "batch_size": 6}, "batch_size = 5, not 6"),
    ]:
        with pytest.raises(errors.StateError, match=message):
            learner(tmp_path, **options)
        assert (tmp_path / "learner.json").read_bytes() == stored
    with pytest.raises(errors.DataMismatchError, match="10 rows were removed"):
        learner(tmp_path, method="power-bald", alpha=2.0, pool=pw.Pool((X[:50], Y[:50])))
    with pytest.raises(errors.DataMismatchError, match="Load it with the same data"):
        learner(tmp_path, method="power-bald", alpha=2.0, pool=pw.Pool((X[:50], Y[:50])), check_data=False)
    with pytest.raises(errors.ParameterError, match="has 3 networks, and this DeepEnsemble has 2"):
        learner(tmp_path, method="power-bald", alpha=2.0, posterior=DeepEnsemble(linear, 2))


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "learner.json").write_text(""),
        lambda folder: (folder / "learner.json").write_text((folder / "learner.json").read_text()[:-20]),
        lambda folder: (folder / "learner.json").write_bytes(b"\xff\xfe\x00" * 50),
        lambda folder: (folder / "learner.json").write_text("[]"),
        lambda folder: (folder / "learner.json").write_text('{"settings": {}}'),
        lambda folder: next(folder.glob("weights-*.pt")).write_bytes(b"PK"),
        lambda folder: next(folder.glob("classes-*.npy")).write_bytes(b""),
        lambda folder: next(folder.glob("classes-*.npy")).unlink(),
        lambda folder: (folder / "objects.pkl").write_bytes(b"\x80\x04"),
    ],
)
def test_damaged_files_are_named(damage, tmp_path):
    this = learner(tmp_path, agreement=True)
    this.query()
    this.close()
    damage(tmp_path)
    with pytest.raises(errors.FileError, match="damaged"):
        pw.ActiveLearner.load(tmp_path)


def test_weights_that_are_gone_are_trained_again(tmp_path):
    whole = learner(tmp_path / "whole")
    list(pw.simulate(whole, Y, 16))
    this = learner(tmp_path / "this")
    this.fit()
    next((tmp_path / "this").glob("weights-*.pt")).unlink()
    again = learner(tmp_path / "this")
    list(pw.simulate(again, Y, 16))
    assert history(again) == history(whole)
    warm = learner(tmp_path / "warm", posterior=ensemble(warm_start=True))
    warm.query()
    next((tmp_path / "warm").glob("weights-*.pt")).unlink()
    with pytest.raises(errors.FileError, match=r"weights-00001\.pt cannot be read, it may be missing"):
        learner(tmp_path / "warm", posterior=ensemble(warm_start=True))


def test_a_directory_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/poolwise")):
        with pytest.raises(errors.FileError, match=r"cannot (make|write)"):
            learner(folder)
    with pytest.raises(errors.FileError, match="has no saved learner"):
        pw.ActiveLearner.load(tmp_path)
    with pytest.raises(errors.FileError, match="has no saved learner"):
        pw.ActiveLearner.load(tmp_path / "nowhere")


def test_a_posterior_that_cannot_be_saved_is_refused_with_a_way_out(tmp_path):
    posterior = ensemble()
    posterior.lock = threading.Lock()
    with pytest.raises(errors.ParameterError, match="self_contained=False"):
        learner(tmp_path / "a", posterior=posterior)
    learner(tmp_path / "b", posterior=posterior, self_contained=False).query()


STEPS = {
    "fit": lambda this: this.fit(),
    "query": lambda this: this.query(),
    "update": lambda this: this.update(this.pending.indices[:2], Y[this.pending.indices[:2]]),
    "correct": lambda this: this.correct(this.pool.labelled[:1], [0]),
    "elsewhere": lambda this: this.update(this.pool.unlabelled[-1:], [0], author="anna"),
    "reject": lambda this: this.reject(this.pending.indices[:1], "blurred"),
    "extend": lambda this: this.extend(X[:2] + 1),
    "skip": lambda this: this.skip(),
    "query again": lambda this: this.query(),
    "update again": lambda this: this.update(this.pending.indices, Y[this.pending.indices]),
    "finish": lambda this: this.finish("enough"),
}


@pytest.mark.parametrize("call", ["fsync", "replace", "write"])
def test_a_full_disk_is_an_error_that_changes_nothing(call, tmp_path, monkeypatch):
    """Every step fails until there is room, then works: the run is that of a disk with room from the start."""

    def full(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    def no_room():
        if call == "fsync":
            monkeypatch.setattr(os, "fsync", full)
        elif call == "replace":
            monkeypatch.setattr(Path, "replace", full)
        else:
            real = Path.open
            monkeypatch.setattr(
                Path,
                "open",
                lambda path, *rest: real(Path("/dev/full"), *rest) if path.suffix == ".part" else real(path, *rest),
            )

    reference = learner(posterior=ensemble(warm_start=True), test=TEST)
    for step in STEPS.values():
        step(reference)
    this = learner(tmp_path, posterior=ensemble(warm_start=True), test=TEST)
    for name, step in STEPS.items():
        stored = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        before = picture(this)[:3]
        no_room()
        for _ in range(2):
            with pytest.raises(errors.FileError, match="No space left on device"):
                step(this)
        monkeypatch.undo()
        assert picture(this)[:3] == before, name
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert files == stored, name
        assert history(pw.ActiveLearner.load(tmp_path, read_only=True)) == history(this)  # what is there can be used
        step(this)
        loaded = pw.ActiveLearner.load(tmp_path, read_only=True)
        assert history(loaded) == history(this)
        assert picture(loaded)[2] == picture(this)[2]
        if name in ("fit", "query", "query again", "finish"):
            assert torch.equal(values(loaded.predict(X)), values(this.predict(X)))
    assert history(this) == history(reference)


def test_no_room_for_a_new_learner(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(errors.FileError, match="No space left on device"):
        learner(tmp_path / "new")
    monkeypatch.undo()
    learner(tmp_path / "new").query()
