"""What `poolwise advise` reads: labels saved by method and data set under a few conditions, from the records."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from paper.judging import CONFIRMATION, JUDGING
from paper.places import CONFIGS, must_exist
from paper.study.archives import FOLDERS
from paper.study.cold import against_random as first_against_random
from paper.study.cold import first_less
from paper.study.cold import kinds as first_kinds
from paper.study.compare import RANDOM, Records, against_random, by_data_set, data_name, over, saved, texts, versus
from paper.study.confirmation import TOGETHER
from paper.study.judging import BUDGETS
from paper.study.markdown import table
from poolwise.data.specs import SPECS
from poolwise.experiments import Config, read_config
from poolwise.experiments.records import Setting
from poolwise.reports.advice import FEW_CLASSES, LARGE_BATCH, SMALL_BATCH, VERY_LARGE, First, Row, Scope
from poolwise.reports.numbers import seconds, signed
from poolwise.storage import replacing

HEADING = "What advise reads"

Wanted = Callable[[Setting], bool]
CONDITIONS: Mapping[str, Wanted] = {
    "all": lambda s: True,
    "small batches": lambda s: s.batch_size <= SMALL_BATCH,
    "large batches": lambda s: s.batch_size > SMALL_BATCH,
    "few classes": lambda s: _classes(s) <= FEW_CLASSES,
    "many classes": lambda s: _classes(s) > FEW_CLASSES,
}


def _at(budget: str) -> Wanted:
    return lambda setting: setting.experiment.endswith(f"-{budget}")


# On fixed features, batches were larger where there were more labels, so a condition is a budget, which is both.
_BUDGETS: Mapping[str, Wanted] = {"all": lambda s: True, **{name: _at(name) for name in BUDGETS}}
_VERY_LARGE: Mapping[str, Wanted] = {VERY_LARGE: lambda s: s.batch_size > LARGE_BATCH}
_JUDGED = {**JUDGING, **CONFIRMATION}
# Headings of docs/results.md.
_SECTIONS = {
    "network": "All settings together",
    "fixed": TOGETHER,
    VERY_LARGE: "Large batches, Fashion-MNIST, pool of 20,000",
}
# Keys of a method in a configuration that are not parameters of its own.
_COMMON = ("name", "label", "features", "first", "evaluation")


def write_evidence(
    network: Records, fixed: Records, path: Path, *, ablation: Records | None = None, first: Records | None = None
) -> list[dict[str, Any]]:
    """Write the table, and return its groups of rows.

    Args:
        network: runs of networks that learn their own features.
        fixed: runs on fixed features, which methods got too; may be empty.
        path: where it goes.
        ablation: runs of which those with very large batches count.
        first: first batches that were selected before anything was labelled.
    """
    groups = [*_groups("network", network, CONDITIONS), *_groups("fixed", fixed, _BUDGETS)]
    if ablation is not None:
        groups += _groups("network", ablation, _VERY_LARGE)
    batches = [] if first is None else [entry._asdict() for entry in _first(first)]
    content = {"made by": "python -m paper study page", "groups": groups, "first batches": batches}
    with replacing(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())
    return groups


def advice_section(groups: Iterable[Mapping[str, Any]]) -> str:
    """The part of docs/results.md with every number that `poolwise advise` says of a method.

    Args:
        groups: what `write_evidence` returned.
    """
    shown = [_group_shown(group) for group in groups]
    return "\n\n".join(
        [
            f"## {HEADING}",
            "`poolwise advise` chooses by the part of the settings that is most like the user's case. These are the "
            "parts, as it reads them from `poolwise/reports/evidence.json`: labels saved with 95 % intervals over the "
            "data sets, the verdict on accuracy over the curve (corrected for the methods of its table, not for the "
            "number of parts, nor for choosing one of them), in how many settings the seeds say better and worse than "
            "random, and seconds per query. A part has fewer data sets or settings than the whole, so it says less.",
            *shown,
        ]
    )


def _group_shown(group: Mapping[str, Any]) -> str:
    """The rows of one condition, the most labels saved first."""
    scope, rows = group["scope"], sorted(group["rows"], key=lambda row: -row["saved"])
    low, high = scope["labels"]
    sizes = ", ".join(map(str, scope["batches"]))
    known = len(scope["kinds"])
    told = f"{known} data {'set' if known == 1 else 'sets'}, batches of {sizes}, {low:,} to {high:,} labels"
    cells = [
        (f"`{row['label'] or row['method']}`", _share(row), f"**{row['verdict']}**",
         f"{row['better']} / {row['worse']} of {row['settings']}", seconds(row["seconds"]))
        for row in rows
    ]  # fmt: skip
    kind = "Fixed features" if group["features"] == "fixed" else "Features of the network"
    head = ("method", "labels saved, %", "curve, by data set", "settings better / worse", "per query")
    return f"### {kind}: {group['condition']}\n\n{told}.\n\n{table(head, cells)}"


def _share(row: Mapping[str, Any]) -> str:
    if row["low"] is None:
        return signed(row["saved"], 0)
    return f"{signed(row['saved'], 0)} [{signed(row['low'], 0)}, {signed(row['high'], 0)}]"


def _groups(kind: str, records: Records, conditions: Mapping[str, Wanted]) -> Iterator[dict[str, Any]]:
    """The rows of each condition, with what these have in common."""
    for condition, wanted in conditions.items():
        part = records.where(wanted)
        if part.groups:
            scope = _scope(part, _SECTIONS.get(condition, _SECTIONS[kind]))
            rows = [_as_written(row) for row in _rows(kind, condition, part)]
            yield {"features": kind, "condition": condition, "scope": scope._asdict(), "rows": rows}


def _as_written(row: Row) -> dict[str, Any]:
    """A row without what its group says."""
    return {name: value for name, value in row._asdict().items() if name not in ("features", "condition", "scope")}


def _rows(kind: str, condition: str, part: Records) -> Iterator[Row]:
    verdicts = against_random(part)
    for label in part.labels:
        methods = {group.method(label) for group in part.groups.values()}
        parameters = _parameters(part, label)
        if label == RANDOM or len(methods) > 1 or parameters is None:
            continue
        each = by_data_set(saved(part, label))
        found = over(each.values())
        known = found.seeds > 1
        against = versus(part, label, RANDOM)
        yield Row(
            features=kind,
            condition=condition,
            method=methods.pop(),
            saved=round(found.mean, 4),
            low=round(found.low, 4) if known else None,
            high=round(found.high, 4) if known else None,
            verdict=verdicts[label].verdict,
            data_sets=len(part.data_sets),
            settings=len(part.groups),
            worse=against.count("worse"),
            seconds=round(mean(part.seconds(setting, label) for setting in part.groups), 4),
            better=against.count("better"),
            label=label,
            parameters=parameters,
            each={data_name(data): round(share, 4) for data, share in each.items()},
        )


def _parameters(part: Records, label: str) -> dict[str, Any] | None:
    """What makes a label more than its method; None if nobody could run it, for want of one set of parameters.

    A label that is the name of a method stands for it, also where a parameter was set to save time.
    """
    if all(group.method(label) == label for group in part.groups.values()):
        return {}
    found = []
    for setting in part.groups:
        config = _configs().get(setting.experiment)
        made = [] if config is None else [own for own in config.acquisition.methods if own.label == label]
        found += [{k: v for k, v in own.model_dump().items() if k not in _COMMON} for own in made]
    complete = len(found) == len(part.groups) and all(values == found[0] for values in found)
    return found[0] if complete and found[0] else None


def _scope(part: Records, section: str) -> Scope:
    """What the settings were like, as far as their configurations say."""
    configs = [config for s in part.groups if (config := _configs().get(s.experiment)) is not None]
    ends = [count for group in part.groups.values() for count in (group.labelled[0], group.labelled[-1])]
    return Scope(
        section=section,
        kinds={data_name(s.data): _kind(s) for s in part.groups},
        classes={data_name(s.data): _classes(s) for s in part.groups},
        batches=sorted({s.batch_size for s in part.groups}),
        labels=[min(ends), max(ends)],
        pools=sorted({config.data.pool * config.data.repeats for config in configs if config.data.pool}),
        samples=sorted({_samples(config) for config in configs}),
    )


def _samples(config: Config) -> int:
    """How many posterior samples methods got."""
    made = config.posterior
    return made.members if made.kind == "deep-ensemble" else made.samples


@cache
def _configs() -> dict[str, Config]:
    """The configurations of the study by name."""
    files = (file for folder in FOLDERS for file in sorted((must_exist(CONFIGS) / folder).glob("*.toml")))
    return {config.name: config for config in map(read_config, files)}


def _first(records: Records) -> Iterator[First]:
    """First batches against a random one, on data whose features an encoder could give, and on tables."""
    for kind, part in first_kinds(records).items():
        for label, answer in first_against_random(part).items():
            each = first_less(part, label, RANDOM).each
            known = answer.found.seeds > 1
            yield First(
                kind=kind,
                method=label,
                points=round(answer.found.mean, 4),
                low=round(answer.found.low, 4) if known else None,
                high=round(answer.found.high, 4) if known else None,
                verdict=answer.verdict,
                data_sets=len(part.data_sets),
                worse={data_name(s.data): round(d.mean, 4) for s, d in each.items() if d.verdict == "worse"},
            )


def _classes(setting: Setting) -> int:
    """How many classes the data has."""
    data = data_name(setting.data)
    return SPECS[data].class_count if data in SPECS else _JUDGED[data].classes


def _kind(setting: Setting) -> str:
    data = data_name(setting.data)
    if data in _JUDGED:
        return _JUDGED[data].kind
    return "texts" if texts(setting) else "images"
