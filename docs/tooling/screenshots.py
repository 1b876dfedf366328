"""The two pictures at the top of the README, from the demonstration.

    make demo
    .venv/bin/python -m docs.tooling.screenshots demo

Needs Chromium for the picture of the report. Writes docs/images/report.png and docs/images/curve.png.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

IMAGES = Path(__file__).parents[1] / "images"
# The part of the report that is shown: its first screen.
WIDTH, HEIGHT = 900, 720


def shoot(page: Path, out: Path, width: int = WIDTH, height: int = HEIGHT) -> None:
    """A picture of the first screen of a page."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium was found: install it, for instance with apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={width},{height}",
        ]
        subprocess.run(
            [browser, *options, f"--screenshot={shot}", page.resolve().as_uri()], check=True, capture_output=True
        )
        shrink(shot, out)


def shrink(picture: Path, out: Path, width: int = 900) -> None:
    """A picture with few colours, small enough to be loaded with a page."""
    image = Image.open(picture).convert("RGB")
    image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    image.quantize(128, dither=Image.Dither.NONE).save(out, optimize=True)
    print(f"{out.relative_to(Path.cwd())}: {out.stat().st_size // 1024} kB")


def main(demo: Path) -> None:
    """Make both pictures from the folder that `make demo` writes."""
    report = demo / "report"
    shoot(report / "index.html", IMAGES / "report.png")
    curve = next(iter(sorted(report.rglob("*accuracy.png"))), None)
    if curve is None:
        sys.exit(f"{report} has no learning curve: run make demo first")
    shrink(curve, IMAGES / "curve.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
