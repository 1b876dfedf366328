"""Rules about one batch: what it is made of, what it may draw from, and which inputs it must cope with."""

import copy
import random
from typing import Any

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.errors import BatchSizeError
from poolwise.predictions import Predictions
from poolwise.selection.batch import Batch
from poolwise.selection.inputs import INPUTS
from poolwise.testing import pools
from poolwise.testing.pools import features, pool
from poolwise.testing.random_states import states, states_put_back
from poolwise.testing.subject import Broken, NoBatch, Settings, Subject, expect, expect_same


def valid_batch(subject: Subject) -> None:
    """B different positions in `task.predictions`, with B finite scores."""
    batch = subject.select(pool(120, 5, 4), 30)
    expect(batch.indices.shape == batch.scores.shape == (30,), "a batch of 30 must have 30 indices and 30 scores.")


def best_first(subject: Subject) -> None:
    """Scores do not rise from the first pick to the last."""
    scores = subject.select(pool(120, 5, 4), 30).scores
    rising = bool((np.diff(scores) >= 0).all()) and scores[-1] > scores[0]
    expect(
        not rising,
        f"the scores rise from the first pick ({scores[0]:.4g}) to the last ({scores[-1]:.4g}): the batch begins with "
        "the worst. Picks come best first: np.argsort(-scores)[:n], not np.argsort(scores)[-n:].",
    )


def input_untouched(subject: Subject) -> None:
    """Predictions, embeddings, what is known of labelled points and the parameters are as they were."""
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
    if isinstance(first, np.ndarray | torch.Tensor):
        return isinstance(second, type(first)) and np.array_equal(np.asarray(first), np.asarray(second))
    if isinstance(first, dict | list | tuple) and isinstance(second, type(first)) and len(first) == len(second):
        if isinstance(first, dict):
            return all(name in second and _equal(value, second[name]) for name, value in first.items())
        return all(map(_equal, first, second))
    return bool(first == second)


# Randomness, and what belongs to the whole program


def same_seed(subject: Subject) -> None:
    """The same seed gives the same batch, whatever was selected in between."""
    x, cause = pool(120, 5, 4), "Draw from task.generator(name) only, and keep nothing between calls."
    first = subject.select(x, 20, seed=11)
    try:
        subject.select(pool(90, 4, 3, seed=1), 20, seed=11)
    except NoBatch as no_batch:
        raise Broken(f"after a pool of 120 points, no batch came from one of 90: {no_batch} {cause}") from no_batch
    second = subject.select(x, 20, seed=11)
    expect_same(second, first, "the same seed must give the same batch", cause)


def global_random_state(subject: Subject) -> None:
    """The random state of Python, NumPy and PyTorch is neither used nor changed."""
    batches = []
    with states_put_back():
        for seed in (1, 1, 2):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
            before = states()
            try:
                batches.append(subject.select(pool(120, 5, 4), 10))
            finally:  # also if no batch came
                _expect_states(before)
    first, again, other = batches
    if np.array_equal(first.indices, again.indices) and np.array_equal(first.scores, again.scores):
        cause = "Draw from task.generator(name) instead."
        expect_same(other, first, "the global random state must not change the batch", cause)


def _expect_states(before: dict[str, Any]) -> None:
    for name, state in states().items():
        expect(
            state == before[name],
            f"the global random state of {name} was changed: it was seeded or drawn from. Draw from "
            "task.generator(name) instead.",
        )


def global_settings(subject: Subject) -> None:
    """Settings of the whole program are left alone."""
    try:
        subject.select(pool(120, 5, 4), 10)
    finally:
        for name, value in vars(Settings.now()).items():
            expect(
                value == getattr(subject.settings, name),
                f"{name.replace('_', ' ')} was changed, for the whole program, to {value}. Leave it unchanged.",
            )


def other_seeds(subject: Subject) -> None:
    """Other seeds give other batches if the method is stochastic, and the same otherwise."""
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


def input_kinds(subject: Subject) -> None:
    """Arrays, tensors, read-only and oddly strided memory give the same batch."""
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


def needs(subject: Subject) -> None:
    """A batch comes without what the method does not say it needs, and is the same with it."""
    x = pool(120, 5, 4)
    needed = subject.method.inputs(subject.parameters(x))
    everything = {"embeddings": features(120), **subject.known(x, needs=INPUTS)}
    spare = [name for name in everything if name not in needed]
    little = {**everything, **dict.fromkeys(spare)}
    declare = "Say what the method uses: needs=(...) of poolwise.method. A learner provides that and nothing else."
    try:
        expected = subject.select(x, 20, **little)
    except Broken as broken:
        helpful = [name for name in spare if _batch(subject, x, {**little, name: everything[name]}) is not None]
        names = " or ".join(helpful or spare)
        raise Broken(f"without {names}, which it does not say it needs: {broken} {declare}") from broken
    full = subject.select(x, 20, **everything)
    alone = {name: _batch(subject, x, {**little, name: everything[name]}) for name in spare if full != expected}
    changing = [name for name, batch in alone.items() if batch is not None and batch != expected]
    expect_same(
        full,
        expected,
        f"{' and '.join(changing or spare)} must not change the batch of a method that does not say it needs them",
        declare,
    )


def _batch(subject: Subject, x: Array, given: dict[str, Any]) -> Batch | None:
    """The batch that comes with some inputs, or None if none does."""
    try:
        return subject.select(x, 20, **given)
    except Broken:
        return None


def one_hot(subject: Subject) -> None:
    """Certain predictions, with log-probabilities of -inf, give finite scores."""
    labels = np.random.default_rng(0).integers(0, 3, (60, 5))
    x = pool(60, 5, 3)
    x[::2] = pools.one_hot(labels[::2], 3)
    for size in (1, 60):
        _select_from("certain predictions", subject, x, size, "Use 0 · log 0 = 0: log-probabilities may be -inf.")


def degenerate_pools(subject: Subject) -> None:
    """So do pools in which little or nothing can be told apart."""
    for kind, x in pools.degenerate().items():
        for size in (1, 9, len(x)):
            _select_from(kind, subject, x.copy(), size, "")


def _select_from(kind: str, subject: Subject, x: Array, size: int, advice: str) -> None:
    try:
        subject.select(x, size)
    except Broken as broken:
        raise Broken(f"{size} of {len(x)} points with {kind}: {broken} {advice}".rstrip()) from broken


def batch_sizes(subject: Subject) -> None:
    """One point, all points; more points than there are is an error."""
    for N in (1, 2, 17):
        indices = subject.select(pool(N, 3, 3), N).indices
        expect(sorted(indices.tolist()) == list(range(N)), f"{N} of {N} points must be all of them, not {indices}.")
    try:
        subject.select(pool(5, 3, 3), 6)
    except Broken as broken:
        expect(isinstance(broken.__cause__, BatchSizeError), f"6 of 5 points must be a BatchSizeError: {broken}")
    else:
        raise Broken("6 of 5 points must be a BatchSizeError, but a batch came.")
