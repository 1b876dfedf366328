"""docs/security.md: every threat that it names has a test, and the tests that were missing."""

import ast
import csv
import io
import os
import pickle
import re
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from labelling_server import Page, application, client_of, open_desk, write_texts

import poolwise as pw
from poolwise.errors import PoolwiseError
from poolwise.labelling.review import load_review
from poolwise.labelling.saved import load_saved
from poolwise.labelling.server.desk import Desk

ROOT = Path(__file__).parents[1]


def threats():
    """The rows of the tables of threats: what is threatened, and the tests, with the file that they are in."""
    home = None
    for line in (ROOT / "docs" / "security.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            home = None
        elif cells[0] == "threat":
            home = re.search(r"`tests/(\w+\.py)`", cells[2])[1]
        elif home and set(cells[0]) - {"-", " "}:
            yield pytest.param(cells[2], home, id=cells[0][:60])


@pytest.mark.parametrize(("named", "home"), list(threats()))
def test_every_threat_has_a_test(named, home):
    found = re.findall(r"`(?:tests/(\w+\.py)::)?(\w+)`", named)
    assert found, f"names no test: {named}"
    for file, name in found:
        assert f"def {name}(" in (ROOT / "tests" / (file or home)).read_text(), f"{file or home} has no {name}"


def test_there_are_threats_of_all_kinds():
    assert len(list(threats())) > 30


class Runs:
    """Whoever unpickles this makes a file."""

    def __reduce__(self):
        return os.mkdir, ("it-ran",)


def test_no_pickle_in_a_project_is_ever_run(tmp_path, monkeypatch, one_thread):
    """Every file of a project but the store is replaced by one that runs code when it is unpickled."""
    monkeypatch.chdir(tmp_path)
    words = {"cat": "purr whiskers milk", "dog": "bark bone walk"}
    true = {str(n): list(words)[n % 2] for n in range(24)}
    write_texts(tmp_path, [words[label] + f" {n}" for n, label in true.items()])
    with pw.Project.open("texts.csv", classes=list(words), encoder="tfidf") as project:
        for _ in range(2):
            project.add({name: true[name] for name in project.next(8).ids})
    bad = np.array([Runs()], object)
    names = ("analyser", "words", "probs", "ids", "classes", "said", "disagreement")
    forms = {
        "pickle": lambda file: pickle.dump(Runs(), file),
        "array": lambda file: np.save(file, bad, allow_pickle=True),
        "archive": lambda file: np.savez(file, **dict.fromkeys(names, bad)),
    }
    for form, write in forms.items():
        folder = tmp_path / form
        shutil.copytree("texts.csv.poolwise", folder / "texts.csv.poolwise")
        shutil.copy("texts.csv", folder)
        replace_files(folder / "texts.csv.poolwise", write)
        use_project(folder / "texts.csv")
        assert not Path("it-ran").exists(), form
    pickle.loads(pickle.dumps(Runs()))  # what such a file does, if somebody does load it
    assert Path("it-ran").exists()


def replace_files(folder, write):
    kept = {"project.json", "labels.db", "labels.db-wal", "labels.db-shm", "labels.db.lock"}
    replaced = [path for path in folder.rglob("*") if path.is_file() and path.name not in kept]
    assert len(replaced) > 4
    for path in (*replaced, folder / "cache" / "review.json", folder / "cache" / "saved.json"):
        with path.open("wb") as file:
            write(file)


def use_project(data):
    """Do with a project all that reads its files, whatever comes of it."""
    with pw.Project.open(data) as project:
        steps = [
            project.status,
            project.predicted,
            lambda: load_review(project.folder),
            lambda: load_saved(project.folder),
            lambda: Desk(project),
            lambda: project.next(4),
            lambda: project.apply(data.with_name("predictions.csv")),
            lambda: project.export(data.with_name("labels.csv")),
        ]
        for step in steps:
            with suppress(PoolwiseError):
                step()


def test_downloads_have_no_formulas(tmp_path):
    bad = '=HYPERLINK("http://evil.example")'
    desk = open_desk(write_texts(tmp_path, [bad, "@SUM(A1)", "plain"]), classes=("+cat", "dog"))
    app, _ = application(desk)
    with client_of(app) as client:
        page = Page(client)
        page.say("0", "+cat")
        page.say("1", "+cat")
        rows = list(csv.reader(io.StringIO(client.get("/labels.csv").text)))
    desk.project.close()
    assert rows[1][1:3] == [f"'{bad}", "'+cat"]
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@"))]


def test_only_the_connection_to_label_studio_connects():
    """No address in a task or an answer can be opened where nothing that opens addresses is imported."""
    folder = ROOT / "poolwise" / "labelling" / "label_studio"
    opens = {"httpx", "requests", "urllib3", "aiohttp", "socket", "urllib.request", "http.client", "label_studio_sdk"}
    found = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{name.name}" for name in node.names)]
            if any(name == known or name.startswith(f"{known}.") for name in names for known in opens):
                found.add(path.name)
    assert found == {"connection.py"}


def test_images_for_label_studio_are_encoded_again(tmp_path):
    import base64

    from PIL import Image

    from poolwise.labelling.items import open_items
    from poolwise.labelling.label_studio.forms import make_form
    from poolwise.labelling.label_studio.tasks import task

    (tmp_path / "photos").mkdir()
    path = tmp_path / "photos" / "a.png"
    Image.new("RGB", (20, 10), "red").save(path)
    path.write_bytes(path.read_bytes() + b"my secret place")
    items = open_items(tmp_path / "photos")
    sent = task("a.png", items, "uid", make_form("image", ["cat", "dog"]))["data"]["image"]
    assert b"secret" not in base64.b64decode(sent.partition("base64,")[2])
