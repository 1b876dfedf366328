"""The tables of a report as flat rows, one number per field, for other programs."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial

from poolwise.experiments.records import Setting
from poolwise.reports.comparable import Comparable
from poolwise.reports.labels import labels_needed, labels_saved, round_accuracies
from poolwise.reports.paired import Difference
from poolwise.reports.profiles import Profile
from poolwise.reports.tables import STAGES, curves, difference_curves, summaries

Row = dict[str, object]


def tables_as_rows(groups: Mapping[Setting, Comparable], accuracies: Sequence[float] = ()) -> dict[str, list[Row]]:
    """The rows of each table, all settings together; accuracies are shares and times seconds.

    Args:
        groups: the runs of each setting.
        accuracies: for which the labels needed are wanted; a few round ones by default.
    """
    comparable = {setting: group for setting, group in groups.items() if group.labelled}
    makers: dict[str, Callable[[Comparable], Iterator[Row]]] = {
        "summary": _summary,
        "curves": _curves,
        "differences": _differences,
        "labels-saved": _labels_saved,
        "labels-needed": partial(_labels_needed, accuracies=accuracies),
    }
    return {
        name: [{**setting._asdict(), **row} for setting, group in comparable.items() for row in make(group)]
        for name, make in makers.items()
    }


def _summary(group: Comparable) -> Iterator[Row]:
    for row in summaries(group):
        yield {
            "label": row.label,
            "method": group.method(row.label),
            "seeds": row.seeds,
            "final_accuracy": row.final.mean,
            "final_accuracy_sd": row.final.sd,
            "mean_accuracy": row.area.mean,
            "mean_accuracy_sd": row.area.sd,
            **_difference("final_difference", row.final_difference),
            **_difference("mean_difference", row.area_difference),
            **{f"{stage}_seconds": row.seconds[stage] for stage in STAGES},
            "batches": row.batches,
            "saturated_batches": row.saturated,
            "saturated_at_median": row.saturated_at,
            "classes_per_batch": row.classes,
            "distinct_share": row.distinct,
        }


def _difference(name: str, difference: Difference | None) -> Row:
    values = {field.name: getattr(difference, field.name, None) for field in fields(Difference)}
    return {f"{name}_{part}": value for part, value in values.items()} | {
        f"{name}_verdict": difference.verdict if difference is not None else None
    }


def _curves(group: Comparable) -> Iterator[Row]:
    for metric in group.metrics:
        for curve in curves(group, metric):
            for labelled, mean, sd in zip(
                curve.labelled_L.tolist(), curve.mean_L.tolist(), curve.sd_L.tolist(), strict=True
            ):
                yield {
                    "label": curve.label, "metric": metric, "seeds": curve.seeds,
                    "labelled": labelled, "mean": mean, "sd": sd,
                }  # fmt: skip


def _differences(group: Comparable) -> Iterator[Row]:
    for curve in difference_curves(group):
        columns = (curve.labelled_L, curve.mean_L, curve.low_L, curve.high_L)
        for labelled, mean, low, high in zip(*(column.tolist() for column in columns), strict=True):
            yield {
                "label": curve.label, "seeds": curve.seeds,
                "labelled": labelled, "mean": mean, "low": low, "high": high,
            }  # fmt: skip


def _labels_saved(group: Comparable) -> Iterator[Row]:
    for saved in labels_saved(group):
        yield {**_finite(asdict(saved)), "reached": saved.reached}


def _labels_needed(group: Comparable, accuracies: Sequence[float]) -> Iterator[Row]:
    for needed in labels_needed(group, accuracies or round_accuracies(group)):
        yield {**_finite(asdict(needed)), "reached": math.isfinite(needed.labels)}


def _finite(row: Row) -> Row:
    """Nothing in place of infinity, which stands for what was never reached."""
    return {name: "" if isinstance(value, float) and math.isinf(value) else value for name, value in row.items()}


def profiles_as_rows(profiles: Iterable[Profile]) -> list[Row]:
    """A row for every method and performance ratio."""
    rows: list[Row] = []
    for profile in profiles:
        columns = (profile.tau_T, profile.share_T, profile.low_T, profile.high_T)
        for tau, share, low, high in zip(*(column.tolist() for column in columns), strict=True):
            rows.append(
                {"label": profile.label, "area": profile.area, "tau": tau, "share": share, "low": low, "high": high}
            )
    return rows
