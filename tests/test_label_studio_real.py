"""The loop with a real Label Studio. Long: it takes minutes to start for the first time.

    pip install -c constraints.txt label-studio-sdk      # here
    python -m venv studio && studio/bin/pip install label-studio      # 1 GB, best in an environment of its own
    POOLWISE_LONG=1 POOLWISE_LABEL_STUDIO=studio/bin/label-studio python -m pytest tests/test_label_studio_real.py

With a server that runs already: LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY instead of POOLWISE_LABEL_STUDIO.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

import poolwise as pw
from poolwise.labelling.label_studio.answers import DELETED
from poolwise.labelling.label_studio.connection import Connection
from poolwise.labelling.label_studio.syncing import Sync, make_project

PROGRAM = os.environ.get("POOLWISE_LABEL_STUDIO") or shutil.which("label-studio")
RUNNING = os.environ.get("LABEL_STUDIO_URL"), os.environ.get("LABEL_STUDIO_API_KEY")
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
    settings = {"LABEL_STUDIO_BASE_DATA_DIR": str(folder), "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true"}
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


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_loop_with_a_real_label_studio(server, tmp_path, monkeypatch, one_thread):
    import httpx

    monkeypatch.chdir(tmp_path)
    url, token = server
    words = {"billing": "invoice refund money", "technical": "crash error screen"}
    true = {f"t{number}": list(words)[number % 2] for number in range(40)}
    Path("tickets.csv").write_text("id,text\n" + "".join(f"{n},{words[c]} {n}\n" for n, c in true.items()))
    with (
        httpx.Client(base_url=url, headers={"Authorization": f"Token {token}"}, timeout=300) as api,
        Connection(url, token) as connection,
        pw.Project.open("tickets.csv", classes=list(words), encoder="tfidf") as project,
    ):

        def done(method, path, **more):
            answer = api.request(method, path, **more)
            answer.raise_for_status()
            return answer.json() if answer.content else None

        def tasks():
            return {t["meta"]["item"]: t for t in done("GET", f"/api/tasks/?project={there.id}&fields=all")["tasks"]}

        def result(label):
            value = {"choices": [label]}
            return [{"from_name": "label", "to_name": "text", "type": "choices", "value": value}]

        def annotate(task, label, **more):
            body = {"result": result(label) if label else [], **more}
            return done("POST", f"/api/tasks/{task['id']}/annotations/", json=body)

        there = make_project(project, connection, f"Test {os.getpid()}")
        try:
            assert connection.find(there.title) == there
            sync = Sync(project, connection, there, count=8, low=1)
            batch = sync.step().batch.ids
            assert done("GET", f"/api/projects/{there.id}/next")["data"]["item"] == batch[0]
            assert sync.step().sent == 0
            found = tasks()
            assert set(found) == set(batch)
            assert sorted(found, key=lambda item: found[item]["predictions"][0]["score"]) == batch

            annotate(found[batch[0]], None, was_cancelled=True)
            done("DELETE", f"/api/tasks/{found[batch[1]]['id']}/")
            made = {item: annotate(found[item], true[item]) for item in batch[2:]}
            step = sync.step()
            assert (step.taken.labels, step.taken.skipped, step.taken.deleted, step.sent) == (6, 1, 1, 8)
            assert not {batch[0], batch[1]} & set(step.batch.ids)
            assert {answer.person for answer in project.store.current()[batch[1]].answers} == {DELETED}
            assert all("@" in project.store.current()[item].person for item in batch[2:])

            first, second = batch[2:4]
            other = next(name for name in words if name != true[first])
            done("PATCH", f"/api/annotations/{made[first]['id']}/", json={"result": result(other)})
            done("DELETE", f"/api/annotations/{made[second]['id']}/")
            step = sync.step()
            assert (step.taken.changed, step.taken.cleared) == (1, 1)
            assert project.store.current()[first].label == other
            assert second not in project.store.current()

            (tmp_path / "export.json").write_bytes(api.get(f"/api/projects/{there.id}/export?exportType=JSON").content)
            added = project.add("export.json")
            assert (added.new, added.changed, added.same) == (0, 0, 6)
            events = project.store.last_event()
            assert not sync.step().taken
            assert project.store.last_event() == events
        finally:
            done("DELETE", f"/api/projects/{there.id}/")
