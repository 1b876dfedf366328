"""What the documents say is run: every Python block, and every shell command that a user would copy."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import poolwise as pw
from poolwise.experiments.config import AcquisitionConfig, Config, DataConfig, ModelConfig, PosteriorConfig
from poolwise.training import Training

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, code in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)):
            found.append((f"{page.name}-{number}", code))
    return found


@pytest.mark.parametrize("code", [pytest.param(code, id=name) for name, code in blocks("python")])
@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning", "ignore::poolwise.PrefilterWarning")
def test_python_blocks_run(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("preds.npy", np.log(np.random.default_rng(0).dirichlet(np.ones(10), (200, 5))).astype(np.float32))
    exec(compile(code, "<block>", "exec"), {})


@pytest.mark.parametrize("code", [pytest.param(code, id=name) for name, code in blocks("console")])
def test_shell_blocks_run(code: str, run) -> None:
    np.save("preds.npy", np.log(np.random.default_rng(0).dirichlet(np.ones(10), (200, 5))))
    np.save("pool.npy", np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32))
    torch.save(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 4)), "net.pt")
    for line in code.splitlines():
        assert line.startswith("$ poolwise "), "a console block holds poolwise commands only"
        run(*line.split()[2:])


def test_there_are_blocks_to_run() -> None:
    assert blocks("python")
    assert blocks("console")


def test_readme_lists_every_method() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [name for name in pw.methods() if f"`{name}`" not in readme] == []


def test_every_setting_is_described() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text()
    sections = {"": Config, "data": DataConfig, "model": ModelConfig, "posterior": PosteriorConfig}
    names = [name for section in sections.values() for name in section.model_fields if name not in sections]
    names += [*AcquisitionConfig.model_fields, *Training.__dataclass_fields__]
    assert [name for name in names if f"`{name}`" not in page and name not in ("training", "acquisition")] == []


@pytest.mark.slow
def test_the_demo_runs_and_draws(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "digits.py", tmp_path / "demo"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in pw.methods())
    assert (tmp_path / "demo" / "batches.png").stat().st_size > 50_000
