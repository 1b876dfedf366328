"""The beginning of docs/results.md: its answers in a few lines, each with a link to its numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence

from paper import figure_1c_claims
from paper.study import cold, confirmation
from paper.study.ablations import SEEN
from paper.study.archives import Archives
from paper.study.claims import OURS, PRINTED, RELEASED, Claimed, judged_claims, spelled
from paper.study.compare import RANDOM, Records, Unit, answered, data_name, in_paper, saved_over_data, seeds_of, versus
from paper.study.judging import RIVALS, RULE, in_words, judged_rules
from paper.study.longer import paired_runs
from paper.study.markdown import listed
from paper.study.overall import Standing, whole_percent
from poolwise.experiments.records import RunRecord


def in_short(standing: Standing, archives: Archives, large: Sequence[RunRecord]) -> str:
    """A list of the answers; one whose records are missing is left out.

    Args:
        standing: how the methods of the first table compare with random.
        archives: all records of the study.
        large: the runs of Figure 1 (c) at the paper's scale.
    """
    answers = (
        _with_features(archives.judging, archives.confirmation),
        _with_predictions(standing, archives.judging, archives.long),
        _worse_than_random(standing),
        _first_batch(archives.cold_start),
        _at_the_papers_scale(large),
        _at_a_small_scale(archives.quick),
    )
    return "\n".join(f"- {answer}" for answer in answers if answer)


# Claims that are named one by one.
_FEW = 3


def _with_features(judged: Records, confirmed: Records) -> str:
    if not (found := judged_rules(judged)):
        return ""
    rule, records = next(iter(found.items()))
    saved = whole_percent(saved_over_data(records, [rule])[rule])
    bad = versus(records, rule, RANDOM).count("worse")
    return (
        f"**With fixed features**, `{rule}` saved {saved} % of the labels that random needs, on "
        f"{len(records.data_sets)} data sets that had no part in its design, at low to high budgets, with "
        f"{seeds_of(records)[1]}. By labels saved, {in_words(records, rule, RIVALS[rule])['labels saved, %']}. It is "
        f"clearly worse than random in {bad or 'none'} of {len(records.groups)} settings. Single budgets show less. "
        f"[More](#{rule}-judged-on-other-data).{_once_more(judged, confirmed)}"
    )


def _once_more(judged: Records, confirmed: Records) -> str:
    kept = confirmation.confirmed_runs(confirmed)
    if not kept.groups:
        return ""
    bad, both = versus(kept, RULE, RANDOM).count("worse"), confirmation.together(confirmed, judged)
    together = (
        f" On all {len(both.data_sets)} together, {in_words(both, RULE, RIVALS[RULE])['labels saved, %']}; the first "
        "of these runs prompted the others, so that says a little too much."
        if len(both.data_sets) > len(kept.data_sets)
        else ""
    )
    return (
        f" On {len(kept.data_sets)} further data sets, taken to ask the same question once more, it saved "
        f"{whole_percent(saved_over_data(kept, [RULE])[RULE])} %: "
        f"{in_words(kept, RULE, RIVALS[RULE])['labels saved, %']}, and it is clearly worse than random in "
        f"{bad or 'none'} of {len(kept.groups)} settings.{together} [More](#{_anchor(confirmation.HEADING)})."
    )


def _with_predictions(standing: Standing, judged: Records, longer: Records) -> str:
    records, (label, answer) = standing.records, next(iter(standing.saved.items()))
    if any(found.verdict == "better" for found in standing.saved.values()):
        corrected = f"After correction for all methods, {standing.named(standing.saved)}."
    else:
        corrected = (
            "No method can be shown to save labels in these settings after correction for all methods, this one "
            "included: data sets differ."
        )
    said = (
        f"**Without fixed features**, `{label}` saved the most, {whole_percent(answer.found)} % on average over "
        f"{len(records.groups)} settings of {len(records.data_sets)} data sets. {corrected}{_seen(records, label)} "
        f"[More](#all-settings-together).{_on_longer_curves(longer, label)}"
    )
    rule, others = next(iter(judged_rules(judged).items()), ("", Records([])))
    if label not in others.labels:
        return said
    there = answered(saved_over_data(others, others.labels))[label]
    known = [data_name(data) for data in others.data_sets if data_name(data) in SEEN]
    return (
        f"{said} In [judging](#{rule}-judged-on-other-data), {len(others.data_sets)} data sets with fixed features"
        + (f", {listed(known)} among them" if known else "")
        + f", it saved {whole_percent(there.found)} %: {there.verdict}."
    )


def _on_longer_curves(longer: Records, label: str) -> str:
    """What the first method saved where curves are longer, and which methods are shown to save labels there."""
    kept = paired_runs(longer)
    if label not in kept.labels:
        return ""
    asked = answered(saved_over_data(kept, kept.labels))
    sure = [f"`{name}`" for name, answer in asked.items() if answer.verdict == "better"]
    return (
        f" On [longer curves](#longer-curves), {seeds_of(kept)[1]}, it saved {whole_percent(asked[label].found)} %: "
        f"{asked[label].verdict}. Shown to save labels there: {listed(sure) if sure else 'none'}."
        + (" The rules of herding get fixed features there." if any("herding" in name for name in sure) else "")
    )


def _seen(records: Records, label: str) -> str:
    """What the first method saved on data that had no part in making it."""
    fresh = records.where(lambda setting: setting.data not in SEEN)
    seen = [data for data in records.data_sets if data in SEEN]
    if label != "posterior-coverage" or not seen or not fresh.groups:
        return ""
    share = saved_over_data(fresh, [label])[label]
    return (
        f" {listed(seen)} had a part in making it; on the other {len(fresh.data_sets)} it saved "
        f"{whole_percent(share)} %."
    )


def _worse_than_random(standing: Standing) -> str:
    worse = [f"`{label}`" for label, answer in standing.by_setting.items() if answer.verdict == "worse"]
    sure = [f"`{label}`" for label, answer in standing.answers["curve"].items() if answer.verdict == "worse"]
    if not worse and not sure:
        return ""
    return (
        "**Worse than random** in accuracy over the curve, without fixed features, if data sets are counted: "
        f"{listed(sure) if sure else 'none beyond chance'}. If settings are counted, which is weaker evidence: "
        f"{listed(worse) if worse else 'none'}. [More](#all-settings-together)."
    )


def _first_batch(first: Records) -> str:
    return f"**The first batch.** {cold.compared(first)} [More](#the-first-batch)." if first.groups else ""


def _at_the_papers_scale(large: Sequence[RunRecord]) -> str:
    found = [answer for answer in figure_1c_claims.answers(large) if answer.curve.seeds >= figure_1c_claims.ENOUGH]
    if not found:
        return ""
    return (
        f"**The paper's Figure 1 (c) at its own scale**: of {len(found)} claims, "
        f"{_counted(answer.verdict for answer in found)}. [More](figure-1c.md)."
    )


def _at_a_small_scale(quick: Records) -> str:
    tested = judged_claims(quick.where(in_paper))
    if not tested:
        return ""

    def said(unit: Unit) -> str:
        return _counted(claim.cells["curve", unit].finding for claim in tested)

    found = [c for c in tested if c.cells["curve", "data sets"].finding in ("holds", "does not hold")]
    few = [
        f"{c.cells['curve', 'data sets'].finding}: “{c.claimed.text}” ({_form(c.claimed)}), "
        f"{spelled(c.cells['curve', 'data sets'].found)} points"
        for c in found[:_FEW]
    ]
    named = f" ({'; '.join(few)}{'; and others' if len(found) > _FEW else ''})" if found else ""
    readings = {
        reading: [c for c in tested if c.claimed.reading == reading] for reading in (RELEASED, PRINTED, OURS, None)
    }
    by_reading = "; ".join(
        f"{reading or 'only one reading'}: {_counted(claim.cells['curve', 'settings'].finding for claim in claims)}"
        for reading, claims in readings.items()
        if claims
    )
    return (
        f"**The paper's claims at a small scale**, on its own data: {len({c.claimed.text for c in tested})} claims, "
        f"{len(tested)} tests, since LBB, PLBB and PBALD can be read in several ways and some claims are tested by "
        f"batch size or kind of data. If data sets are counted, {said('data sets')}{named}. If settings are counted, "
        f"which is weaker evidence, {said('settings')}; by reading, {by_reading}. [More](#the-papers-claims)."
    )


def _form(claimed: Claimed) -> str:
    """What was tested, and in whose reading."""
    tested = f"`{claimed.first} − {claimed.second}`"
    return tested if claimed.reading is None else f"{tested}, {claimed.reading}"


def _counted(findings: Iterable[str]) -> str:
    """How many claims have which verdict."""
    counts = Counter(findings)
    order = ("holds", "does not hold", "equivalent", "inconclusive")
    return ", ".join(f"{finding}: {counts[finding]}" for finding in order if counts[finding])


def _anchor(heading: str) -> str:
    return heading.lower().replace(",", "").replace(" ", "-")
