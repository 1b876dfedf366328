"""Which runs of a setting can be compared, and at which numbers of labels."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from poolwise.arrays import Array
from poolwise.experiments.records import RunRecord

BASELINE = "random"


@dataclass(frozen=True)
class Comparable:
    """Runs of one setting, cut down to what they have in common.

    If any run has finished, only finished ones are compared: a mean over the seeds that happen to have come far would
    change its meaning along the curve. While none has, all are compared as far as they go together.

    Attributes:
        everything: all runs of the setting.
    """

    everything: tuple[RunRecord, ...]

    @cached_property
    def runs(self) -> dict[str, dict[int, RunRecord]]:
        """The runs to compare, by label and seed."""
        finished = any(run.finished for run in self.everything)
        chosen = [run for run in self.everything if (run.finished if finished else run.rounds)]
        return {
            label: {run.seed: run for run in chosen if run.label == label}
            for label in dict.fromkeys(run.label for run in chosen)
        }

    @cached_property
    def unfinished(self) -> list[RunRecord]:
        """Runs that have not come to their end, whether they are compared or not."""
        return [run for run in self.everything if not run.finished]

    @cached_property
    def seen(self) -> list[int]:
        """Every number of labels at which any of the runs to compare was measured."""
        return sorted(set().union(*self._counts()))

    @cached_property
    def labelled(self) -> list[int]:
        """The numbers of labels at which all of them were."""
        counts = self._counts()
        return sorted(set.intersection(*counts)) if counts else []

    def _counts(self) -> list[set[int]]:
        # Before the first label there is no model, and nothing was measured.
        return [
            {round.labelled for round in run.rounds if round.metrics}
            for seeds in self.runs.values()
            for run in seeds.values()
        ]

    @cached_property
    def baseline(self) -> str | None:
        """The label of the runs that pick at random, or None."""
        labels = [label for label in self.runs if self.method(label) == BASELINE]
        return BASELINE if BASELINE in labels else next(iter(labels), None)

    @cached_property
    def metrics(self) -> list[str]:
        """The names of all metrics, in the order of the records."""
        rounds = (round for seeds in self.runs.values() for run in seeds.values() for round in run.rounds)
        return list(dict.fromkeys(name for round in rounds for name in round.metrics))

    def method(self, label: str) -> str:
        """The method behind a label."""
        return next(iter(self.runs[label].values())).method

    def values(self, label: str, metric: str) -> dict[int, Array]:
        """`[L]` values of a metric by seed, one for each number of labels that all runs share.

        NaN where there is none, and for infinities, from which no mean or difference could be formed either.
        """
        found = {}
        for seed, run in self.runs[label].items():
            metrics = {round.labelled: round.metrics for round in run.rounds}
            values_L = np.array([metrics[count].get(metric, np.nan) for count in self.labelled])
            found[seed] = np.where(np.isfinite(values_L), values_L, np.nan)
        return found
