"""The tables of times: fits, files and contents. Nothing here depends on how fast anything is."""

import itertools
import json
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import poolwise as pw
from paper import timings
from paper.timings import durations, growth, pages, pools
from paper.timings.durations import PAPER_SECONDS, TIMED, PoolSizes
from paper.timings.growth import ALL_PAIRS, ALL_POINTS, GROWING, GrowthSizes, Line, Shape, paper_cost
from paper.timings.pools import synthetic, trained
from paper.timings.stopwatch import Exponent, Timed, fit_exponent, time_selection
from poolwise.errors import MissingInputError, ParameterError

TINY = GrowthSizes(
    Shape(N=40, b=3, C=3, K=3),
    {"N": (20, 40, 80), "b": (2, 4, 8), "C": (2, 4, 8), "K": (2, 4, 8, 16)},
    {ALL_POINTS: {"K": 8}},
    configurations=30,
    repeats=2,
)


def quiet(text: str) -> None:
    pass


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_exact_power_laws_are_found(power: float) -> None:
    sizes = [10, 20, 40, 80, 160]
    found = fit_exponent(sizes, [3 * size**power for size in sizes])
    assert found.value == pytest.approx(power)
    assert found.error == pytest.approx(0, abs=1e-7)


def test_only_the_upper_half_of_the_sizes_is_fitted() -> None:
    sizes = [1, 10, 100, 1_000, 10_000]
    found = fit_exponent(sizes, [5.0, 5.0, 1e2, 1e3, 1e4])  # a fixed cost hides the power at first
    assert found.sizes == (100, 1_000, 10_000)
    assert found.value == pytest.approx(1)
    assert fit_exponent([2, 4, 8, 16], [1.0] * 4).sizes == (4, 8, 16), "never fewer than three"


def test_the_error_is_that_of_least_squares() -> None:
    x, scatter = np.arange(6), np.array([0.1, -0.2, 0.05, 0.1, -0.1, 0.05])
    found = fit_exponent((2 ** (x + 20)).tolist(), np.exp(scatter).tolist())
    kept = np.log(2.0) * x[-3:]
    slope, offset = np.polyfit(kept, scatter[-3:], 1)
    rest = scatter[-3:] - slope * kept - offset
    assert found.value == pytest.approx(slope)
    assert found.error == pytest.approx(math.sqrt((rest @ rest) / 1 / (kept.var() * 3)))


def test_two_sizes_are_too_few() -> None:
    with pytest.raises(ParameterError, match="at least 3 sizes"):
        fit_exponent([1, 2], [1.0, 2.0])


def test_the_formulas_are_those_of_the_paper() -> None:
    shape = Shape(N=7, b=2, C=3, K=5)
    assert paper_cost("BALD", shape, 100) == (2 + 5) * 7
    assert paper_cost("BatchBALD", shape, 100) == 2 * 3 * 9 * 7 * 5
    assert paper_cost("BatchBALD", shape, 4) == 2 * 3 * 4 * 7 * 5
    assert paper_cost("LBB", shape, 100) == 49 * 5 * 3 + 7 * (2 + 5)


def test_synthetic_predictions_resemble_an_ensemble() -> None:
    log_probs = synthetic(4_000, 10, 10)
    assert log_probs.shape == (4_000, 10, 10)
    assert log_probs.dtype == np.float32
    np.testing.assert_allclose(np.exp(log_probs).sum(2), 1, atol=1e-5)
    bald = np.asarray(pw.scores.bald(log_probs))
    assert np.median(bald) < 0.05 < 0.2 < np.quantile(bald, 0.99), "few points are informative"
    batch = pw.select(log_probs, 10, "lbb")
    assert batch.diagnostics.pairs < 0.15 * 10 * 4_000, "few pairs can win"


def test_synthetic_predictions_depend_on_their_seed_only() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[union-attr]  # noqa: NPY002
    log_probs = synthetic(100, 4, 3, seed=1)
    assert np.array_equal(log_probs, synthetic(100, 4, 3, seed=1))
    assert np.array_equal(log_probs[:50], synthetic(50, 4, 3, seed=1)), "a pool begins like a larger one"
    assert not np.array_equal(log_probs, synthetic(100, 4, 3, seed=2))
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_timing_stops_at_its_budget_and_leaves_threads_and_warnings_alone() -> None:
    log_probs, threads, filters = synthetic(30, 2, 3), torch.get_num_threads(), list(warnings.filters)
    timed = time_selection(log_probs, 8, "lbb", {"evaluation": "full"}, [0] * 5, budget=0.0)
    assert len(timed.seconds) == 1, "there is always one run"
    timed = time_selection(log_probs, 8, "lbb", {}, [0, 1])
    assert len(timed.seconds) == 2
    assert timed.saturated_at is not None, "and says so without a warning"
    assert torch.get_num_threads() == threads
    assert warnings.filters == filters


@pytest.mark.thorough
def test_table_1_writes_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(timings.GROWTH_SCALES, "quick", TINY)
    said: list[str] = []
    paths = timings.table_1(tmp_path / "new", "quick", said.append)
    assert [path.name for path in paths] == ["complexity.json", "complexity.md", "complexity.png"]
    assert len(said) == sum(map(len, TINY.sizes.values()))
    record, page = json.loads(paths[0].read_text()), paths[1].read_text()
    assert len(record["lines"]) == 4 * len(GROWING)
    lines = {(line["name"], line["variable"]): line for line in record["lines"]}
    assert lines["lbb", "K"]["sizes"] == [2, 4, 8, 16]
    assert lines[ALL_POINTS, "K"]["sizes"] == [2, 4, 8], "a slow one stops earlier"
    assert lines["lbb", "N"]["paper"] == pytest.approx(2, abs=0.05)
    assert lines["lbb", "b"]["paper"] == pytest.approx(0, abs=0.05)
    assert lines["batchbald", "N"]["paper"] == pytest.approx(1)
    assert lines[ALL_PAIRS, "N"]["runs"][-1]["pairs"] > lines["bald", "N"]["runs"][-1]["pairs"] == 0
    for line in record["lines"]:
        assert line["best"] == [min(run["seconds"]) for run in line["runs"]]
    for heading in ("## N", "## b", "## C", "## K", "complexity.png", "(m = 30)", "python -m paper table-1"):
        assert heading in page
    assert_tables(page)
    assert paths[2].read_bytes().startswith(b"\x89PNG")


def assert_tables(page: str) -> None:
    """Every row of a table has as many cells as the one above it."""
    rows = [line.count("|") if line.startswith("|") else 0 for line in page.splitlines()]
    assert max(rows) > 0
    assert all(here == above for above, here in itertools.pairwise(rows) if here and above)


@pytest.mark.parametrize(
    ("name", "variable", "measured", "error", "expected"),
    [
        ("bald", "N", 1.05, 0.01, ""),
        ("bald", "N", 0.5, 0.3, ""),
        ("bald", "N", 0.5, 0.01, "does not grow with N"),
        ("bald", "N", 1.5, 0.01, "not investigated"),
        ("lbb", "N", 0.5, 0.01, "all N² pairs"),
    ],
)
def test_a_difference_from_the_paper_is_explained(
    name: str, variable: str, measured: float, error: float, expected: str
) -> None:
    run = Timed((1.0,), 0, None)
    paper = 2.0 if name == "lbb" else 1.0
    line = Line(name, variable, (1, 2, 4), (run,) * 3, Exponent(measured, error, (1, 2, 4)), paper, (1, 2, 4))
    reason = pages._reason(line)
    assert expected in reason
    assert bool(reason) == bool(expected)


def test_every_reason_is_of_a_line_and_fits_a_table() -> None:
    names = {contender.name for contender in GROWING}
    for reasons in (pages._BELOW, pages._ABOVE):
        for (name, variable), text in reasons.items():
            assert name in names
            assert variable in growth.VARIABLES
            assert "|" not in text


def test_table_2_stands_beside_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(timings.POOL_SCALES, "quick", PoolSizes(60, mnist=False, steps=5, repeats=2, configurations=20))
    paths = timings.table_2(tmp_path, "quick", quiet)
    assert [path.name for path in paths] == ["run-time.json", "run-time.md", "run-time.png"]
    record, page = json.loads(paths[0].read_text()), paths[1].read_text()
    assert [(entry["name"], entry["b"]) for entry in record["durations"]] == [
        (name, b) for b in durations.BATCHES for name, *_ in TIMED
    ]
    for entry in record["durations"]:
        assert entry["mean"] == pytest.approx(np.mean(entry["run"]["seconds"][1:]))
        assert entry["sd"] == pytest.approx(np.std(entry["run"]["seconds"][1:], ddof=1))
    assert record["setup"]["K"] == 5
    assert record["predicting"] > 0
    for number in ("5.04 ± 0.51", "268.9 ± 10.37", "838.85 ± 98.22", "18.56 ± 2.27", "14.8", "41.8"):
        assert number in page
    assert "Compare ratios between methods, not seconds." in page
    assert_tables(page)
    assert paths[2].read_bytes().startswith(b"\x89PNG")


def test_the_paper_has_five_methods_and_we_have_them_all() -> None:
    assert all(set(table) == {name for name, *_ in TIMED[:5]} for table in PAPER_SECONDS.values())
    assert {method for _, method, _ in TIMED} <= set(pw.methods())


def test_an_ensemble_is_the_same_each_time_and_says_when_mnist_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "search", lambda spec, root: None)
    said: list[str] = []
    first = trained(30, 3, mnist=True, show=said.append)
    assert "mnist was not found" in said[0]
    assert "digits" in first.origin
    assert first.log_probs.shape == (30, 5, 10)
    assert np.array_equal(first.log_probs, trained(30, 3, mnist=False, show=quiet).log_probs)


def test_missing_matplotlib_is_said_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paper.timings.figures", None)
    for table in (timings.table_1, timings.table_2):
        with pytest.raises(MissingInputError, match="Matplotlib"):
            table(Path("nowhere"), "paper", quiet)


def test_scales_are_named() -> None:
    for table in (timings.table_1, timings.table_2):
        with pytest.raises(ParameterError, match="scale must be one of quick, paper, not 'huge'"):
            table(Path("nowhere"), "huge", quiet)


def test_every_line_of_every_scale_can_be_fitted() -> None:
    for sizes in growth.GROWTH_SCALES.values():
        assert list(sizes.sizes) == list(growth.VARIABLES)
        for contender in GROWING:
            for variable, values in sizes.sizes.items():
                most = sizes.most.get(contender.name, {}).get(variable, values[-1])
                assert sum(value <= most for value in values) >= 4
    assert growth.GROWTH_SCALES["paper"].sizes["N"][-1] >= 1_000_000
