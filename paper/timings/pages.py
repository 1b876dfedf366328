"""The pages of the two tables of times, in Markdown: what was measured beside what the paper says."""

import math
from collections.abc import Iterable, Mapping, Sequence

from paper.timings.durations import AUTHORS_CONFIGURATIONS, BATCHES, PAPER_SECONDS, TIMED, Duration, PoolSizes
from paper.timings.growth import ALL_PAIRS, ALL_POINTS, RELEASED, VARIABLES, GrowthSizes, Line
from paper.timings.pools import Trained
from paper.timings.stopwatch import signed
from poolwise.reports.numbers import UNKNOWN
from poolwise.reports.numbers import seconds as short

# A difference between exponents that is worth a sentence.
_NOTABLE = 0.15

_LAZY_JOINT = "Few points are scored on all m configurations: bounds from merged configurations rule out the rest."
_LATE_JOINT = (
    "The first picks are cheap. Once the information of the batch is close to ln K, gains are nearly equal, and bounds "
    "rule out fewer points."
)
_FIRST_JOINT = "The first picks have fewer than m configurations and are cheap."
_LAZY_PAIRS = "Few of these b · N pairs are compared at all, since an old gain is a bound of the new one."
_BATCH_PAIRS = (
    "Points are compared with the picks only, at most b · N pairs; the paper counts all N² pairs of the pool."
)
_LABEL_PAIRS = (
    "A pair of points has C² joint labels, and the printed formula sums over all of them; the paper counts C."
)
_LOGARITHMS = "Only the matrix products grow with K; the logarithms do not."
_FEW_PAIRS = "Few pairs are compared, so the fixed cost of a pick still matters at these sizes."
_BLOCK_SUMS = "Scores come from sums over blocks of 1,024 rows in one pass over the pool: no pairs are compared."
# Why an exponent is below the paper's, and why above, where a reason is known.
_BELOW = {
    ("bald", "b"): "The top b come from one partial sort of the scores, so no step costs b · N.",
    ("batchbald", "N"): _LAZY_JOINT,
    ("batchbald", "b"): _LAZY_JOINT,
    ("batchbald", "C"): _LAZY_JOINT,
    ("batchbald", "K"): f"{_LAZY_JOINT} {_LOGARITHMS}",
    (ALL_POINTS, "K"): _LOGARITHMS,
    ("lbb", "N"): f"{_BATCH_PAIRS} {_LAZY_PAIRS}",
    ("lbb", "C"): _FEW_PAIRS,
    ("lbb", "K"): f"{_FEW_PAIRS} {_LOGARITHMS}",
    (ALL_PAIRS, "N"): _BATCH_PAIRS,
    (ALL_PAIRS, "K"): _LOGARITHMS,
    ("power-lbb", "N"): f"{_BATCH_PAIRS} {_LAZY_PAIRS}",
    ("power-lbb", "C"): _FEW_PAIRS,
    ("power-lbb", "K"): f"{_FEW_PAIRS} {_LOGARITHMS}",
    (RELEASED, "N"): _BLOCK_SUMS,
}
_ABOVE = {
    ("bald", "C"): "Entropies are sums over the C classes, which the formula leaves out.",
    ("batchbald", "b"): _LATE_JOINT,
    (ALL_POINTS, "b"): _FIRST_JOINT,
    ("lbb", "b"): _BATCH_PAIRS,
    ("lbb", "C"): _LABEL_PAIRS,
    (ALL_PAIRS, "b"): _BATCH_PAIRS,
    (ALL_PAIRS, "C"): _LABEL_PAIRS,
    ("power-lbb", "b"): _BATCH_PAIRS,
    ("power-lbb", "C"): _LABEL_PAIRS,
}
_OVERHEAD = "Part of the time does not grow with {}, and it still matters at these sizes."
_UNEXPLAINED = "Grows faster than the formula over these sizes; the cause was not investigated."

_FORMULAS = """\
| algorithm | the paper's Table 1 | methods here |
| --- | --- | --- |
| BALD | (b + K) · N | `bald` |
| BatchBALD | b · C · min(C^b, m) · N · K | `batchbald` |
| Large BatchBALD | N² · K · C + N · (b + K) | `lbb`, `power-lbb`, `lbb-released` |"""


def growth_page(lines: Sequence[Line], sizes: GrowthSizes, scale: str, machine: Mapping[str, object]) -> str:
    """The page of Table 1."""
    base = sizes.base
    parts = [
        "# How the cost grows",
        _made_by("table-1", scale, machine),
        f"""\
The paper's Table 1 says how the cost of its algorithms grows with the pool N, the batch b, the classes C, the posterior
samples K and the label configurations m. Here each of N, b, C and K grows while the others stay at N = {base.N:,},
b = {base.b}, C = {base.C}, K = {base.K} (m = {sizes.configurations:,}), and the time is measured.""",
        _FORMULAS,
        f"""\
*Every point* and *every pair* are `evaluation="full"`: all points are evaluated at every pick. The picks are the same.
The paper's table has no row for `power-lbb`. `lbb-released` is what the paper's program computes.

The paper's N² for LBB counts all pairs of the pool, as if a point were compared with the whole pool. The printed
formula sums over pairs inside the batch. That takes only b · N comparisons, and that is what `lbb` does here.

**Predictions** are synthetic, since no data set comes in all sizes: a signal that all members share, plus noise of each
member, linear in shared features. The constants were chosen to be close to a real ensemble, in the BALD scores and in
the share of pairs that lazy selection compares (`paper/timings/pools.py`).
{_pairs(lines, base.N)}

**Times** are the best wall time of up to {sizes.repeats} runs on one thread (fewer once they have taken
{sizes.budget:g} s), from an array in memory, without the estimate of the batch's information. **Exponents** are slopes
of log time against log size, fitted by least squares over the upper half of the sizes, ± the standard error of the fit.
The paper's exponent is the slope of its formula over the same sizes.""",
        "![Time against N, b, C and K](complexity.png)",
    ]
    for variable in VARIABLES:
        parts += _variable(variable, [line for line in lines if line.variable == variable])
    return "\n\n".join(parts) + "\n"


def _variable(variable: str, lines: Sequence[Line]) -> list[str]:
    exponents = [
        (
            line.name,
            f"{line.exponent.sizes[0]:,} to {line.exponent.sizes[-1]:,}",
            f"{signed(line.exponent.value)} ± {line.exponent.error:.2f}",
            signed(line.paper),
            _reason(line),
        )
        for line in lines
    ]
    every = sorted({size for line in lines for size in line.sizes})
    seconds = []
    for line in lines:
        known = dict(zip(line.sizes, line.seconds, strict=True))
        seconds.append((line.name, *(short(known[size]) if size in known else "" for size in every)))
    parts = [
        f"## {variable}",
        _table(("", f"fitted to {variable}", "measured", "the paper", "why they differ"), exponents, "l---l"),
        _table(("", *(f"{variable} = {size:,}" for size in every)), seconds),
    ]
    saturated = [name for name in (_saturation(line) for line in lines) if name]
    if saturated:
        parts.append(f"Picks are arbitrary once no remaining point has a gain: {'; '.join(saturated)}.")
    return parts


def _reason(line: Line) -> str:
    difference = line.exponent.value - line.paper
    if abs(difference) <= max(_NOTABLE, 2 * line.exponent.error):
        return ""
    key = (line.name, line.variable)
    if difference < 0:
        return _BELOW.get(key, _OVERHEAD.format(line.variable))
    return _ABOVE.get(key, _UNEXPLAINED)


def _saturation(line: Line) -> str:
    """From which size on the batches of a line are saturated, in words; empty if they are not."""
    found = [
        (size, run.saturated_at)
        for size, run in zip(line.sizes, line.runs, strict=True)
        if run.saturated_at is not None
    ]
    if not found:
        return ""
    size, at = found[0]
    return f"`{line.name}` at {line.variable} = {size:,} after {at} {'pick' if at == 1 else 'picks'}"


def _pairs(lines: Iterable[Line], N: int) -> str:
    """How many pairs lazy evaluation compared for the largest batch, in words."""
    line = next(line for line in lines if (line.name, line.variable) == ("lbb", "b"))
    b, compared = line.sizes[-1], line.runs[-1].pairs
    return f"Of the {b * N:,} pairs of N = {N:,} points with a batch of {b:,}, `lbb` compared {compared / (b * N):.1%}."


def durations_page(
    durations: Sequence[Duration], pool: Trained, sizes: PoolSizes, scale: str, machine: Mapping[str, object]
) -> str:
    """The page of Table 2."""
    N, K, C = pool.log_probs.shape
    found = {(duration.name, duration.b): duration for duration in durations}
    rows = []
    for name, method, parameters in TIMED:
        call = f"`{method}`" + (', `evaluation="full"`' if parameters else "")
        cells = [name, call]
        for b in BATCHES:
            here, paper = found[name, b], PAPER_SECONDS[b].get(name)
            cells += [_spread(here.mean, here.sd), UNKNOWN if paper is None else f"{paper[0]} ± {paper[1]}"]
        rows.append(cells)
    head = ["", "method", *(f"b = {b}, {whose}" for b in BATCHES for whose in ("here", "the paper"))]
    parts = [
        "# Run time",
        _made_by("table-2", scale, machine),
        f"""\
The paper's Table 2: seconds to select 10 and 20 points from a pool of {49_980:,} images of MNIST with a deep ensemble.
Here N = {N:,}, K = {K}, C = {C}.

**Predictions**: {pool.origin}.

**Times** are mean ± standard deviation over {sizes.repeats} runs with different seeds, in seconds, on one thread, from
an array in memory, without the estimate of the batch's information. BatchBALD draws {sizes.configurations:,}
configurations{_as_authors(sizes)}.""",
        """\
**Compare ratios between methods, not seconds.** The paper's seconds come from the authors' program, on a machine that
the paper does not name. Like ours, its times are of selection alone: the program starts its clock after prediction.""",
        _table(head, rows, "ll"),
        """\
The last three rows are not in the paper's table. *Every pair* compares all points with every pick; `lbb`
skips those that cannot win, and makes the same picks. *As released* is what the paper's program computes: one pass over
blocks of 1,024 rows. Its time does not depend on b.""",
        "![Seconds by method, here and in the paper](run-time.png)",
        "## Ratios",
        _ratios(found, pool.predicting),
        f"""\
*With prediction* adds to both times the {short(pool.predicting)} that it took to predict the pool here. It is
the ratio of whole queries: what a user waits for.""",
    ]
    return "\n\n".join(parts) + "\n"


def _as_authors(sizes: PoolSizes) -> str:
    """What to add if BatchBALD has another number of configurations than in the authors' program."""
    same = sizes.configurations == AUTHORS_CONFIGURATIONS
    return "" if same else f", where the authors' program draws {AUTHORS_CONFIGURATIONS:,}"


def _ratios(found: Mapping[tuple[str, int], Duration], predicting: float) -> str:
    over_bald = [(name, "BALD") for name, *_ in TIMED if name != "BALD"]
    rows = []
    for above, below in [*over_bald, ("BatchBALD", "Large BB"), ("BatchBALD", "Power LBB")]:
        cells = [f"{above} / {below}"]
        for b in BATCHES:
            top, bottom, paper = found[above, b].mean, found[below, b].mean, PAPER_SECONDS[b]
            cells += [_ratio(top / bottom), _ratio((top + predicting) / (bottom + predicting))]
            cells.append(_ratio(paper[above][0] / paper[below][0]) if above in paper else UNKNOWN)
        rows.append(cells)
    columns = ("here", "with prediction", "the paper")
    return _table(["", *(f"b = {b}, {column}" for b in BATCHES for column in columns)], rows)


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _spread(mean: float, sd: float) -> str:
    """Mean ± standard deviation: three digits of the mean, but at least hundredths of a second."""
    digits = max(2, 2 - math.floor(math.log10(mean)))
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"


def _made_by(what: str, scale: str, machine: Mapping[str, object]) -> str:
    versions = machine["versions"]
    assert isinstance(versions, dict)
    named = ", ".join(
        f"{name} {versions[name]}" for name in ("python", "poolwise", "torch", "numpy") if name in versions
    )
    return (
        f"Made by `python -m paper {what}` at the scale `{scale}`; do not edit. Measured {machine['date']} on "
        f"{machine['processor']}, {machine['cores']} cores; {named}."
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "l") -> str:
    """A Markdown table; `align` has an l for each column that begins at the left, others are numbers."""
    sides = align.ljust(len(head), "-")
    rule = ["---" if side == "l" else "---:" for side in sides]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))
