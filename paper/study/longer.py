"""The part of docs/results.md on longer curves: small and middle batches up to 500 labels and more."""

from collections.abc import Iterator

import numpy as np

from paper.study.claims import SCOPES, judged_claims, verdict_cell
from paper.study.claims_table import claims_table
from paper.study.compare import RANDOM, Records, answered, compare, seeds_of
from paper.study.judging import paired
from paper.study.markdown import listed, table
from paper.study.overall import Standing, columns, standing_table
from poolwise.experiments.records import Setting
from poolwise.reports.paired import Difference

POINTS = (100, 200, 300, 400, 500)
"""Numbers of labels at which methods are compared."""


def paired_runs(records: Records) -> Records:
    """The settings that have been run with all methods, or nothing while there are fewer than three data sets.

    Args:
        records: the runs of paper/configs/long.
    """
    kept = paired(records, records.labels)
    return kept if len(kept.data_sets) >= 3 else Records(())


def longer_curves(records: Records) -> str:
    """The section, or nothing while fewer than three data sets have been run.

    Args:
        records: the runs of paper/configs/long.
    """
    kept = paired_runs(records)
    if not kept.groups:
        return ""
    ends = sorted({group.labelled[-1] for group in kept.groups.values()})
    sizes = sorted({setting.batch_size for setting in kept.groups})
    standing = Standing(kept)
    return "\n\n".join(
        [
            "## Longer curves",
            f"Ensembles, as in the first table, but up to {listed(list(map(str, ends)))} labels, in batches of "
            f"{listed(list(map(str, sizes)))}: {len(kept.groups)} settings of {len(kept.data_sets)} data sets "
            f"({listed(kept.data_sets)}), {seeds_of(kept)[1]} per setting. `uherding` and `mutual-herding` get fixed "
            "features. Banking77, Fashion-MNIST and CIFAR-10 had a part in tuning `mutual-herding`, and "
            "Fashion-MNIST, MNIST and 20 Newsgroups in making `posterior-coverage`, so this is no judging of them.",
            standing_table(standing),
            columns(standing),
            "### Along the curve",
            "Points above random at several numbers of labels, with straight lines between the measurements. The "
            "unit is the data set, and verdicts are corrected for all methods of a column.",
            _along(kept, list(standing.saved)),
            *_claims(kept),
        ]
    )


def _claims(kept: Records) -> Iterator[str]:
    """The paper's claims on its own data, and on other data."""
    for scope, wanted in SCOPES.items():
        part = kept.where(wanted)
        if part.groups:
            yield f"### The paper's claims on longer curves: {scope}"
            yield claims_table(judged_claims(part))


def _along(records: Records, labels: list[str]) -> str:
    """Every method against random at each of `POINTS`."""
    columns = {count: answered({label: _at(records, label, count) for label in labels}) for count in POINTS}
    rows = [(f"`{label}`", *(verdict_cell(found[label]) for found in columns.values())) for label in labels]
    return table(("method", *(f"{count} labels" for count in columns)), rows)


def _at(records: Records, label: str, count: int) -> Difference:
    """A method less random at a number of labels, over the data sets."""
    reached = [s for s, group in records.groups.items() if group.labelled[0] <= count <= group.labelled[-1]]
    pairs = {s: (_accuracies(records, s, label, count), _accuracies(records, s, RANDOM, count)) for s in reached}
    return compare(pairs).over_data


def _accuracies(records: Records, setting: Setting, label: str, count: int) -> dict[int, float]:
    """Accuracy at a number of labels, by seed."""
    group = records.groups[setting]
    curves = group.values(label, "accuracy")
    return {seed: float(np.interp(count, group.labelled, values_L)) for seed, values_L in curves.items()}
