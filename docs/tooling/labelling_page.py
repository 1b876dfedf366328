"""The picture of the labelling page in the README: a real project on Fashion-MNIST, labelled by its true labels.

    POOLWISE_DATA=... .venv/bin/python -m docs.tooling.labelling_page

Needs Fashion-MNIST, Playwright and Chromium. Writes docs/images/labelling.png.
"""

import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from docs.tooling.screenshots import IMAGES, shrink
from poolwise.data import load
from poolwise.data.examples import TensorExamples
from poolwise.labelling.project import Project
from poolwise.labelling.server.access import Access, Rules
from poolwise.labelling.server.app import make_app
from poolwise.labelling.server.desk import Desk

CLASSES = ("t-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
COUNT, ROUNDS, BATCH = 1_000, 4, 50


def make_project(folder: Path) -> tuple[Project, dict[str, str]]:
    """A project in which some batches are labelled, and what is true."""
    train = load("fashion-mnist").train
    assert isinstance(train, TensorExamples)
    images, labels = train.images(np.arange(COUNT)), np.asarray(train.labels)
    assert images is not None
    data = folder / "clothes"
    data.mkdir()
    truth = {}
    for number, pixels in enumerate(images):
        name = f"item-{number:04d}.png"
        Image.fromarray(255 - pixels.squeeze()).save(data / name)
        truth[name] = CLASSES[int(labels[number])]
    project = Project.open(data, classes=CLASSES, batch_size=BATCH)
    for _ in range(ROUNDS):
        project.add({name: truth[name] for name in project.next().ids}, person="anna")
    project.prepare()
    return project, truth


def serve(project: Project) -> str:
    """Serve a project, without training, and give its address."""
    desk = Desk(project)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    app = make_app(desk, Access(Rules("anna"), b"k" * 32, project.store))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return f"http://localhost:{port}"


def label(page: Page, truth: dict[str, str], times: int) -> None:
    """Label some items by their keys, and wait for what the model would have said."""
    for _ in range(times):
        name = page.locator("#stage .id").inner_text()
        button = page.locator(f'.class[data-label="{truth[name]}"]')
        page.keyboard.press(button.get_attribute("aria-keyshortcuts") or "")
        page.wait_for_function("before => document.querySelector('#stage .id').innerText !== before", arg=name)
    page.wait_for_function("() => document.getElementById('last').textContent.includes('would have said')")
    page.wait_for_function("() => document.getElementById('saved').dataset.state === 'saved'")
    page.wait_for_timeout(600)  # until the button that was pressed has its colour again


def main() -> None:
    """Make the picture."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium was found: install it, for instance with apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        project, truth = make_project(Path(folder))
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1280, "height": 800}, device_scale_factor=1.5)
        page.set_default_timeout(300_000)
        page.goto(serve(project))
        page.wait_for_selector("#stage img")
        label(page, truth, 12)
        shot = Path(folder) / "shot.png"
        page.screenshot(path=shot)
        chromium.close()
        shrink(shot, IMAGES / "labelling.png", width=1_280)


if __name__ == "__main__":
    main()
