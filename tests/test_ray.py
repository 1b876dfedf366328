"""Predictions, selections and experiments on a local Ray; workers are killed while they work."""

import contextlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from pools import features, pool
from test_documents import blocks, run_page
from test_experiments import TINY
from torch import nn

import poolwise as pw
from poolwise import cluster
from poolwise.cluster.health import must_answer
from poolwise.cluster.shards import of_references
from poolwise.cluster.watchdog import Watchdog, note
from poolwise.errors import ClusterError, FileError, MissingInputError, NotFiniteError, ParameterError
from poolwise.experiments import execute_all, read_config
from poolwise.learning.query import Query
from poolwise.posteriors.trained import trained
from poolwise.predictions import ShardWriter

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'poolwise[ray]'")

ROOT = Path(__file__).parents[1]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def session():
    """One Ray on this machine, small, for all tests of this file."""
    with cluster.connect("local", cpus=2, memory=100 << 20):
        yield


def write(folder, x, shards, dtype="float32", embeddings=None):
    rows = -(-len(x) // shards)
    width = None if embeddings is None else embeddings.shape[1]
    with ShardWriter(folder, x.shape, dtype=dtype, rows_per_shard=rows, embeddings=width) as writer:
        for number in range(writer.count):
            part = writer.rows(number)
            writer.put(number, x[part], None if embeddings is None else embeddings[part])
    return folder


@pytest.mark.thorough
def test_the_page_on_clusters_and_its_example_run(tmp_path, monkeypatch, run, capsys):
    page = ROOT / "docs" / "howto" / "cluster.md"
    run_page(page.name, blocks(page.read_text()), run)
    capsys.readouterr()
    (tmp_path / "example").mkdir()
    monkeypatch.chdir(tmp_path / "example")
    monkeypatch.setattr(sys, "argv", ["cluster.py"])
    with torch.random.fork_rng():  # the script seeds the global state
        runpy.run_path(str(ROOT / "examples" / "cluster.py"), run_name="__main__")
    assert capsys.readouterr().out.strip()


def same(one, other):
    assert one.indices.tolist() == other.indices.tolist()
    assert one.scores.tolist() == other.scores.tolist()


REQUESTS = [
    ("lbb", {}),
    ("power-lbb", {}),
    ("batchbald", {"configurations": 100}),
    ("gp-variance", {}),
    ("posterior-coverage", {}),
    ("badge", {"embeddings": features(403)}),
    ("epig", {}),
    ("lbb-released", {}),
]


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_the_same_picks(shards, tmp_path):
    """Held in Ray or in a folder that workers read: picks, scores and information of one machine, bit for bit."""
    x = pool(403, 6, 4, seed=2)
    held, opened = cluster.put(x, shards), cluster.open_folder(write(tmp_path, x, shards))
    for method, parameters in REQUESTS:
        expected = pw.select(x, 8, method, seed=3, **parameters)
        for predictions in (held, opened):
            batch = pw.select(predictions, 8, method, seed=3, **parameters)
            same(batch, expected)
            assert batch.diagnostics.information.tolist() == expected.diagnostics.information.tolist()
    assert f"{shards} shard" in repr(held)


def test_what_is_moved_is_counted():
    x = pool(600, 6, 4)
    batch = pw.select(cluster.put(x, 5), 10, "lbb", information=False)
    traffic = batch.diagnostics.traffic
    assert traffic.scores == 600 * 8
    assert traffic.fetched == traffic.rows * x[0].nbytes
    assert 10 <= traffic.rows <= 600
    assert traffic.tasks > 5
    assert f"{traffic.fetched:,} of {traffic.rows:,} rows" in str(batch.diagnostics)
    saved = Query(batch.indices, batch.scores, batch.diagnostics).as_dict()
    assert Query.from_dict(json.loads(json.dumps(saved))).diagnostics.traffic == traffic
    assert pw.select(x, 10, "lbb").diagnostics.traffic is None


def processes():
    """The parent of each process of this machine."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    return parents


def below_process(pid, ancestor, parents):
    while pid > 1:
        pid = parents.get(pid, 0)
        if pid == ancestor:
            return True
    return False


def workers():
    """Process number and title of each worker of the Ray that this process started; without Ray's own agents."""
    titles = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/cmdline", "rb") as file:
                title = file.read().replace(b"\0", b" ").decode()
                if title.startswith("ray::") and "Agent" not in title:
                    titles[int(name)] = title
    parents = processes() if titles.keys() - KNOWN else {}
    KNOWN.update(pid for pid in titles if below_process(pid, os.getpid(), parents))
    return {pid: title for pid, title in titles.items() if pid in KNOWN}


KNOWN = set()  # workers that were found before: a number is not given again so soon


class Killer(threading.Thread):
    """Kills a worker while it is at work on a certain task."""

    def __init__(self, task, ready=lambda: True):
        super().__init__(daemon=True)
        self.title, self.ready, self.killed, self.over = f"ray::{task}", ready, False, False

    def run(self):
        while not self.killed and not self.over:
            for pid, title in workers().items():
                if title.startswith(self.title) and self.ready() and not self.killed:
                    os.kill(pid, signal.SIGKILL)
                    self.killed = True
            time.sleep(0.005)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.over = True
        self.join()


class Slow(nn.Module):
    """A network that takes its time, so that its worker can be killed while it is at work."""

    def __init__(self, seed, seconds=0.0):
        super().__init__()
        torch.manual_seed(seed)
        self.layer, self.seconds = nn.Linear(8, 3), seconds

    def forward(self, inputs):
        time.sleep(self.seconds)
        return self.layer(inputs)


@pytest.fixture(scope="module", autouse=True)
def _by_value(session):
    """Workers cannot import this file, so what it defines is sent along."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def posterior():
    with torch.random.fork_rng():
        return trained([Slow(seed) for seed in range(4)])


@pytest.fixture
def slow_posterior():
    with torch.random.fork_rng():
        return trained([Slow(seed, 0.1) for seed in range(4)])


INPUTS = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)


def test_predictions_in_a_folder_are_those_of_one_machine(posterior, tmp_path):
    """The same files, to the last bit, also if the data is opened by the workers."""
    pw.write_predictions(posterior, INPUTS, tmp_path / "one", rows_per_shard=120, embeddings=True)
    np.save(tmp_path / "inputs.npy", INPUTS)
    path = str(tmp_path / "inputs.npy")
    stages = []
    cluster.predict(
        posterior,
        lambda: np.load(path),
        tmp_path / "many",
        rows_per_shard=120,
        embeddings=True,
        report=lambda *news: stages.append(news),
    )
    files = sorted(file.name for file in (tmp_path / "one").iterdir())
    assert files == sorted(file.name for file in (tmp_path / "many").iterdir())
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "many" / name).read_bytes()
    assert stages[-1] == ("predicting", 5, 5)
    again = cluster.predict(posterior, INPUTS, tmp_path / "many", rows_per_shard=120, embeddings=True)
    same(pw.select(again, 9, "badge"), pw.select(pw.Predictions.open(tmp_path / "one"), 9, "badge"))


def test_predictions_kept_in_ray(posterior):
    expected = posterior.predict(INPUTS, embeddings=True)
    held = cluster.predict(posterior, INPUTS, dtype="float32", rows_per_shard=120, embeddings=True)
    assert held.shape == expected.shape
    assert np.array_equal(held.rows(np.arange(500)).log_probs, expected.rows(np.arange(500)).log_probs)
    assert np.array_equal(held.embeddings, expected.embeddings)
    same(pw.select(held, 9), pw.select(expected, 9))


def test_a_worker_killed_while_predicting(slow_posterior, posterior, tmp_path):
    pw.write_predictions(posterior, INPUTS, tmp_path / "one", rows_per_shard=120)
    with Killer("write_shard") as killer:
        cluster.predict(slow_posterior, INPUTS, tmp_path / "many", rows_per_shard=120)
    assert killer.killed
    manifests = [(tmp_path / folder / "manifest.json").read_text() for folder in ("one", "many")]
    assert manifests[0] == manifests[1]
    assert not list((tmp_path / "many").glob(".*.part"))
    pw.Predictions.open(tmp_path / "many", verify=True)


def test_a_worker_killed_while_scoring(tmp_path):
    x = pool(6000, 10, 8)
    folder, targets = write(tmp_path, x, 5), pool(300, 10, 8, seed=1)
    expected = pw.select(pw.Predictions.open(folder), 20, "epig", targets=targets)
    with Killer("pass_over_shard") as killer:
        batch = pw.select(cluster.open_folder(folder), 20, "epig", targets=targets)
    assert killer.killed
    same(batch, expected)


def test_a_worker_killed_between_picks():
    x = pool(3000, 6, 4)
    held, fetched = cluster.put(x, 5), []

    def kill(stage, done, total):
        if stage == "picking" and done == 5:
            os.kill(next(iter(workers())), signal.SIGKILL)
            fetched.append(held.traffic.rows)

    same(pw.select(held, 40, "lbb", report=kill), pw.select(x, 40, "lbb"))
    assert held.traffic.rows > fetched[0]


def test_held_predictions_that_are_gone():
    """They die with the process that put them into Ray, where that was not this one."""

    class Owner:
        def put(self, x):
            return os.getpid(), [ray.put(x)]

    x = pool(400, 6, 4)
    owner = ray.remote(Owner).remote()
    pid, references = ray.get(owner.put.remote(x))
    held = of_references(references, [x], "log-probs")
    same(pw.select(held, 5), pw.select(x, 5))
    os.kill(pid, signal.SIGKILL)

    def until_ray_has_noticed():
        until = time.monotonic() + 300
        while time.monotonic() < until:
            pw.select(held, 5, "entropy", information=False)
            time.sleep(0.01)

    with pytest.raises(ClusterError, match="are gone"):
        until_ray_has_noticed()


def test_a_shard_that_is_gone(tmp_path):
    predictions = cluster.open_folder(write(tmp_path, pool(400, 6, 4), 4))
    (tmp_path / "part-00002.npy").unlink()
    with pytest.raises(FileError, match=r"part-00002\.npy: cannot be read"):
        pw.select(predictions, 5)


def test_bad_values_are_named_by_their_place_in_the_pool(tmp_path):
    x = pool(400, 6, 4)
    x[317, 2, 1] = np.nan
    for predictions in (cluster.put(x, 3), cluster.open_folder(write(tmp_path, x, 3))):
        with pytest.raises(NotFiniteError, match="row 317, posterior sample 2"):
            pw.select(predictions, 5)


def test_a_part_of_the_pool():
    x = pool(400, 6, 4)
    kept = np.random.default_rng(1).permutation(400)[:150]
    same(pw.select(cluster.put(x, 5), 10, candidates=kept), pw.select(x, 10, candidates=kept))


@pytest.mark.parametrize("layout", ["KNC", "NCK"])
def test_other_layouts_and_kinds(layout):
    x = np.exp(pool(200, 6, 4).transpose(["NKC".index(axis) for axis in layout]))
    expected = pw.Predictions.from_probs(x, layout=layout)
    same(pw.select(cluster.put(x, 3, kind="probs", layout=layout), 10), pw.select(expected, 10))


def test_a_worker_without_the_needed_package(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def kernel(block):\n    return block.probs.sum((1, 2))\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    with pytest.raises(ClusterError, match="cannot import 'only_here'"):
        list(cluster.put(pool(50, 3, 3)).scan(only_here.kernel))


def test_without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingInputError, match=r"pip install 'poolwise\[ray\]'"):
        cluster.connect()


def serve(server, answer):
    """Give every connection an answer and close it."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                connection.sendall(answer)


# What an HTTP/2 server that is not Ray's sends: its settings, and the status 404.
NOT_FOUND = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]) + bytes([0, 0, 1, 1, 5, 0, 0, 0, 1, 0x8D])


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", NOT_FOUND], ids=["none", "http", "http2"])
def test_an_address_where_somebody_else_answers(monkeypatch, answer):
    """Ray itself would try for forty seconds; here it is ten, in this test four, and one where no answer can come."""
    monkeypatch.setattr("poolwise.cluster.health._CHECK", 4.0 if answer else 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        if answer:
            threading.Thread(target=serve, args=(server, answer), daemon=True).start()
        there = f"127.0.0.1:{server.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(ClusterError, match=f"no Ray cluster answers at {there} .*is not Ray"):
            must_answer(there)
        assert time.monotonic() - started < 30


def test_an_address_where_nobody_answers(monkeypatch):
    """Which is seen without a process that asks Ray."""
    monkeypatch.setattr("poolwise.cluster.health._must_be_ray", None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
    for address in (there, f"ray://{there}"):
        with pytest.raises(ClusterError, match=f"no Ray cluster answers at {address} .*refused"):
            must_answer(address)
    with pytest.raises(ClusterError, match="no host can have this name"):
        must_answer(f"{'a' * 300}:6379")


@pytest.mark.parametrize(
    "malformed", ["somewhere", ":6379", "http://here:80", "here:99999", "here:0", "here:\u0662", "a b:6379"]
)
def test_a_malformed_address(malformed):
    with pytest.raises(ParameterError, match="host:port"):
        must_answer(malformed)


def test_an_address_where_ray_answers(monkeypatch):
    monkeypatch.setattr("poolwise.cluster.health._CHECK", 120.0)  # it imports Ray, on a machine that may be busy
    must_answer(address())


DRIVER = """
import time, ray
from poolwise import cluster
with cluster.connect("local", cpus=1, memory=80 << 20):
    ray.get(ray.remote(lambda: 0).remote())  # a worker is there
    task = ray.remote(lambda: time.sleep(600)).remote()
    print("started", flush=True)
    input()
"""


def started_driver(folder):
    """A process with a local Ray of its own, and all processes below it."""
    driver = join(folder, "-c", DRIVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert driver.stdout.readline() == "started\n", driver.stderr.read()
    parents = processes()
    below = [pid for pid in parents if pid != driver.pid and below_process(pid, driver.pid, parents)]
    assert len(below) > 5, "servers, agents, a worker and the watchdog"
    return driver, below


def gone(pids, seconds):
    """Whether processes end within a time; those that only wait for their parent have ended."""
    last = time.monotonic() + seconds
    while left := {pid for pid in pids if state(pid) not in "ZX"}:
        if time.monotonic() > last:
            return f"{left} are left"
        time.sleep(0.1)
    return ""


def state(pid):
    """A letter as in `ps`; X for a process that is not there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def test_a_killed_driver_leaves_no_process_behind(tmp_path):
    driver, below = started_driver(tmp_path)
    with driver:
        driver.kill()
    assert gone(below, 40) == ""
    assert ray.get(ray.remote(lambda: 7).remote()) == 7, "the Ray of this process is still there"


@pytest.mark.thorough
def test_a_driver_that_ends_takes_everything_along(tmp_path):
    driver, below = started_driver(tmp_path)
    with driver:
        driver.communicate("\n")
    assert driver.returncode == 0
    assert gone(below, 40) == ""


def test_only_what_ray_starts_is_marked():
    watchdog = Watchdog()
    try:
        with watchdog.marking(), subprocess.Popen(["sleep", "60"]) as inside:
            assert note(watchdog._mark, {}) == [inside.pid]
            inside.kill()
        with subprocess.Popen(["sleep", "60"]) as outside:
            assert note(watchdog._mark, {}) == []
            outside.kill()
    finally:
        watchdog.stop()


def test_what_to_do_if_ray_cannot_be_joined(monkeypatch):
    """Something of Ray's kind answers, but it does not let this process in."""

    def refuse(*arguments, **options):
        raise ConnectionError("no entry")

    here = address()
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    for where, advice in ((here, "RAY_AUTH_MODE=token"), ("auto", "ray start --head"), ("local", "logs")):
        with pytest.raises(ClusterError, match=f"cannot join Ray at {where}: no entry .*{advice}"):
            cluster.connect(where)


@pytest.mark.parametrize("asked", [{"gpus": 1}, {"cpus": 64}])
def test_more_than_any_machine_has(posterior, asked, tmp_path):
    """Ray would wait for a machine that has it, without end."""
    with pytest.raises(ClusterError, match=r"no machine of the cluster has both.* 2 CPUs and 0 GPUs\. Ask for less"):
        cluster.predict(posterior, INPUTS, tmp_path / "preds", **asked)
    assert not (tmp_path / "preds").exists()


def test_a_run_with_more_threads_than_any_machine_has(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    with pytest.raises(ClusterError, match="asks for 64 CPUs"):
        cluster.execute_all(read_config(tmp_path / "tiny.toml", ["threads=64"]), tmp_path / "runs")


def address():
    return ray.get_runtime_context().gcs_address


def join(folder, *command, **pipes):
    """Another Python process with the same sources."""
    environment = {**os.environ, "PYTHONPATH": str(Path(pw.__file__).parents[1])}
    pipes = {"stderr": subprocess.PIPE, **pipes}
    return subprocess.Popen([sys.executable, *command], cwd=folder, env=environment, text=True, **pipes)


@pytest.mark.thorough
def test_a_command_that_is_killed_leaves_the_cluster_as_it_was(tmp_path):
    """`select` joins a cluster by its address, and is killed while workers read rows for it."""
    x = pool(1200, 5, 3)
    folder = write(tmp_path / "preds", x, 3)
    reading = tuple(f"ray::{task}" for task in ("pass_over_shard", "walk_shard", "read_shard"))
    command = ["-m", "poolwise", "select", "preds", "-b", "1000", "--method", "lbb"]
    with join(tmp_path, *command, "--engine", "ray", "--address", address()) as process:
        while not any(title.startswith(reading) for title in workers().values()):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    same(pw.select(cluster.open_folder(folder), 20, "lbb"), pw.select(x, 20, "lbb"))


def test_commands(run, tmp_path):
    """`predict` and `select` give what they give on one machine, and say what they moved."""
    with torch.random.fork_rng():
        torch.save(nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3)), "net.pt")
    np.save("pool.npy", INPUTS)
    predict = ["predict", "pool.npy", "--model", "net.pt", "--samples", "6", "--rows-per-shard", "200"]
    run(*predict, "-o", "one")
    run(*predict, "-o", "many", "--engine", "ray")
    assert Path("one/manifest.json").read_text() == Path("many/manifest.json").read_text()
    run("select", "one", "-b", "20", "-o", "one.json")
    said = run("select", "many", "-b", "20", "-o", "many.json", "--engine", "ray").err
    assert "bytes of requests" in said
    one, many = (json.loads(Path(name).read_text()) for name in ("one.json", "many.json"))
    assert one["picks"] == many["picks"]
    assert many["diagnostics"]["traffic"]["rows"] > 0
    assert one["diagnostics"]["traffic"] is None
    assert "--engine ray" in run("select", "one", "--address", "10.0.0.1:6379", code=2).err
    assert "--engine ray" in run(*predict, "-o", "none", "--gpus", "1", code=2).err
    np.save("preds.npy", pool(20, 3, 3))
    assert "folder of shards" in run("select", "preds.npy", "--engine", "ray", code=2).err


def test_an_experiment_has_the_records_of_one_machine(tmp_path):
    """Also if it starts without labels, and if a worker is killed while it is at work on a run."""
    (tmp_path / "tiny.toml").write_text(TINY.replace("initial_per_class = 1", 'first = "coreset"'))
    config = read_config(tmp_path / "tiny.toml", ["seeds=1", 'acquisition.methods=["power-lbb"]'])
    execute_all(config, tmp_path / "one")
    shown = []
    begun = (tmp_path / "many").rglob  # killed when the first round of a run is on the disk
    with Killer("execute_run", lambda: any(begun("rounds.jsonl"))) as killer:
        progress = cluster.execute_all(config, tmp_path / "many", show=lambda entries: shown.append(len(entries)))
    assert killer.killed
    assert all(entry.done and entry.rounds for entry in progress)
    assert set(shown) == {1}
    for path in (tmp_path / "one").rglob("rounds.jsonl"):
        other = tmp_path / "many" / path.relative_to(tmp_path / "one")
        mine, theirs = ([json.loads(line) for line in name.read_text().splitlines()] for name in (path, other))
        for record in mine + theirs:
            del record["seconds"]
        assert mine == theirs
        assert mine[0]["origin"] == "first"
    again = cluster.execute_all(config, tmp_path / "many")
    assert all(entry.done and entry.started is None for entry in again)


def test_predictions_in_ray_have_the_manners_of_an_array():
    x = pool(60, 4, 3)
    held, here = cluster.put(x, 3), pw.Predictions.from_log_probs(x)
    np.testing.assert_array_equal(held.log_probs, here.log_probs)
    np.testing.assert_array_equal(held.probs, here.probs)
    for key in (slice(10, 50), [40, 3, 3, -1], np.arange(60) % 2 == 0):
        np.testing.assert_array_equal(np.asarray(held[key]), here[key].numpy())
    assert sum(len(block) for block in held) == 60
    same(pw.select(held[20:], 5), pw.select(here[20:], 5))


# What is labelled already


@pytest.mark.parametrize("shards", [1, 3])
def test_labelled_points_reach_a_method_on_a_cluster(shards, tmp_path):
    x, z = pool(60, 4, 3), features(60)
    known = {"labelled_embeddings": features(7, seed=1), "labels": np.arange(7) % 3}
    known["labelled_predictions"] = pool(7, 4, 3, seed=1)

    def rule(task):
        assert len(task.labelled_predictions) == len(task.labels) == 7
        near = task.labelled_embeddings[task.labels == 1].mean(0)
        return task.scores(lambda block: block.probs.mean(1)[:, 0]) + np.abs(task.embeddings - near).sum(1)

    needs = ("predictions", "embeddings", "labelled_embeddings", "labelled_predictions", "labels")
    method = pw.selection.registry._made(rule, "rule", "A rule.", needs=needs)
    spread = cluster.spread(pw.Predictions.open(write(tmp_path / "p", x, shards, embeddings=z)))
    same(pw.select(spread, 8, method, **known), pw.select(x, 8, method, embeddings=z, **known))
