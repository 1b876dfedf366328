"""A pilot: an experiment on the part of a user's data that is labelled, with settings that suit most data."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poolwise.arrays import Array
from poolwise.errors import ConfigError, FileError, ParameterError, PoolwiseError, StateError
from poolwise.experiments.config import Config
from poolwise.experiments.grid import runs_of
from poolwise.experiments.run import Change, Run, change
from poolwise.experiments.search import read_runs
from poolwise.selection import registry

BASELINE = "random"
RIVALS = ("margin", "posterior-coverage")
"""Simple methods that the default method is compared with, beside random."""

SEEDS = 5
"""Seeds by default. Fewer are quicker and seldom enough to tell."""

# Of the labelled examples: how many may be asked for, at most, and the fewest that a pilot makes sense with.
_SHARE, _LEAST = 0.5, 60
# Examples kept for testing.
_TEST_SHARE = 0.3
# Rounds that a run is cut into if no batch size is given.
_ROUNDS = 10

# Labels are no classes if there are more classes than this share of the labels; or if most classes have one example,
# and such examples are more than this share, since a few of them may be slips of a person.
_MANY_CLASSES, _MANY_SINGLE = 0.5, 0.1
# Numbers are suspected earlier: if there are more than a few, and more than this share of the labels. Whole numbers may
# be codes of classes, and if none is left out between them they most likely are.
_FEW_NUMBERS, _MANY_FRACTIONS, _MANY_WHOLE = 20, 0.1, 0.25

# Names that often stand for a label that is missing, in small letters, and how many classes a warning names.
_NO_CLASS = ("?", "-", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "unknown", "unlabelled", "unlabeled")
_SHOWN = 5


@dataclass(frozen=True)
class PilotData:
    """What a pilot needs to know of the data, and of how they would be labelled.

    Attributes:
        where: what errors call the data.
        total: how many examples there are.
        counts_C: `[C]` how many of them have a label, by class.
        class_names: the names of the classes.
        column: the column of labels, if the data are a table.
        unlabelled: how many examples have no label.
        first: how the first batch is chosen.
        default: the method and its parameters, where the user names none.
        data: the section `[data]` of the experiment, without the size of the test set.
        posterior: the section `[posterior]`.
    """

    where: str
    total: int
    counts_C: Array
    first: str
    default: Mapping[str, Any]
    data: Mapping[str, Any]
    posterior: Mapping[str, Any]
    class_names: Sequence[str] = ()
    column: str = ""
    unlabelled: int = 0

    def summary(self) -> str:
        """What was read, in a line."""
        known = int(self.counts_C.sum())
        test = round(_TEST_SHARE * known)
        return (
            f"Read {known:,} labelled examples of {int((self.counts_C > 0).sum()):,} classes, and {self.unlabelled:,} "
            f"without a label. Of the labelled, {test:,} are the test set and {known - test:,} the pool."
        )

    def doubts(self) -> list[str]:
        """What may be wrong with the classes, in words; a pilot can be run all the same."""
        counts = {name: int(n) for name, n in zip(self.class_names, self.counts_C, strict=True) if n}
        found = []
        single = [name for name, count in counts.items() if count == 1]
        if single:
            many = "1 class has" if len(single) == 1 else f"{len(single):,} classes have"
            found.append(
                f"{many} one example, which is in the test set or in the pool: {_few(single)}. Label more, or leave "
                "them out."
            )
        alike = defaultdict(list)
        for name in counts:
            alike[" ".join(name.split()).casefold()].append(name)
        for names in [names for names in alike.values() if len(names) > 1][:_SHOWN]:
            listed = " and ".join(f"{name!r} ({counts[name]:,})" for name in names)
            found.append(f"{listed} are different classes here. If they are one, write them in one way.")
        for name, count in counts.items():
            if name.strip().lower() in _NO_CLASS and not (name == "-" and "+" in counts):
                found.append(
                    f"{name!r} is a class here, with {_examples(count)}. If it says that a label is missing, leave the "
                    "label empty there."
                )
        return found


def pilot_config(
    of: PilotData,
    *,
    name: str = "pilot",
    methods: Sequence[str] = (),
    batch_size: int | None = None,
    labels: int | None = None,
    seeds: int = SEEDS,
) -> Config:
    """The experiment of a pilot.

    Labelled examples are split once, three tenths for testing. Runs begin without labels. Those of the baseline draw
    all their labels at random; the others begin with the first batch that a project would begin with.

    Args:
        of: the data, and how they would be labelled.
        name: what the experiment is called.
        methods: which methods to compare with random; the default method, margin and posterior-coverage if none are
            named.
        batch_size: labels per round; a tenth of what may be asked for by default, at most 50.
        labels: labels at the end of a run; half of the labelled examples by default, at most 500.
        seeds: how many runs of each method.
    """
    known = int(of.counts_C.sum())
    if known < _LEAST:
        raise ConfigError(
            f"{of.where}: {known:,} of its {of.total:,} examples have a label, and a pilot needs {_LEAST} or more. "
            "Label more of them at random first; or name the column of labels with label=."
        )
    check_classes(of.where, of.counts_C, of.class_names, of.column)
    if (of.counts_C > 0).sum() < 2:
        raise ConfigError(f"{of.where}: all labels are of one class. A pilot needs two classes or more.")
    pool = known - round(_TEST_SHARE * known)
    most = labels or max(20, min(500, int(_SHARE * known)))
    if most >= pool:
        raise ConfigError(f"labels={most}: {pool:,} examples are left beside those for testing. Lower it.")
    size = batch_size or max(1, min(50, most // _ROUNDS))
    if size >= most:
        raise ConfigError(f"batch_size={size}: a run ends with {most:,} labels, so it has no second batch. Lower it.")
    return Config.model_validate(
        {
            "name": name,
            "seeds": seeds,
            "data": {"test_share": _TEST_SHARE, **of.data},
            "model": {"name": "mlp"},
            "posterior": dict(of.posterior),
            "acquisition": {
                "methods": _methods(of, methods),
                "first": of.first,
                "batch_size": size,
                "labels": most,
            },
        }
    )


def check_classes(where: str, counts_C: Array, class_names: Sequence[str], column: str = "") -> None:
    """Refuse labels that cannot be classes: texts, ids, or numbers on a scale. Too few labels say nothing.

    Args:
        where: what errors call the data.
        counts_C: `[C]` how many examples have a label, by class.
        class_names: the names of the classes.
        column: the column of labels, if the data are a table.
    """
    known = int(counts_C.sum())
    if known < _LEAST:
        return
    used = np.flatnonzero(counts_C)
    classes, single = len(used), int((counts_C == 1).sum())
    scale = _on_a_scale([class_names[place] for place in used.tolist()], known)
    alone = single > classes / 2 and single > _MANY_SINGLE * known
    if not scale and not alone and classes <= _MANY_CLASSES * known:
        return
    have = f"{single:,} of which {'has' if single == 1 else 'have'} one example" if single else "all of them numbers"
    kind = "classes, not numbers on a scale" if scale else "classes with several examples each"
    other = f" If {column!r} is not the column of the classes, name the right one with label=." if column else ""
    raise ConfigError(f"{where}: {known:,} labels are of {classes:,} classes, {have}. A pilot needs {kind}.{other}")


def _on_a_scale(names: Sequence[str], known: int) -> bool:
    """Whether names of classes are rather measurements: many numbers, with fractions or gaps between them."""
    if len(names) <= _FEW_NUMBERS:
        return False
    try:
        values = np.array([float(name) for name in names])
    except ValueError:
        return False
    if not np.isfinite(values).all():
        return False
    if (values % 1 != 0).any():
        return len(names) > _MANY_FRACTIONS * known
    return len(names) > _MANY_WHOLE * known and np.ptp(values) >= len(names)


def check_unchanged(config: Config, folder: Path) -> None:
    """Refuse to add to the runs of other data or settings, in words that fit a pilot.

    Args:
        config: the experiment of the pilot.
        folder: where runs are kept.
    """
    changed = [(run, found) for run in runs_of(config, folder) if (found := _change(run)) is not None]
    if not changed:
        return
    run, found = changed[0]
    runs = "1 run" if len(changed) == 1 else f"{len(changed):,} runs"
    place = folder / config.name
    advice = f"Use another output folder (-o), or remove {place}."
    if found.name == "data.options.features" and Path(str(found.before)).name != Path(str(found.now)).name:
        raise StateError(
            f"{config.data.path}: the data, or the features made of them, have changed since {runs} in {place} "
            f"{'was' if len(changed) == 1 else 'were'} made. Runs on both cannot be compared. {advice}"
        )
    raise StateError(f"{place} has {runs} with other settings: {found} (in {run.folder}). {advice}")


def _change(run: Run) -> Change | None:
    with suppress(PoolwiseError):  # a damaged run is an error of its own
        return change(run)
    return None


def other_runs(folder: Path, asked: Iterable[Path]) -> str:
    """Finished runs in a folder that were not asked for, in words; empty if there are none.

    Args:
        folder: where the runs of a pilot are.
        asked: the folders of those that were asked for.
    """
    wanted = set(asked)

    def skip(damage: FileError) -> None:
        """Others may be damaged: they do not count."""

    runs = [run for group in read_runs(folder, skip).values() for run in group]
    found = Counter(run.label for run in runs if run.finished and run.folder not in wanted)
    if not found:
        return ""
    listed = ", ".join(f"{label} ({count:,} {'seed' if count == 1 else 'seeds'})" for label, count in found.items())
    return f"{folder} has other finished runs, which are kept and not counted: {listed}."


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(f"{name!r:.60}" for name in names[:_SHOWN]) + more


def _examples(count: int) -> str:
    return "1 example" if count == 1 else f"{count:,} examples"


def _methods(of: PilotData, wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Random, which is random from the first label on, and the methods to compare with it."""
    for name in wanted:
        try:
            registry.find(name).check({})
        except PoolwiseError as error:
            raise ParameterError(f"methods={name}: {error}") from error
    default = dict(of.default)
    default["name"] = default["label"] = default.pop("method")
    # By its name too, the default method is that of a project, with its parameters.
    named = [
        default if name == default["name"] else {"name": name} for name in dict.fromkeys(wanted) if name != BASELINE
    ]
    if wanted and not named:
        raise ParameterError(
            f"methods={BASELINE}: that is what methods are compared with, and it always runs. Name another method with "
            "methods=, or leave it out for the default ones."
        )
    chosen = named or [default, *({"name": name} for name in RIVALS)]
    return [{"name": BASELINE, "first": "random", "label": BASELINE}, *chosen]
