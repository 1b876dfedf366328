"""The loop with a real Label Studio. Long: it takes minutes to start for the first time.

    pip install -c constraints.txt label-studio-sdk      # here
    python -m venv studio && studio/bin/pip install label-studio      # 1 GB, best in an environment of its own
    POOLWISE_LONG=1 POOLWISE_LABEL_STUDIO=studio/bin/label-studio python -m pytest tests/test_label_studio_real.py

With a server that runs already: LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY instead of POOLWISE_LABEL_STUDIO.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import poolwise as pw
from poolwise.labelling.label_studio.answers import DELETED
from poolwise.labelling.label_studio.connection import Connection
from poolwise.labelling.label_studio.syncing import Sync, make_project

PROGRAM = os.environ.get("POOLWISE_LABEL_STUDIO") or shutil.which("label-studio")
RUNNING = os.environ.get("LABEL_STUDIO_URL"), os.environ.get("LABEL_STUDIO_API_KEY")
ROOT = Path(__file__).parents[1]
WORDS = {"billing": "invoice refund money", "technical": "crash error screen"}
TOKEN = "0123456789abcdef0123456789abcdef01234567"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(os.environ.get("POOLWISE_LONG") != "1", reason="takes minutes: POOLWISE_LONG=1"),
    pytest.mark.skipif(
        importlib.util.find_spec("label_studio_sdk") is None, reason="pip install -c constraints.txt label-studio-sdk"
    ),
    pytest.mark.skipif(
        not all(RUNNING) and PROGRAM is None,
        reason="no Label Studio: pip install label-studio, in an environment of its own, and POOLWISE_LABEL_STUDIO",
    ),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address and a token of a Label Studio on the loopback address."""
    if all(RUNNING):
        yield RUNNING
        return
    folder = tmp_path_factory.mktemp("studio")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    switched_off = {"COLLECT_ANALYTICS": "false", "LATEST_VERSION_CHECK": "false", "SENTRY_DSN": ""}
    settings = {
        "LABEL_STUDIO_BASE_DATA_DIR": str(folder),
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "SSRF_PROTECTION_ENABLED": "false",  # so that it may call a webhook on its own machine
    }
    command = [
        PROGRAM, "start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port), "--data-dir",
        str(folder), "--username", "anna@example.org", "--password", "not-a-secret", "--user-token", TOKEN,
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment | switched_off | settings, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 1_200
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert process.poll() is None, (folder / "log").read_text()[-2_000:]
            assert time.monotonic() < end, "Label Studio did not start in 20 minutes"
            time.sleep(1)
        yield f"http://127.0.0.1:{port}", TOKEN
    finally:
        process.kill()
        process.wait()


class Api:
    """What people do in Label Studio, through its own interface for programs."""

    def __init__(self, url, token):
        import httpx

        self.client = httpx.Client(base_url=url, headers={"Authorization": f"Token {token}"}, timeout=300)

    def __call__(self, method, path, **more):
        answer = self.client.request(method, path, **more)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def tasks(self, project):
        found = self("GET", f"/api/tasks/?project={project}&fields=all&page_size=500")["tasks"]
        return {task["meta"]["item"]: task for task in found}

    def annotate(self, task, label, **more):
        body = {"result": result(label) if label else [], **more}
        return self("POST", f"/api/tasks/{task['id']}/annotations/", json=body)

    def webhooks(self, project):
        return [hook for hook in self("GET", f"/api/webhooks/?project={project}") if hook["project"] == project]


def result(label):
    return [{"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": [label]}}]


@pytest.fixture
def api(server):
    found = Api(*server)
    yield found
    found.client.close()


@pytest.fixture
def true(tmp_path, monkeypatch, one_thread):
    """A table of texts in the working folder, and the class of each."""
    monkeypatch.chdir(tmp_path)
    true = {f"t{number}": list(WORDS)[number % 2] for number in range(40)}
    Path("tickets.csv").write_text("id,text\n" + "".join(f"{n},{WORDS[c]} {n}\n" for n, c in true.items()))
    return true


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_loop_with_a_real_label_studio(server, api, true, tmp_path):
    with (
        Connection(*server) as connection,
        pw.Project.open("tickets.csv", classes=list(WORDS), encoder="tfidf") as project,
    ):
        there = make_project(project, connection, f"Test {os.getpid()}")
        try:
            assert connection.find(there.title) == there
            sync = Sync(project, connection, there, count=8, low=1)
            batch = sync.step().batch.ids
            assert api("GET", f"/api/projects/{there.id}/next")["data"]["item"] == batch[0]
            assert sync.step().sent == 0
            found = api.tasks(there.id)
            assert set(found) == set(batch)
            assert sorted(found, key=lambda item: found[item]["predictions"][0]["score"]) == batch

            api.annotate(found[batch[0]], None, was_cancelled=True)
            api("DELETE", f"/api/tasks/{found[batch[1]]['id']}/")
            made = {item: api.annotate(found[item], true[item]) for item in batch[2:]}
            step = sync.step()
            assert (step.taken.labels, step.taken.skipped, step.taken.deleted, step.sent) == (6, 1, 1, 8)
            assert not {batch[0], batch[1]} & set(step.batch.ids)
            assert {answer.person for answer in project.store.current()[batch[1]].answers} == {DELETED}
            assert all("@" in project.store.current()[item].person for item in batch[2:])

            first, second = batch[2:4]
            other = next(name for name in WORDS if name != true[first])
            api("PATCH", f"/api/annotations/{made[first]['id']}/", json={"result": result(other)})
            api("DELETE", f"/api/annotations/{made[second]['id']}/")
            step = sync.step()
            assert (step.taken.changed, step.taken.cleared) == (1, 1)
            assert project.store.current()[first].label == other
            assert second not in project.store.current()

            (tmp_path / "export.json").write_bytes(
                api.client.get(f"/api/projects/{there.id}/export?exportType=JSON").content
            )
            added = project.add("export.json")
            assert (added.new, added.changed, added.same) == (0, 0, 6)
            events = project.store.last_event()
            assert not sync.step().taken
            assert project.store.last_event() == events
        finally:
            api("DELETE", f"/api/projects/{there.id}/")


@contextmanager
def watching(server, *arguments):
    """`poolwise sync label-studio --watch` in a process of its own; gives the process and a wait for what it says."""
    url, token = server
    command = [sys.executable, "-m", "poolwise", "sync", "label-studio", "tickets.csv", "--url", url, "--watch"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LABEL_STUDIO_API_KEY": token}
    process = subprocess.Popen(
        [*command, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in the background
    )
    said, more = [], threading.Condition()

    def listen():
        for line in process.stderr:
            with more:
                said.append(line)
                more.notify()

    def says(words):
        with more:
            assert more.wait_for(lambda: words in "".join(said), 300), (words, said)

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        yield process, says
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        listener.join()
        process.stderr.close()


@pytest.mark.skipif(all(RUNNING), reason="the server that runs may not call this machine; unset LABEL_STUDIO_URL")
def test_a_webhook_brings_annotations_at_once(server, api, true):
    """The next look would be in an hour: whatever arrives, arrives because Label Studio has called."""
    title = f"Webhook {os.getpid()}"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--webhook", f"127.0.0.1:{port}", "--interval", "3600", "-n", "8", "--low", "1", "--encoder", "tfidf"]
    with watching(server, "--create", title, "--classes", ",".join(WORDS), *options) as (killed, says):
        says("sent batch 1: 8 tasks")
        [project] = [one["id"] for one in api("GET", "/api/projects/")["results"] if one["title"] == title]
        first = api.tasks(project)
        assert [hook["url"] for hook in api.webhooks(project)] == [f"http://127.0.0.1:{port}/"]
        item = next(iter(first))
        api.annotate(first[item], true[item])
        says("taken from Label Studio: 1 new label.")
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    with watching(server, "--project", title, *options) as (process, says):
        says("7 tasks are open")
        assert len(api.webhooks(project)) == 1  # that of the process that was killed is gone
        for item in list(first)[1:]:
            api.annotate(first[item], true[item])
        says("sent batch 2: 8 tasks, chosen by local-herding. The model gets ")
        tasks = api.tasks(project)
        assert len(tasks) == 16
        second = next(item for item in tasks if item not in first)
        api.annotate(tasks[second], None, was_cancelled=True)
        says("1 skipped")
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 130
    assert api.webhooks(project) == []
    with watching(server, "--project", title, *options) as (process, says):
        says("7 tasks are open")
        assert len(api.webhooks(project)) == 1
        process.send_signal(signal.SIGTERM)  # as a service is stopped
        assert process.wait(300) == 143
    assert api.webhooks(project) == []
    with pw.Project.open("tickets.csv") as here:
        assert {name: known.label for name, known in here.store.current().items() if known.label} == {
            item: true[item] for item in first
        }
    api("DELETE", f"/api/projects/{project}/")
