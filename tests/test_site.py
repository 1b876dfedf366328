"""The documentation site is built strictly: no broken link, no lost page, no public name without a docstring."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("material", reason="the site needs mkdocs-material: pip install 'poolwise[docs]'")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_without_a_warning(site: Path) -> None:
    assert "Poolwise" in (site / "index.html").read_text()


@pytest.mark.slow
def test_every_method_has_a_page_and_every_public_name_an_entry(site: Path) -> None:
    import poolwise as pw
    from docs.tooling import public

    assert [name for name in pw.methods() if not (site / "methods" / f"{name}.html").exists()] == []
    for path, module in public.modules().items():
        page = (site / "reference" / f"{path}.html").read_text()
        documented = set(re.findall(r'id="([\w.]+)"', page))
        missing = [
            name
            for name in public.names(module)
            if not any(entry.rpartition(".")[2] == name for entry in documented)
            and f"{path}.{name}" not in public.MODULES
            and type(getattr(module, name)).__name__ != "module"
        ]
        assert missing == [], path


@pytest.mark.slow
def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text())
        assert loaded == [], page


@pytest.mark.slow
def test_examples_of_docstrings_are_shown_as_code(site: Path) -> None:
    page = (site / "reference" / "poolwise.errors.html").read_text()
    assert "Examples:" in page
    assert "&gt;&gt;&gt;" in page
    assert "<blockquote>" not in page
