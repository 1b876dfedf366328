"""What `poolwise advise` reads: labels saved by method under a few conditions, from the records."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import mean

from paper.judging import CLASSES
from paper.study.compare import RANDOM, Records, against_random, by_data_set, over, saved, versus
from poolwise.data.specs import SPECS
from poolwise.experiments.records import Setting
from poolwise.reports.advice import FEW_CLASSES, SMALL_BATCH, Row
from poolwise.storage import replacing

CONDITIONS: Mapping[str, Callable[[Setting], bool]] = {
    "all": lambda s: True,
    "small batches": lambda s: s.batch_size <= SMALL_BATCH,
    "large batches": lambda s: s.batch_size > SMALL_BATCH,
    "few classes": lambda s: _classes(s) <= FEW_CLASSES,
    "many classes": lambda s: _classes(s) > FEW_CLASSES,
}


def _classes(setting: Setting) -> int:
    """How many classes the data has: a set of the catalogue, or a file of the judging data."""
    data = setting.data.removesuffix(".npz")
    return SPECS[data].class_count if data in SPECS else CLASSES[data]


def write_evidence(network: Records, fixed: Records, path: Path) -> None:
    """Write the table.

    Args:
        network: runs of networks that learn their own features.
        fixed: runs on fixed features, which methods got too; may be empty.
        path: where it goes.
    """
    rows = [row._asdict() for kind, records in (("network", network), ("fixed", fixed)) for row in _rows(kind, records)]
    content = {"made by": "python -m paper study page", "rows": rows}
    with replacing(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())


def _rows(kind: str, records: Records) -> Iterator[Row]:
    for condition, wanted in CONDITIONS.items():
        part = records.where(wanted)
        if not part.groups:
            continue
        verdicts = against_random(part)
        for label in part.labels:
            if label == RANDOM or len({group.method(label) for group in part.groups.values()} - {label}):
                continue  # what has parameters of its own is no advice
            found = over(by_data_set(saved(part, label)).values())
            known = found.seeds > 1
            yield Row(
                features=kind,
                condition=condition,
                method=label,
                saved=round(found.mean, 4),
                low=round(found.low, 4) if known else None,
                high=round(found.high, 4) if known else None,
                verdict=verdicts[label].verdict,
                data_sets=len(part.data_sets),
                settings=len(part.groups),
                worse=versus(part, label, RANDOM).count("worse"),
                seconds=round(mean(part.seconds(setting, label) for setting in part.groups), 4),
            )
