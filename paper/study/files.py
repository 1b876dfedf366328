"""Which experiments were run, from their files and the records."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from paper.study.compare import Records
from poolwise.experiments import Config


@dataclass(frozen=True)
class Done:
    """How much of an experiment was run.

    Attributes:
        name: of the experiment, which is that of its file.
        runs: how many of its runs are recorded to their end.
        all_runs: how many its file asks for.
        seeds: for how many of its seeds all methods are.
        all_seeds: how many seeds its file asks for.
    """

    name: str
    runs: int
    all_runs: int
    seeds: int
    all_seeds: int


def what_was_run(configs: Iterable[Config], archives: Iterable[Records]) -> list[Done]:
    """Compare experiments with the records.

    Args:
        configs: the experiments.
        archives: all records; a run may be in any of them.
    """
    finished = {
        (setting.experiment, run.label, run.seed)
        for records in archives
        for setting, group in records.groups.items()
        for run in group.everything
        if run.finished
    }
    done = []
    for config in configs:
        methods = config.acquisition.methods
        runs = {seed: sum((config.name, m.label, seed) in finished for m in methods) for seed in config.seeds}
        seeds = sum(count == len(methods) for count in runs.values())
        done.append(Done(config.name, sum(runs.values()), len(runs) * len(methods), seeds, len(runs)))
    return done


def in_words(folders: Mapping[str, Sequence[Done]]) -> str:
    """A list with an entry for each folder of experiments: what was run, what in part, and what not."""
    return "\n".join(f"- `{folder}`: {_counted(done)}" for folder, done in folders.items())


def _counted(files: Sequence[Done]) -> str:
    """One sentence for each degree of completeness, the most complete first."""
    by_share: dict[str, list[str]] = {}
    for done in sorted(files, key=lambda done: -done.runs / done.all_runs):
        by_share.setdefault(_share(done), []).append(f"`{done.name}`")
    total = len(files)
    return " ".join(
        f"{len(names)} of {total} files {share}" + (f" ({', '.join(names)})." if len(names) < total else ".")
        for share, names in by_share.items()
    )


def _share(done: Done) -> str:
    if done.runs == done.all_runs:
        return "were run"
    if not done.runs:
        return "were not run"
    if done.runs * done.all_seeds == done.seeds * done.all_runs:
        return f"were run with {done.seeds} of {done.all_seeds} seeds"
    return f"were run in part, {done.runs} of {done.all_runs} runs"
