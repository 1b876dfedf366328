"""The documentation site is built strictly: no broken link, no lost page, no public name without a docstring."""

import os
import re
from pathlib import Path

import processes
import pytest

import poolwise as pw
from docs.tooling import public, reference_pages

pytest.importorskip("material", reason="the site needs mkdocs-material: pip install 'poolwise[docs]'")

ROOT = Path(__file__).parents[1]


@pytest.mark.thorough
def test_the_site(tmp_path: Path) -> None:
    """One test, since the site takes a while to build."""
    command = ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path]
    done = processes.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    check_that_all_methods_and_names_are_there(tmp_path)
    check_that_nothing_is_loaded_from_another_host(tmp_path)
    check_that_examples_are_code(tmp_path)


def check_that_all_methods_and_names_are_there(site: Path) -> None:
    every = [file.relative_to(site).as_posix().lower() for file in site.rglob("*.html")]
    assert len(every) == len(set(every))  # some systems do not tell large letters from small ones
    assert [name for name in pw.methods() if not (site / "methods" / f"{name}.html").exists()] == []
    for path, module in public.modules().items():
        names = [name for name in public.names(module) if type(getattr(module, name)).__name__ != "module"]
        split = path in reference_pages.SPLIT
        files = [reference_pages.name_file(path, name, module) for name in names] if split else []
        pages = [site / "reference" / file.replace(".md", ".html") for file in files]
        page = "".join(file.read_text() for file in [site / "reference" / f"{path}.html", *pages])
        documented = {entry.rpartition(".")[2] for entry in re.findall(r'id="([\w.]+)"', page)}
        assert [name for name in names if name not in documented] == [], path


def check_that_nothing_is_loaded_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text())
        assert loaded == [], page


def check_that_examples_are_code(site: Path) -> None:
    page = (site / "reference" / "poolwise.errors.html").read_text()
    assert "Examples:" in page
    assert "&gt;&gt;&gt;" in page
    assert "<blockquote>" not in page
