"""The picture of the labelling page: clothes of Fashion-MNIST, labelled by keyboard in a real browser.

    python -m docs.tooling.labelling_picture
    python -m docs.tooling.labelling_picture --labels 60 --also pictures

Run it from the root of the repository. Needs Chromium, Playwright and Fashion-MNIST (`POOLWISE_DATA`). It takes a few
minutes, since models train meanwhile. Writes docs/images/labelling.png, and with `--also` a picture of every page:
light, dark, and as on a phone.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from poolwise.data.catalogue import load

OUT = Path(__file__).parents[1] / "images" / "labelling.png"
CLASSES = ["t-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"]
KEYS = "123456789a"
SIZE = {"width": 1280, "height": 800}

# Images in the folder, and their side in pixels: enlarged here, smoothly, since a photograph has more than 28 pixels.
IMAGES, SIDE = 600, 224

# Labels after which the script waits for the model; as many as there are in a batch.
BATCH = 50

# Milliseconds that the browser waits for anything; the model may take a minute.
PATIENCE = 600_000


def write_images(folder: Path) -> dict[str, int]:
    """Write dark clothes on white; returns the class of each file."""
    data = load("fashion-mnist").train
    folder.mkdir()
    truth = {}
    for n in range(IMAGES):
        pixels = 255 - data.inputs[n][0].numpy()
        name = f"item-{n:04d}.png"
        Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(folder / name)
        truth[name] = int(data.labels[n])
    return truth


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """`poolwise label` on a folder; gives the address of the page."""
    arguments = [sys.executable, "-m", "poolwise", "label", folder, "--classes", ",".join(CLASSES), "--me", "anna"]
    arguments += ["--seed", "1"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([*map(str, arguments)], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                found = re.search(r"(http://[^/\s]+)/", line)
                if found:
                    yield found[1]
                    return
            sys.exit("the server did not start")
        finally:
            process.terminate()


def shown(page: Page) -> str:
    """The name of the image that is shown."""
    return page.locator("#stage .id").inner_text()


def label(page: Page, truth: dict[str, int]) -> None:
    """Press the right key, and wait for the next image."""
    before = shown(page)
    page.keyboard.press(KEYS[truth[before]])
    page.wait_for_function(
        "before => (document.querySelector('#stage .id') || { innerText: before }).innerText !== before", arg=before
    )


def has_model(page: Page) -> None:
    """Wait until a model is there that was trained after the last answers."""
    page.wait_for_function("() => /^\\d/.test(document.getElementById('accuracy').textContent.trim())")
    page.wait_for_function("() => document.getElementById('worker').textContent.trim() === ''")


def shoot(page: Page, out: Path) -> None:
    """A picture of a page, once its images are there."""
    page.wait_for_load_state("networkidle")
    page.wait_for_function(
        "() => [...document.images].every(i => i.complete || i.getBoundingClientRect().top > innerHeight)"
    )
    page.screenshot(path=out, animations="disabled")  # the colour of the last key has faded
    Image.open(out).convert("RGB").quantize(255, dither=Image.Dither.NONE).save(out, optimize=True)
    print(f"{out}: {out.stat().st_size // 1024} kB")


def visit(browser: Browser, address: str, **options: Any) -> Page:
    """Open the page, in the light unless told otherwise."""
    context = browser.new_context(**{"viewport": SIZE, "color_scheme": "light", **options})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(address)
    return page


def shoot_all(page: Page, address: str, browser: Browser, folder: Path) -> None:
    """A picture of every page: light, dark, and as on a phone."""
    folder.mkdir(exist_ok=True, parents=True)
    state: Any = page.context.storage_state()  # the same person
    phone = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
    looks: dict[str, dict[str, Any]] = {"light": {}, "dark": {"color_scheme": "dark"}, "phone": phone}
    for look, options in looks.items():
        other = visit(browser, address, storage_state=state, **options)
        for name in ("", "progress", "review", "team"):
            other.goto(f"{address}/{name}")
            if not name:
                other.wait_for_selector("#stage img")
            shoot(other, folder / f"{name or 'label'}-{look}.png")
        other.context.close()


def main(labels: int, also: Path | None) -> None:
    """Label, wait for the model, label a few more, and take the picture.

    Args:
        labels: how many to give before it.
        also: a folder for pictures of all pages.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium was found: install it, for instance with apt-get install chromium")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place) / "clothes"
        truth = write_images(folder)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with server(folder) as address:
            page = visit(browser, address)
            page.wait_for_selector("#stage img")
            for n in range(labels):
                label(page, truth)
                if n % BATCH == BATCH - 1:  # people are slower, and meet a new model in each batch
                    has_model(page)
            while re.search("random|being chosen|before there was", page.locator("#why-text").inner_text()):
                label(page, truth)  # up to one that the newest batch has, chosen by a model
            page.wait_for_function("() => document.getElementById('last').textContent.includes('would have said')")
            page.wait_for_function("() => document.getElementById('saved').dataset.state === 'saved'")
            shoot(page, OUT)
            if also is not None:
                shoot_all(page, address, browser, also)
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=main.__doc__.split("\n")[0] if main.__doc__ else None)
    parser.add_argument("--labels", type=int, default=120)
    parser.add_argument("--also", type=Path)
    given = parser.parse_args()
    main(given.labels, given.also)
