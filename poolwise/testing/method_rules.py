"""The rules that every selection method keeps, each a function that raises if a method breaks it."""

import copy
import random
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.errors import BatchSizeError
from poolwise.predictions import Predictions
from poolwise.selection.inputs import INPUTS
from poolwise.selection.registry import Method
from poolwise.testing.pools import copies, degenerate, features, one_hot, pool
from poolwise.testing.random_states import states, states_put_back
from poolwise.testing.subject import Broken, NoBatch, Settings, Subject, expect, expect_same, expect_same_points

RULES: dict[str, Callable[[Subject], None]] = {}
"""The rules by name."""

# Rules that are checked even where no valid batch comes.
_ALWAYS = ("input_untouched", "global_random_state", "global_settings")
# Rules that compare no batches. All others fail where a batch changes from call to call.
_ONE_BATCH = ("valid_batch", "best_first", "one_hot", "degenerate_pools", "batch_sizes", "labelled_sets", *_ALWAYS)


def _rule(function: Callable[[Subject], None]) -> Callable[[Subject], None]:
    RULES[function.__name__.removeprefix("_")] = function
    return function


def applies(name: str, method: Method) -> bool:
    """Whether a rule is for a method."""
    if name.startswith("labelled") and not any("label" in need.partition(" if ")[0] for need in method.needs):
        return False
    if name == "best_first":  # objectives are picked from greedily, by code that takes the largest gain
        return not method.stochastic and not isinstance(method.function, type)
    if name in ("pool_order", "labelled_order"):
        return not method.stochastic
    return name != "evaluation" or "evaluation" in method.parameters


def explained(name: str, failed: Collection[str]) -> bool:
    """Whether a rule would be broken for the reason that others are, so that it has nothing to add."""
    if "valid_batch" in failed:
        return name not in _ALWAYS
    unsteady = {"input_untouched", "same_seed", "global_random_state"} & {*failed}
    return bool(unsteady) and name not in _ONE_BATCH


# The result


@_rule
def _valid_batch(subject: Subject) -> None:
    batch = subject.select(pool(120, 5, 4), 30)
    expect(batch.indices.shape == batch.scores.shape == (30,), "a batch of 30 must have 30 indices and 30 scores.")


@_rule
def _best_first(subject: Subject) -> None:
    scores = subject.select(pool(120, 5, 4), 30).scores
    rising = bool((np.diff(scores) >= 0).all()) and scores[-1] > scores[0]
    expect(
        not rising,
        f"the scores rise from the first pick ({scores[0]:.4g}) to the last ({scores[-1]:.4g}): the batch begins with "
        "the worst. Picks come best first: np.argsort(-scores)[:n], not np.argsort(scores)[-n:].",
    )


@_rule
def _input_untouched(subject: Subject) -> None:
    x, error = pool(120, 5, 4), None
    given = {"embeddings": features(120), **subject.known(x)}
    before = {"predictions": x.copy(), **{name: value.copy() for name, value in given.items()}}
    made = subject.parameters(x)
    own = {name: parameter.default for name, parameter in subject.method.parameters.items()} | {**made}
    own = {
        name: value for name, value in own.items() if isinstance(value, list | dict | set | np.ndarray | torch.Tensor)
    }
    own_before = copy.deepcopy(own)
    try:
        subject.select(x, 20, **given, **made)
    except NoBatch as no_batch:
        error = no_batch
    advice = "Write to copies only: of a block in task.scores, nothing but `probs` may be overwritten."
    for name, value in {"predictions": x, **given}.items():
        expect(np.array_equal(value, before[name]), f"the {name} of the caller were changed. {advice}")
    for name, parameter in own.items():
        expect(_equal(parameter, own_before[name]), f"the parameter {name} was changed. Write to a copy of it.")
    if error is not None:
        raise error


def _equal(first: Any, second: Any) -> bool:
    as_arrays = isinstance(first, np.ndarray | torch.Tensor)
    return np.array_equal(np.asarray(first), np.asarray(second)) if as_arrays else bool(first == second)


# Randomness, and what belongs to the whole program


@_rule
def _same_seed(subject: Subject) -> None:
    x = pool(120, 5, 4)
    first, second = (subject.select(x, 20, seed=11) for _ in range(2))
    cause = "Draw from task.generator(name) only, and keep nothing between calls."
    expect_same(second, first, "the same seed must give the same batch", cause)


@_rule
def _global_random_state(subject: Subject) -> None:
    x, batches = pool(120, 5, 4), []
    with states_put_back():
        for seed in (1, 2):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
            before = states()
            try:
                batches.append(subject.select(x, 10))
            finally:  # also if no batch came
                _expect_states(before)
    cause = "Draw from task.generator(name) instead."
    expect_same(batches[1], batches[0], "the global random state must not change the batch", cause)


def _expect_states(before: dict[str, Any]) -> None:
    for name, state in states().items():
        expect(
            state == before[name],
            f"the global random state of {name} was changed: it was seeded or drawn from. Draw from "
            "task.generator(name) instead.",
        )


@_rule
def _global_settings(subject: Subject) -> None:
    try:
        subject.select(pool(120, 5, 4), 10)
    finally:
        for name, value in vars(Settings.now()).items():
            expect(
                value == getattr(subject.settings, name),
                f"{name.replace('_', ' ')} was changed, for the whole program, to {value}. Leave it as it is.",
            )


@_rule
def _other_seeds(subject: Subject) -> None:
    x = pool(800, 5, 5, scale=1.0)  # more points than a method may draw of them
    first, *others = (subject.select(x, 25, seed=seed) for seed in range(4))
    if not subject.method.stochastic:
        cause = "If the method draws at random, declare it: stochastic=True."
        for other in others:
            expect_same(other, first, "the seed must not change the batch of a method that is not stochastic", cause)
        return
    changed = [not np.array_equal(other.indices, first.indices) for other in others]
    changed += [not np.array_equal(other.scores, first.scores) for other in others]
    expect(
        any(changed),
        "four seeds gave the same batch, though the method is declared stochastic. Draw from task.generator(name), "
        "which depends on the seed, or declare stochastic=False.",
    )


# Inputs of all kinds


@_rule
def _input_kinds(subject: Subject) -> None:
    x, frozen = pool(120, 5, 4), pool(120, 5, 4)
    frozen.flags.writeable = False
    kinds: dict[str, Any] = {
        "a read-only array": frozen,
        "an array in Fortran order": np.asfortranarray(x),
        "a tensor": torch.from_numpy(x.copy()),
        "a Predictions object": Predictions.from_log_probs(x.copy()),
    }
    expected = subject.select(x.copy(), 12)
    for kind, given in kinds.items():
        batch = subject.select(given, 12, like=x)
        expect_same(batch, expected, f"{kind} must give the batch of a plain array", "Read task.predictions only.")


@_rule
def _needs(subject: Subject) -> None:
    x = pool(120, 5, 4)
    needed = subject.method.inputs(subject.parameters(x))
    everything = {"embeddings": features(120), **subject.known(x, needs=INPUTS)}
    little = {name: value if name in needed else None for name, value in everything.items()}
    missing = ", ".join(name for name in INPUTS if name not in needed)
    declare = "Say what the method uses: needs=(...) of poolwise.method. A learner provides that and nothing else."
    try:
        expected = subject.select(x, 20, **little)
    except Broken as broken:
        raise Broken(f"without {missing}, which it does not say it needs: {broken} {declare}") from broken
    expect_same(
        subject.select(x, 20, **everything),
        expected,
        f"{missing} must not change the batch of a method that does not say it needs them",
        declare,
    )


@_rule
def _one_hot(subject: Subject) -> None:
    labels = np.random.default_rng(0).integers(0, 3, (60, 5))
    x = pool(60, 5, 3)
    x[::2] = one_hot(labels[::2], 3)
    for size in (1, 60):
        _select_from("certain predictions", subject, x, size, "Use 0 · log 0 = 0: log-probabilities may be -inf.")


@_rule
def _degenerate_pools(subject: Subject) -> None:
    for kind, x in degenerate().items():
        for size in (1, 9, len(x)):
            _select_from(kind, subject, x.copy(), size, "")


def _select_from(kind: str, subject: Subject, x: Array, size: int, advice: str) -> None:
    try:
        subject.select(x, size)
    except Broken as broken:
        raise Broken(f"{size} of {len(x)} points with {kind}: {broken} {advice}".rstrip()) from broken


@_rule
def _batch_sizes(subject: Subject) -> None:
    for N in (1, 2, 17):
        indices = subject.select(pool(N, 3, 3), N).indices
        expect(sorted(indices.tolist()) == list(range(N)), f"{N} of {N} points must be all of them, not {indices}.")
    try:
        subject.select(pool(5, 3, 3), 6)
    except Broken as broken:
        expect(isinstance(broken.__cause__, BatchSizeError), f"6 of 5 points must be a BatchSizeError: {broken}")
    else:
        raise Broken("6 of 5 points must be a BatchSizeError, but a batch came.")


# Symmetries


@_rule
def _pool_order(subject: Subject) -> None:
    x, z = pool(200, 6, 4), features(200)
    expected = subject.select(x, 20, embeddings=z)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(200)
        batch = subject.select(x[order], 20, like=x, embeddings=z[order])
        expect_same(
            replace(batch, indices=order[batch.indices]),
            expected,
            "the same points must be picked whatever the order of the pool",
            "Scores may depend on a point and on the picks, never on where a point stands.",
        )


@_rule
def _sample_order(subject: Subject) -> None:
    _compare_order(subject, 1, "posterior samples", "sample_order")


@_rule
def _class_order(subject: Subject) -> None:
    _compare_order(subject, 2, "classes", "class_order")


def _compare_order(subject: Subject, axis: int, what: str, name: str) -> None:
    x = pool(120, 5, 4)
    size = 1 if subject.method.stochastic else 20
    expected = subject.select(x, size)
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(x.shape[axis])
        known = subject.known(x)
        for name in ("labelled_predictions", "held_out_predictions"):
            if name in known:
                known[name] = np.ascontiguousarray(np.take(known[name], order, axis))
        for name in ("labels", "held_out_labels"):
            if name in known and axis == 2:
                known[name] = np.argsort(order)[known[name]]
        moved = np.ascontiguousarray(np.take(x, order, axis))
        rule = f"the order of the {what} must not matter"
        cause = f'Treat all {what} alike, or pass skip=["{name}"] if one of them is special on purpose.'
        expect_same(subject.select(moved, size, **known), expected, rule, cause)


# What is labelled already


@_rule
def _labelled_order(subject: Subject) -> None:
    x = pool(120, 5, 4)
    known = subject.known(x)
    expected = subject.select(x, 20, **known)
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(9)
        moved = {name: value[order] for name, value in known.items()}
        rule, cause = "the order of the labelled points must not matter", "Treat all labelled points alike."
        expect_same(subject.select(x, 20, **moved), expected, rule, cause)


@_rule
def _labelled_sets(subject: Subject) -> None:
    x = pool(60, 5, 4)
    full = subject.known(x)
    nothing = dict.fromkeys(full)
    cases: dict[str, dict[str, Any]] = {
        "nothing labelled": nothing,
        "one labelled point": subject.known(x, count=1),
        "more labelled points than others": subject.known(x, count=150),
    }
    if "labelled_embeddings" in full:
        cases["labelled copies of points"] = {**full, "labelled_embeddings": features(60)[:9]}
        cases["no labelled embeddings"] = {**nothing, "labelled_embeddings": features(0)}
    if "labels" in full:
        cases["labels of one class"] = {**full, "labels": np.zeros(9, np.int64)}
    if "held_out_labels" in full:
        nobody = {"held_out_predictions": pool(1, 5, 4)[:0], "held_out_labels": np.empty(0, np.int64)}
        cases["no labelled point held out"] = {**full, **nobody}
    for kind, known in cases.items():
        for size in (1, 60):
            try:
                subject.select(x, size, **known)
            except Broken as broken:
                raise Broken(f"{size} of 60 points with {kind}: {broken}") from broken


@_rule
def _block_size(subject: Subject) -> None:
    for shape in ((120, 6, 5), (120, 3, 11)):
        x = pool(*shape)
        expected = subject.select(x, 20)
        for memory in ("30KB", "9KB", 1):  # blocks of about fifteen rows, of four, and of one
            expect_same(
                subject.select(x, 20, memory=memory),
                expected,
                f"the memory budget must not change the batch (memory={memory!r})",
                "The score of a row in task.scores may depend on that row only: not on the other rows of its block, "
                "and not on task.memory.",
            )


@_rule
def _threads(subject: Subject) -> None:
    x, before = pool(400, 10, 10), torch.get_num_threads()
    try:
        batches = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            batches.append(subject.select(x, 12))
            expect(torch.get_num_threads() == threads, "the number of PyTorch threads was changed. Leave it alone.")
    finally:
        torch.set_num_threads(before)
    cause = "Blocks are worked on by several threads at a time: a kernel must not write to anything they share."
    expect_same(batches[1], batches[0], "the number of threads must not change the batch", cause)


# Parts of the pool

_SPACE = (
    "Return positions in task.predictions. Positions in the whole pool (task.pool, task.positions) are another space."
)


@_rule
def _candidates(subject: Subject) -> None:
    some = np.arange(3, 120, 4)
    _compare_part(subject, some, "candidates", candidates=some)


@_rule
def _exclusion(subject: Subject) -> None:
    taken = subject.select(pool(120, 5, 4), 10).indices
    left = np.setdiff1d(np.arange(120), taken)
    _compare_part(subject, left, "the points that are left after a first batch", exclude=taken)


def _compare_part(subject: Subject, some: Array, what: str, **options: Any) -> None:
    x, z = pool(120, 5, 4), features(120)
    try:
        batch = subject.select(x, 10, embeddings=z, **options)
    except Broken as broken:
        raise Broken(f"a choice from {what}: {broken} {_SPACE}") from broken
    outside = np.setdiff1d(batch.indices, some)
    expect(not len(outside), f"a choice from {what} must not pick others, such as {outside}. {_SPACE}")
    alone = subject.select(x[some], 10, like=x, embeddings=z[some])
    alone = replace(alone, indices=some[alone.indices])
    expect_same(batch, alone, f"a choice from {what} must be the batch of these points alone", _SPACE)


# Ties, and two ways to the same batch


@_rule
def _ties(subject: Subject) -> None:
    x, z = copies(40, 5), np.tile(features(40), (5, 1))
    expected = subject.select(x, 40, embeddings=z)
    for memory in ("30KB", "5KB"):
        batch = subject.select(x, 40, embeddings=z, memory=memory)
        rule = f"among exact copies of points, the memory budget must not change the picks (memory={memory!r})"
        cause = "Copies must get scores that are equal to the last bit, in whatever block they are."
        expect_same_points(batch.indices, expected.indices, rule, cause)


@_rule
def _evaluation(subject: Subject) -> None:
    certain = pool(90, 5, 4)
    certain[::3] = one_hot(np.random.default_rng(1).integers(0, 4, (30, 5)), 4)
    for x in (pool(300, 5, 4), copies(40, 5), certain):
        size = len(x) // 3
        lazy, full = (subject.select(x, size, evaluation=way) for way in ("lazy", "full"))
        cause = (
            "Lazy evaluation relies on three things: start() is no smaller than any gain; gains never grow as the "
            "batch grows, or shrinking = False; and gains(indices) of a point does not depend on the other indices."
        )
        expect_same(lazy, full, "lazy and full evaluation must make the same picks", cause)
