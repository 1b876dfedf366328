"""From the name of a figure or table to its files: run what is not run yet, then draw."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from paper import cost
from paper.experiments import Experiments, panel_title, recorded, run_experiment, runs_below
from paper.targets import Target
from poolwise.errors import MissingInputError
from poolwise.experiments import Config
from poolwise.experiments.grid import Show
from poolwise.experiments.records import RunRecord
from poolwise.reports.verdicts import counted
from poolwise.storage import make_folder

FOLDER = "results"
"""Folder for figures and tables, inside that of the runs."""


@dataclass
class Reproduction:
    """Figures and tables at one scale; an experiment that several figures share is run once.

    Attributes:
        experiments: where their experiments come from.
        output: folder for the runs.
        jobs: how many runs at a time.
        say: told what is done next, one line at a time.
        watch: shows the progress of one experiment.
        records: runs to draw, instead of running anything; None to run the experiments.
        problems: what went wrong, by experiment.
    """

    experiments: Experiments
    output: Path
    jobs: int
    say: Callable[[str], None]
    watch: Callable[[], AbstractContextManager[Show]]
    records: Sequence[RunRecord] | None = None
    problems: dict[str, str] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)

    def make(self, target: Target) -> list[Path]:
        """Run, or resume, what a figure or table needs; its files."""
        make_folder(self.output / FOLDER)  # fails before hours of runs, not after them
        return self._table(target) if target.kind == "table" else self._figure(target)

    def _table(self, target: Target) -> list[Path]:
        from paper import timings

        measure = {"table-1": timings.table_1, "table-2": timings.table_2}[target.name]
        self.say(f"{target.name}: {target.title}")
        return measure(self.output / FOLDER, self.experiments.scale, self.say)

    def _figure(self, target: Target) -> list[Path]:
        try:
            from paper.draw import Drawn, draw  # fails before hours of runs, not after them
        except ImportError as error:
            raise MissingInputError(
                f"figures need Matplotlib, which cannot be imported ({error}). Install it: pip install 'poolwise[plot]'"
            ) from error
        scale = self.experiments.scale
        configs = self.experiments.read(target.experiments(scale))
        left = dict.fromkeys(panel.title for panel in target.panels if panel.experiment(scale) is None)
        without = f"; {', '.join(left)}: only with --scale paper" if left else ""
        self.say(
            f"{target.name}: {target.title}; {counted(len(configs), 'experiment')}, "
            f"{counted(cost.runs(configs.values()), 'run')}{without}"
        )
        if self.records is None:
            for number, (name, config) in enumerate(configs.items(), 1):
                if name not in self._done:
                    self.say(f"{target.name}, experiment {number} of {len(configs)}: {name}")
                    self._run(name, config)
        panels = []
        for panel in target.panels:
            experiment = panel.experiment(scale)
            if experiment is None:
                continue
            config = configs[experiment]
            runs = runs_below(self.output / config.name) if self.records is None else self.records
            panels.append(Drawn(panel_title(panel, config), config.name, recorded(config, target, runs)))
        return draw(target, panels, self.output / FOLDER / f"{target.name}-{scale}")

    def _run(self, name: str, config: Config) -> None:
        with self.watch() as show:
            problem = run_experiment(config, self.output, self.jobs, show)
        self._done.add(name)
        if problem is not None:
            self.problems[name] = problem
