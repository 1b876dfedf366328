"""From a model and data to a folder of predictions, whatever happens on the way."""

import csv
import json
import os
import signal
import subprocess
from contextlib import contextmanager

import numpy as np
import processes
import pytest
import torch
from cases import thorough
from processes import Program
from sklearn.linear_model import LogisticRegression
from torch import nn

import poolwise as pw
from poolwise import errors
from poolwise.models.saved import read_network
from poolwise.posteriors.trained import trained
from poolwise.predictions import Predictions


def network(seed=0, dropout=0.5):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 4)).eval()


def inputs(n=230, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 6)).astype(np.float32)


def posteriors():
    labelled = (inputs(40, 1), np.arange(40) % 4)
    return {
        "mc-dropout": pw.posteriors.MCDropout(network(), 7, seed=3),
        "networks": trained([network(0), network(1)]),
        "networks × masks": trained([network(0), network(1)], 3, seed=1),
        "committee": pw.posteriors.Committee(LogisticRegression(), 5).fit(labelled),
    }


def log_probs(predictions):
    return predictions.rows(np.arange(len(predictions))).log_probs.numpy()


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.startswith(".")}


@pytest.mark.parametrize("name", posteriors())
@pytest.mark.parametrize("rows", [None, 100, 37])
def test_a_folder_holds_what_predict_gives(tmp_path, name, rows):
    posterior, data = posteriors()[name], inputs()
    written = pw.write_predictions(posterior, data, tmp_path / "x", rows_per_shard=rows, dtype="float32")
    np.testing.assert_allclose(log_probs(written), log_probs(posterior.predict(data)), atol=1e-5)
    half = pw.write_predictions(posterior, data, tmp_path / "half", rows_per_shard=rows)
    assert "float16" in repr(half)
    np.testing.assert_allclose(half.rows(np.arange(230)).probs, written.rows(np.arange(230)).probs, atol=2e-3)
    assert len(list((tmp_path / "x").glob("part-*.npy"))) == {None: 1, 100: 3, 37: 7}[rows]


def test_sample_k_is_the_same_mask_in_every_shard(tmp_path):
    data = np.repeat(inputs(1), 50, 0)
    x = log_probs(pw.write_predictions(pw.posteriors.MCDropout(network(), 9), data, tmp_path / "x", rows_per_shard=7))
    assert (x == x[0]).all()
    assert len(np.unique(x[0], axis=0)) > 4


def test_embeddings_are_written_where_they_are_wanted(tmp_path):
    posterior = pw.posteriors.MCDropout(network(), 5)
    written = pw.write_predictions(posterior, inputs(), tmp_path / "x", rows_per_shard=60, embeddings=True)
    np.testing.assert_allclose(written.embeddings, posterior.embed(inputs()), atol=1e-5)
    assert len(pw.select(written, 5, "badge")) == 5


def test_progress_counts_what_is_left(tmp_path):
    posterior = pw.posteriors.MCDropout(network(), 5)
    told = []
    pw.write_predictions(
        posterior, inputs(), tmp_path / "x", rows_per_shard=100, report=lambda *step: told.append(step)
    )
    assert told[-1] == ("predicting", 230, 230)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    (tmp_path / "x" / "part-00001.npy").unlink()
    told.clear()
    pw.write_predictions(
        posterior, inputs(), tmp_path / "x", rows_per_shard=100, report=lambda *step: told.append(step)
    )
    assert told[-1] == ("predicting", 100, 100)


class Stopping:
    """A posterior that stops at some call of `predict`."""

    def __init__(self, posterior, calls):
        self._posterior, self.calls = posterior, calls

    def predict(self, data, **options):
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt
        return self._posterior.predict(data, **options)


def test_a_prediction_that_stops_goes_on_with_the_same_bytes(tmp_path):
    posterior = pw.posteriors.MCDropout(network(), 5)
    pw.write_predictions(posterior, inputs(), tmp_path / "whole", rows_per_shard=50, embeddings=True)
    for calls in (0, 1, 2, 4):
        with pytest.raises(KeyboardInterrupt):
            pw.write_predictions(
                Stopping(posterior, calls), inputs(), tmp_path / "x", rows_per_shard=50, embeddings=True
            )
        assert len(list((tmp_path / "x").glob("part-*.npy"))) == max(0, {0: 0, 1: 0, 2: 1, 4: 3}[calls])
    counted = Stopping(posterior, 100)
    pw.write_predictions(counted, inputs(), tmp_path / "x", rows_per_shard=50, embeddings=True)
    assert counted.calls == 100 - 4  # the probes, those of what is there, and two shards
    assert contents(tmp_path / "x") == contents(tmp_path / "whole")
    pw.write_predictions(counted, inputs(), tmp_path / "x", embeddings=True)  # all is there: the probes alone
    assert counted.calls == 100 - 6


@pytest.mark.parametrize(
    ("model", "data", "named"),
    [
        (lambda: pw.posteriors.MCDropout(network(1), 5), inputs(), "other predictions"),
        (lambda: pw.posteriors.MCDropout(network(), 5, seed=1), inputs(), "other predictions"),
        (lambda: pw.posteriors.MCDropout(network(), 5), inputs()[::-1].copy(), "other predictions"),
        (lambda: pw.posteriors.MCDropout(network(), 5), inputs(seed=5), "other predictions"),
        (lambda: pw.posteriors.MCDropout(network(), 6), inputs(), "samples = 5, not 6"),
        (lambda: pw.posteriors.MCDropout(network(), 5), inputs()[:-1], "rows = 230, not 229"),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_a_folder_never_holds_predictions_of_two_models_or_data_sets(tmp_path, model, data, named, finished):
    posterior = pw.posteriors.MCDropout(network(), 5)
    pw.write_predictions(posterior, inputs(), tmp_path / "x", rows_per_shard=50)
    if not finished:
        (tmp_path / "x" / "part-00003.npy").unlink()
    before = contents(tmp_path / "x")
    with pytest.raises(errors.FileError, match=named):
        pw.write_predictions(model(), data, tmp_path / "x")
    assert contents(tmp_path / "x") == before


@pytest.mark.parametrize("kept", [45, *thorough(0, 2)])
def test_a_single_small_shard_is_compared_at_all_its_points(tmp_path, kept):
    posterior, data, folder = pw.posteriors.MCDropout(network(), 5), inputs(), tmp_path / "x"
    pw.write_predictions(posterior, data, folder, rows_per_shard=5)
    for number in {*range(46)} - {kept}:
        (folder / f"part-{number:05}.npy").unlink()
    changed = data.copy()
    changed[5 * kept + 3] += 1
    with pytest.raises(errors.FileError, match=f"part-{kept:05}.npy has other predictions"):
        pw.write_predictions(posterior, changed, folder)
    pw.write_predictions(posterior, data, folder)


def test_nothing_to_predict(tmp_path):
    with pytest.raises(errors.EmptyPoolError):
        pw.write_predictions(pw.posteriors.MCDropout(network(), 5), inputs()[:0], tmp_path / "x")
    with pytest.raises(errors.StateError):
        pw.write_predictions(pw.posteriors.DeepEnsemble(network), inputs(), tmp_path / "x")


# The command


def test_a_saved_learner_predicts_and_selects(run, tmp_path):
    make = lambda: nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))  # noqa: E731
    posterior = pw.posteriors.DeepEnsemble(make, members=3, training=pw.Training(steps=5))
    learner = pw.ActiveLearner(posterior, (inputs(40, 1), np.arange(40) % 4), batch_size=8, directory=tmp_path / "mine")
    query = learner.query()
    learner.update(query.indices, query.indices % 4)
    learner.fit()
    np.save(tmp_path / "pool.npy", inputs())
    said = run("predict", "mine", "pool.npy", "-o", "preds", "--rows-per-shard", 100, "--dtype", "float32").err
    assert "3 shards" in said
    np.testing.assert_allclose(log_probs(Predictions.open("preds")), log_probs(learner.predict(inputs())), atol=1e-5)
    chosen = run("select", "preds", "-b", 4, "--verify", "-o", "batch.json").err
    assert "chose 4 of 230" in chosen
    expected = pw.select(Predictions.open("preds"), 4)
    picks = json.loads((tmp_path / "batch.json").read_text())["picks"]
    assert [pick["index"] for pick in picks] == expected.indices.tolist()


def test_names_of_images_and_of_rows_are_kept_with_the_predictions(run, tmp_path):
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "photos").mkdir()
    draw = np.random.default_rng(0)
    for name in ("dog", "cat", "bird", "fish"):
        image.fromarray(draw.integers(0, 256, (2, 3), np.uint8)).save(tmp_path / "photos" / f"{name}.png")
    torch.save(nn.Sequential(nn.Flatten(), network()), tmp_path / "net.pt")
    run("predict", "--model", "net.pt", "--samples", 5, "photos", "-o", "images")
    assert Predictions.open("images").ids.tolist() == ["bird.png", "cat.png", "dog.png", "fish.png"]
    rows = list(csv.DictReader(run("select", "images", "-b", 2).out.splitlines()))
    assert [row["id"] for row in rows] == [sorted(os.listdir("photos"))[int(row["index"])] for row in rows]
    (tmp_path / "done.txt").write_text("cat.png\nfish.png\n")
    left = csv.DictReader(run("select", "images", "-b", 2, "--exclude", "done.txt").out.splitlines())
    assert {row["id"] for row in left} == {"bird.png", "dog.png"}
    (tmp_path / "table.csv").write_text("name,file\nfirst,photos/dog.png\nsecond,photos/cat.png\n")
    run("predict", "--model", "net.pt", "--samples", 5, "table.csv", "--id", "name", "-o", "rows")
    assert Predictions.open("rows").ids.tolist() == ["first", "second"]
    np.save(tmp_path / "pool.npy", inputs(3))
    torch.save(network(), tmp_path / "flat.pt")
    (tmp_path / "names.csv").write_text("a,b\n1,x\n2,y\n3,z\n")
    run("predict", "--model", "flat.pt", "--samples", 5, "pool.npy", "--ids", "names.csv:b", "-o", "array")
    assert Predictions.open("array").ids.tolist() == ["x", "y", "z"]
    run("predict", "--model", "flat.pt", "--samples", 5, "pool.npy", "-o", "plain")
    assert Predictions.open("plain").ids is None
    said = run("predict", "--model", "flat.pt", "table.csv", "--file", "nope", "-o", "wrong", code=2).err
    assert "which --file names" in said


def save_networks(folder):
    torch.save(network(0), folder / "a.pt")
    torch.save(network(1), folder / "b.pt")
    torch.save(network().state_dict(), folder / "weights.pt")
    torch.jit.save(torch.jit.script(network()), folder / "script.pt")
    program = torch.export.export(network(), (torch.zeros(5, 6),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    torch.export.save(program, folder / "any.pt2")
    torch.export.save(torch.export.export(network(), (torch.zeros(5, 6),)), folder / "five.pt2")
    torch.export.save(torch.export.export(network().train(), (torch.zeros(5, 6),)), folder / "training.pt2")
    (folder / "damaged.pt").write_bytes(b"nothing")


@pytest.mark.filterwarnings("ignore")
def test_networks_in_files(run, tmp_path):
    save_networks(tmp_path)
    np.save(tmp_path / "pool.npy", inputs())
    plain = log_probs(pw.ensemble([network(0)], inputs()))
    for name in ("a.pt", "script.pt", "any.pt2"):
        run("predict", "pool.npy", "--model", name, "-o", f"preds-{name}", "--dtype", "float32", "-q")
        np.testing.assert_allclose(log_probs(Predictions.open(f"preds-{name}")), plain, atol=1e-5)
    run("predict", "pool.npy", "--model", "a.pt", "--model", "b.pt", "-o", "two", "--dtype", "float32", "--embeddings")
    both = pw.ensemble([network(0), network(1)], inputs(), embeddings=True)
    np.testing.assert_allclose(log_probs(Predictions.open("two")), log_probs(both), atol=1e-5)
    np.testing.assert_allclose(Predictions.open("two").embeddings, both.embeddings, atol=1e-5)
    run("predict", "pool.npy", "--model", "a.pt", "--samples", 6, "--seed", 2, "-o", "masks", "--dtype", "float32")
    masks = pw.mc_dropout(network(0), inputs(), samples=6, seed=2)
    np.testing.assert_allclose(log_probs(Predictions.open("masks")), log_probs(masks), atol=1e-5)
    for name, said in {
        "weights.pt": "not a network",
        "damaged.pt": "cannot be loaded",
        "missing.pt": "no such file",
        "five.pt2": "dynamic_shapes",
        "training.pt2": "training mode",
    }.items():
        assert said in run("predict", "pool.npy", "--model", name, "-o", "no", code=2).err
    assert not (tmp_path / "no").exists()
    assert isinstance(read_network(tmp_path / "any.pt2").train(), nn.Module)


def test_data_sets_by_name_and_wrong_calls(run, tmp_path):
    torch.manual_seed(0)
    torch.save(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), tmp_path / "net.pt")
    run("predict", "digits", "--model", "net.pt", "--split", "test", "-o", "preds", "-q")
    assert len(Predictions.open("preds")) == len(pw.data.load("digits").test)
    assert "has no saved learner" in run("predict", "nothing", "digits", "-o", "x", code=2).err
    assert "LEARNER and DATA" in run("predict", "digits", "-o", "x", code=2).err
    assert "DATA alone" in run("predict", "a", "digits", "--model", "net.pt", "-o", "x", code=2).err
    assert "--samples is for --model" in run("predict", "a", "digits", "--samples", 3, "-o", "x", code=2).err
    assert "no such file" in run("predict", "nowhere.npy", "--model", "net.pt", "-o", "x", code=2).err


def test_stopping_by_hand_says_that_nothing_is_lost(run, tmp_path, monkeypatch):
    torch.save(network(), tmp_path / "a.pt")
    np.save(tmp_path / "pool.npy", inputs())

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("poolwise.posteriors.write_predictions", stop)
    assert "the same command resumes" in run("predict", "pool.npy", "--model", "a.pt", "-o", "x", code=130).err


PREDICT = ["predict", "pool.npy", "--model", "a.pt", "--samples", "20", "--rows-per-shard", "500", "-o", "preds"]


def start(folder):
    return Program(["-m", "poolwise", *PREDICT], cwd=folder, stderr=subprocess.PIPE, text=True)


WAITING = """
import sys
from poolwise.cli import main
from poolwise.predictions import ShardWriter
put = ShardWriter.put
def waiting(self, number, *rest):
    if number == {number}:
        print("waiting", flush=True)
        sys.stdin.read()
    put(self, number, *rest)
ShardWriter.put = waiting
sys.argv[1:] = {arguments}
main()
"""


@contextmanager
def waiting(folder, number):
    """A prediction that waits before it writes a shard, until its standard input is closed."""
    program = WAITING.format(number=number, arguments=PREDICT)
    with Program(["-c", program], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "waiting\n"
        yield process


def test_kill_9_and_again_gives_the_same_bytes(tmp_path):
    save = tmp_path / "whole"
    torch.save(network(), tmp_path / "a.pt")
    np.save(tmp_path / "pool.npy", inputs(20_000))
    pw.write_predictions(
        pw.posteriors.MCDropout(network(), 20), inputs(20_000), save, rows_per_shard=500, embeddings=False
    )
    folder = tmp_path / "preds"
    for shards in (1, 12):
        with waiting(tmp_path, shards) as process:
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        with pytest.raises(errors.FileError, match=f"{shards} of 40 shards"):
            Predictions.open(folder)
    with start(tmp_path) as process:
        assert process.wait() == 0
    assert contents(folder) == contents(save)


def test_two_predictions_into_one_folder(tmp_path):
    torch.save(network(), tmp_path / "a.pt")
    np.save(tmp_path / "pool.npy", inputs(20_000))
    with waiting(tmp_path, 3) as one:
        with start(tmp_path) as other:
            assert other.wait() == 2
            assert "being written by another process" in other.stderr.read()
        one.communicate("")
        assert one.returncode == 0
    assert len(Predictions.open(tmp_path / "preds", verify=True)) == 20_000


LIMITED = """
import resource, sys
import numpy as np
import torch
import poolwise as pw
from poolwise.predictions import ShardWriter
put = ShardWriter.put
def limited(self, number, *rest):
    if number == 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    put(self, number, *rest)
ShardWriter.put = limited
sys.argv[1:] = ["predict", "pool.npy", "--model", "a.pt", "--samples", "20", "--rows-per-shard", "500", "-o", "preds"]
from poolwise.cli import main
main()
"""


def test_a_disk_that_fills_during_prediction_ends_with_one_message_and_goes_on_later(tmp_path):
    torch.save(network(), tmp_path / "a.pt")
    np.save(tmp_path / "pool.npy", inputs(2_000))
    done = processes.run(["-c", LIMITED], cwd=tmp_path)
    assert done.returncode == 2
    assert "2 of 4 shards are complete" in done.stderr
    assert "Traceback" not in done.stderr
    with start(tmp_path) as process:
        assert process.wait() == 0
    expected = pw.mc_dropout(network(), inputs(2_000), samples=20)
    found = Predictions.open(tmp_path / "preds", verify=True)
    rows = np.arange(2_000)
    np.testing.assert_allclose(found.rows(rows).probs, expected.rows(rows).probs, atol=2e-3)
