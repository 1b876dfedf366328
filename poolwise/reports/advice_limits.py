"""What limits the advice of `poolwise advise`: a short sentence for each way in which a case is unlike the study."""

from collections.abc import Iterator, Sequence

from poolwise.reports.advice_words import FAR, Case, counted, ranged
from poolwise.reports.evidence import BUDGETS, FEW_CLASSES, VERY_LARGE, Row

# A number is far from those measured if it is this many times larger or smaller: of points, of labels or samples.
_FEWER_POINTS, _OTHER = 3, 2
# Above this share of the points there is little left to choose from.
_MOST = 0.5


def limits(
    case: Case,
    best: Row | None,
    overall: Row | None,
    *,
    sample: int | None,
    covered: int,
    few: bool,
    beyond: Sequence[Row],
) -> Iterator[str]:
    """What limits the advice.

    Args:
        case: what the user has.
        best: what was measured of the method; None for random.
        overall: what was measured of it over all conditions; None where that is not known.
        sample: how many points the call covers, if not all.
        covered: how many it covers at least.
        few: whether there are few data sets.
        beyond: what was measured with very large batches, if the batch is like these and the condition has none.
    """
    if case.features and case.kind != "fixed":
        yield "The study has no records on fixed features yet, so this is from networks trained on raw inputs."
    if few:
        yield "So few data sets are hardly evidence."
    if best is not None and overall is not None and case.condition not in ("all", VERY_LARGE):
        yield _part(case, best, overall)
    yield from _batches(case)
    if beyond and not any(row.better for row in beyond):
        yield (
            f"Without fixed features, batches of {ranged(beyond[0].scope.batches)} were tried on "
            f"{counted(beyond[0].data_sets, 'data set')}: no method was clearly better than random."
        )
    yield from _classes(case)
    yield from _labels(case)
    yield from _samples(case)
    if sample is not None:
        more = f" It is {sample:,} because a batch near the size of the sample runs dry." if sample > covered else ""
        yield (
            "From some ten thousand points on, sample= keeps the time from growing with N²; the figures are of "
            f"selection without it.{more}"
        )
    yield from _points(case)
    labelled = "from the part that is labelled" if case.labels else "once a part is labelled"
    yield f"Your data may differ: poolwise pilot DATA answers for them, {labelled}."


def _part(case: Case, best: Row, overall: Row) -> str:
    """Which settings the numbers are of, and that choosing these is not corrected for."""
    name = f"the {case.condition} budget" if case.condition in BUDGETS else case.condition
    sizes = f", of {ranged(case.scope.batches)}" if case.scope.batches and name.endswith("batches") else ""
    # Methods on fixed features are compared with each other over all budgets, corrected for these.
    tests = "the test against random was" if case.condition in BUDGETS else "tests were"
    return (
        f"This is from a part of the settings ({name}{sizes}: {best.settings} of {overall.settings}, on "
        f"{counted(best.data_sets, 'data set')}), and {tests} not corrected for choosing this part."
    )


def _batches(case: Case) -> Iterator[str]:
    sizes, size = case.scope.batches, case.batch_size
    if not sizes or min(sizes) <= size <= max(sizes):
        return
    below, above = ([n for n in case.measured if n < size], [n for n in case.measured if n > size])
    if size in case.measured:
        yield f"This rests on batches of {ranged(sizes)}, not of {size:,}, since the number of labels counts first."
    elif below and above:
        yield (
            f"Batches of {below[-1] + 1:,} to {above[0] - 1:,} were not measured: this rests on those of "
            f"{ranged(sizes)}."
        )
    elif case.beyond:
        yield f"No batch was larger than {max(sizes):,} there, so figures for {size:,} are not known."
    elif _OTHER * size <= min(sizes):
        yield f"No batch was smaller than {min(sizes):,} there, so figures for {size:,} are not known."


def _classes(case: Case) -> Iterator[str]:
    if case.classes > case.points:
        yield "There are more classes than points, so some have no example."
    counts = case.scope.classes.values()
    if not counts or case.condition == "many classes":
        return
    many = sum(count > FEW_CLASSES for count in counts)
    if case.classes > FEW_CLASSES:
        yield (
            f"{'Few data sets have' if many else 'No data set has'} more than {FEW_CLASSES} classes ({many} of "
            f"{len(counts)}), so this rests on those with fewer, and the number of classes had no part in the choice."
        )
    else:
        yield "The number of classes had no part in the choice: too few data sets have many."
    if not min(counts) <= case.classes <= max(counts):
        yield f"None has {case.classes:,} classes or {'more' if case.classes > max(counts) else 'fewer'}."


def _labels(case: Case) -> Iterator[str]:
    if not case.scope.labels or not case.labels:
        return
    begin, end = case.scope.labels
    outside = ""
    if case.labels >= end:
        outside = f"; {case.labels:,} are beyond that"
    elif case.labels < begin:
        outside = f"; {case.labels:,} are fewer"
    if outside or case.kind == "network":
        part = "" if case.kind == "fixed" else ", and how many you have had no part in the choice"
        yield f"Runs went from {begin:,} to {end:,} labels{outside}{part}."


def _samples(case: Case) -> Iterator[str]:
    if case.samples == 1:
        yield "With one posterior sample, methods that look at how samples differ are left out."
    measured = case.scope.samples
    if measured and (case.samples < min(measured) or case.samples >= _OTHER * max(measured)):
        yield f"The evidence is from K = {ranged(measured)} posterior samples, not {case.samples:,}."


def _points(case: Case) -> Iterator[str]:
    pools = case.scope.pools
    if pools and case.points > FAR * max(pools):
        yield (
            f"Pools had {ranged(pools)} points, much smaller than {case.points:,}: times and ranks may differ; "
            "check with a pilot."
        )
    if pools and _FEWER_POINTS * case.points <= min(pools):
        yield f"No pool had fewer than {min(pools):,} points, so figures for {case.points:,} are not known."
    taken = case.labels + case.batch_size
    if taken > _MOST * case.points:
        yield (
            f"With this batch, {taken:,} of {case.points:,} points have a label: the fewer are left, the less a "
            "method can save."
        )
