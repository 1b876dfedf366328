"""What the tests of the page share: projects, clients, and servers in processes of their own."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from starlette.testclient import TestClient

from poolwise.labelling.project import Project
from poolwise.labelling.server.access import Access, Rules
from poolwise.labelling.server.app import make_app
from poolwise.labelling.server.desk import Desk
from poolwise.labelling.store import Pick, Proposal

ROOT = Path(__file__).parents[1]
TEXTS = [f"text number {n} about {'cats' if n % 2 else 'dogs'}" for n in range(40)]


def write_texts(folder, texts=TEXTS, name="texts.csv"):
    """A table of texts with ids."""
    rows = "".join(f'{n},"{text}"\n' for n, text in enumerate(text.replace('"', '""') for text in texts))
    (folder / name).write_text("id,text\n" + rows)
    return folder / name


def write_digits(folder, count):
    """Images of digits; the name of each ends in its class."""
    data = load_digits()
    folder.mkdir(parents=True)
    for n in range(count):
        pixels = (data.images[n] * 15.9).astype(np.uint8)
        Image.fromarray(pixels).resize((32, 32)).save(folder / f"{n:04d}-{data.target[n]}.png")
    return folder


class Page:
    """A browser without a screen: it opens the page, and sends what its script would send."""

    def __init__(self, client):
        self.client = client
        self.page = client.get("/")
        found = re.search(r'name="poolwise-token" content="(\w+)"', self.page.text)
        self.token = found[1] if found else ""

    def post(self, path, body, **headers):
        headers = {"x-poolwise-token": self.token, "origin": str(self.client.base_url).rstrip("/"), **headers}
        return self.client.post(path, json=body, headers=headers)

    def work(self, want=5):
        answer = self.post("/api/work", {"want": want})
        assert answer.status_code == 200, answer.text
        return answer.json()["items"]

    def say(self, item, label=None, kind="label", request=None):
        answer = {"request": request or os.urandom(8).hex(), "item": item, "kind": kind, "label": label}
        return self.post("/api/answers", {"answers": [answer]})


def open_desk(data, *, batch=10, classes=("cat", "dog"), **settings):
    """A desk on a new project whose first batch is the first items of the data."""
    project = Project.open(data, classes=list(classes), encoder="tfidf", batch_size=batch, **settings)
    picks = [Pick(name, None, "because", n % 5 == 4) for n, name in enumerate(project.items.ids[:batch])]
    project.store.add_batch(Proposal(picks, "random", after_event=project.store.last_event()))
    return Desk(project)


def open_images(folder, **settings):
    """A desk on a folder of images."""
    project = Project.open(folder, classes=["cat", "dog"], **settings)
    project.store.add_batch(Proposal([Pick(name, None, "because") for name in project.items.ids], "random"))
    return Desk(project)


def application(desk, rules=None):
    """The application, with its access control."""
    access = Access(rules or Rules("olga"), b"k" * 32, desk.store)
    return make_app(desk, access), access


def client_of(app, base="http://localhost:8700", **options):
    """A client that calls an application."""
    return TestClient(app, base_url=base, follow_redirects=False, **options)


@contextmanager
def command(*arguments, home, wait=300.0):
    """`poolwise label` in a separate process; gives the process and its address."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "XDG_STATE_HOME": str(home),
        "PYTHONUNBUFFERED": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "poolwise", "label", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        address, said = _address(process, wait)
        yield process, address, said
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def _address(process, wait):
    said = []
    until = time.monotonic() + wait
    while time.monotonic() < until:
        line = process.stdout.readline()
        said.append(line)
        found = re.search(r"(http://[^/\s]+)/", line)
        if found:
            return found[1], "".join(said)
        if not line and process.poll() is not None:
            break
    raise AssertionError(f"the server did not start: {''.join(said)}")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def connect(address, **options):
    """A client of a real server."""
    return httpx.Client(base_url=address, timeout=300, **options)


def events_of(folder):
    """What is in the log of a project."""
    with Project.open(folder, create=False, any_model=True) as project:
        return project.store.events()


def begin_of(page):
    """What the server gives the script to begin with."""
    text = re.search(r'data-begin="([^"]*)"', page.text)[1]
    import html

    return json.loads(html.unescape(text))
