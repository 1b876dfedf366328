"""What the documents say is run: every Python and console block, page by page, with nothing prepared beforehand."""

import re
import shlex
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import typer

import poolwise as pw
from docs.tooling import links, method_pages
from poolwise.cli import app
from poolwise.experiments.config import AcquisitionConfig, Config, DataConfig, ModelConfig, PosteriorConfig
from poolwise.training import Training

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MARKS = {
    **dict.fromkeys(["experiments.md", "spreadsheet.md", "start.md"], pytest.mark.slow),
    # The scripts in `examples/` do the same, and `test_pilot.py` what the page on pilots does.
    **dict.fromkeys(
        ["hugging-face.md", "own-posterior.md", "pilot.md", "pytorch.md", "skorch.md", "texts.md"],
        pytest.mark.thorough,
    ),
}


class Block(NamedTuple):
    """A fenced block of a page: its language, the file that it is to be saved as, and its lines."""

    language: str
    title: str | None
    code: str
    line: int


def blocks(text: str) -> list[Block]:
    found = []
    for match in re.finditer(r"^```(\w+)(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE):
        title = re.search(r'title="([^"]+)"', match[2])
        found.append(Block(match[1], title and title[1], match[3], text[: match.start()].count("\n") + 2))
    return found


def run_page(name: str, parts: list[Block], run: Callable[..., object]) -> None:
    """Do what a reader does: save the files, run the Python of a page in one session and its commands in a shell."""
    session: dict[str, object] = {"__name__": "__main__"}
    for block in parts:
        if block.title is not None:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.code)
        elif block.language == "python":
            code = "\n" * (block.line - 1) + block.code  # so that an error names the line of the page
            exec(compile(code, name, "exec"), session)
        elif block.language == "console":
            for line in block.code.splitlines():
                assert line.startswith("$ poolwise "), f"a console block is made of poolwise commands, not {line!r}"
                run(*shlex.split(line)[2:])


def runnable() -> list[object]:
    pages = {page: blocks(page.read_text()) for page in PAGES}
    return [
        pytest.param(page, parts, id=str(page.relative_to(ROOT)), marks=MARKS.get(page.name, ()))
        for page, parts in pages.items()
        if page.name != "cluster.md"  # which tests/test_ray.py runs, where Ray is started already
        and any(block.language in ("python", "console") for block in parts)
    ]


@pytest.mark.parametrize(("page", "parts"), runnable())
@pytest.mark.usefixtures("own_catalogues", "unrendered", "brief_training")
def test_the_blocks_of_a_page_run(page: Path, parts: list[Block], tmp_path: Path, run: Callable[..., object]) -> None:
    threads, before = torch.get_num_threads(), set(sys.modules)
    with warnings.catch_warnings(), torch.random.fork_rng():  # a page may draw from the global state
        for category in (pw.SaturationWarning, pw.PrefilterWarning):  # and may show these
            warnings.simplefilter("ignore", category)
        run_page(page.name, parts, run)
    torch.set_num_threads(threads)
    for name in set(sys.modules) - before:  # a module that a page wrote is not there for the next page
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def test_there_are_blocks_to_run() -> None:
    assert len(runnable()) > 15


@pytest.mark.parametrize("name", sorted(pw.methods()))
@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")
def test_the_example_of_a_method_page_runs(name: str) -> None:
    assert "## Example" in method_pages.page(name)
    exec(compile(method_pages.example(name), f"methods/{name}.md", "exec"), {})
    parse(method_pages.command(name))


def shell_commands() -> list[object]:
    """Commands that are shown and not run, since they need long, data or a cluster: their options must exist."""
    found = []
    for page in PAGES:
        for block in blocks(page.read_text()):
            if block.language == "sh":
                lines = [line for line in block.code.splitlines() if line.startswith("poolwise ")]
                found += [pytest.param(line, id=f"{page.name}: {line}") for line in lines]
    return found


@pytest.mark.parametrize("line", shell_commands())
def test_a_shell_block_names_options_that_exist(line: str) -> None:
    parse(line)


def parse(line: str) -> None:
    group = typer.main.get_command(app)
    context = group.make_context("poolwise", shlex.split(line, comments=True)[1:])
    name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
    command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_links_lead_to_files(page: Path) -> None:
    made = {ROOT / "docs" / "methods" / f"{name}.md" for name in ("index", *pw.methods())}
    reference = ROOT / "docs" / "reference"
    missing = []
    for target in links.targets(page.read_text()):
        path = (page.parent / target).resolve()
        if not path.exists() and path not in made and path.parent != reference:
            missing.append(target)
    assert missing == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.is_relative_to(ROOT / "docs")]
    assert [page for page in pages if page not in navigation] == []


def test_the_guide_lists_every_method_and_the_readme_links_to_it() -> None:
    guide = (ROOT / "docs" / "guide.md").read_text()
    assert [name for name in pw.methods() if f"`{name}`" not in guide] == []
    assert "(docs/guide.md)" in (ROOT / "README.md").read_text()


def test_every_setting_is_described() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text()
    sections = {"": Config, "data": DataConfig, "model": ModelConfig, "posterior": PosteriorConfig}
    names = [name for section in sections.values() for name in section.model_fields if name not in sections]
    names += [*AcquisitionConfig.model_fields, *Training.__dataclass_fields__]
    assert [name for name in names if f"`{name}`" not in page and name not in ("training", "acquisition")] == []


def test_claims_that_are_too_strong_are_gone() -> None:
    text = " ".join(" ".join(page.read_text().split()) for page in PAGES)
    assert [claim for claim in ("which no other tool", "othing is clipped", "othing is guessed") if claim in text] == []
