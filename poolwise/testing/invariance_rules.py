"""Rules about two batches that must be the same: of another order, another block size, a part of the pool."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.testing import pools
from poolwise.testing.pools import copies, features, pool
from poolwise.testing.subject import Broken, Subject, expect, expect_same, expect_same_points

# Orders


def pool_order(subject: Subject) -> None:
    """The same points are picked from the pool in another order."""
    x, z = pool(200, 6, 4), features(200)
    expected = subject.select(x, 20, embeddings=z)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(200)
        batch = subject.select(x[order], 20, like=x, embeddings=z[order])
        cause = "Scores may depend on a point and on the picks, never on its position or on earlier calls."
        batch = replace(batch, indices=order[batch.indices])
        at = int(np.argmax(batch.indices != expected.indices))
        tied = np.count_nonzero(expected.scores == expected.scores[at]) > 1 and expected.scores.any()
        if tied and batch.scores[at] == expected.scores[at]:
            cause = 'Their scores are equal. If many points have equal scores on purpose, pass skip=["pool_order"].'
        expect_same(batch, expected, "the same points must be picked whatever the order of the pool", cause)


def sample_order(subject: Subject) -> None:
    """The order of the posterior samples does not matter."""
    _compare_order(subject, 1, "posterior samples", "sample_order")


def class_order(subject: Subject) -> None:
    """The order of the classes does not matter."""
    _compare_order(subject, 2, "classes", "class_order")


def _compare_order(subject: Subject, axis: int, what: str, rule: str) -> None:
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
        cause = f'Treat all {what} alike, or pass skip=["{rule}"] if one of them is special on purpose.'
        expect_same(subject.select(moved, size, **known), expected, f"the order of the {what} must not matter", cause)


# What is labelled already


def labelled_order(subject: Subject) -> None:
    """The order of the labelled points does not matter."""
    x = pool(120, 5, 4)
    known = subject.known(x)
    expected = subject.select(x, 20, **known)
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(9)
        moved = {name: value[order] for name, value in known.items()}
        rule, cause = "the order of the labelled points must not matter", "Treat all labelled points alike."
        expect_same(subject.select(x, 20, **moved), expected, rule, cause)


def labelled_sets(subject: Subject) -> None:
    """A batch comes whether nothing is labelled, one point, many, or one class."""
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


def block_size(subject: Subject) -> None:
    """The memory budget, and with it the size of blocks, does not matter."""
    rule = "the memory budget must not change the batch"
    cause = (
        "The score of a row in task.scores may depend on that row only: not on the other rows of its block, and not on "
        "task.memory."
    )
    # Blocks of about fifteen rows, of four, and of one; the last take longest, so one of two pools is smaller for them.
    for shape, budgets in (
        ((120, 6, 5), ("30KB", "9KB", 1)),
        ((120, 3, 11), ("30KB", "9KB")),
        ((40, 3, 11), (1,)),
    ):
        x = pool(*shape)
        expected = subject.select(x, 20)
        for memory in budgets:
            expect_same(subject.select(x, 20, memory=memory), expected, f"{rule} (memory={memory!r})", cause)


def threads(subject: Subject) -> None:
    """The number of threads does not matter, and is left alone."""
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


def candidates(subject: Subject) -> None:
    """Candidates give the batch of these points alone, in positions of the whole pool."""
    some = np.arange(3, 120, 4)
    _compare_part(subject, some, "candidates", candidates=some)


def exclusion(subject: Subject) -> None:
    """So do the points that are left when some are excluded."""
    taken = subject.select(pool(120, 5, 4), 10).indices
    left = np.setdiff1d(np.arange(120), taken)
    _compare_part(subject, left, "the points that are left after a first batch", exclude=taken)


def _compare_part(subject: Subject, some: Array, what: str, **options: Any) -> None:
    x, z = pool(120, 5, 4), features(120)
    try:
        batch = subject.select(x, 10, embeddings=z, **options)
    except Broken as broken:
        advice = "" if "task.predictions" in str(broken) else f" {_SPACE}"
        raise Broken(f"a choice from {what}: {broken}{advice}") from broken
    outside = np.setdiff1d(batch.indices, some)
    expect(not len(outside), f"a choice from {what} must not pick others, such as {outside}. {_SPACE}")
    alone = subject.select(x[some], 10, like=x, embeddings=z[some])
    alone = replace(alone, indices=some[alone.indices])
    expect_same(batch, alone, f"a choice from {what} must be the batch of these points alone", _SPACE)


# Ties, and two ways to the same batch


def ties(subject: Subject) -> None:
    """Exact copies of points are picked alike whatever the block size."""
    x, z = copies(40, 5), np.tile(features(40), (5, 1))
    expected = subject.select(x, 40, embeddings=z)
    for memory in ("30KB", "5KB"):
        batch = subject.select(x, 40, embeddings=z, memory=memory)
        rule = f"among exact copies of points, the memory budget must not change the picks (memory={memory!r})"
        cause = "Copies must get scores that are equal to the last bit, in whatever block they are."
        expect_same_points(batch.indices, expected.indices, rule, cause)


def evaluation(subject: Subject) -> None:
    """Lazy and full evaluation make the same picks."""
    certain = pool(90, 5, 4)
    certain[::3] = pools.one_hot(np.random.default_rng(1).integers(0, 4, (30, 5)), 4)
    for x in (pool(300, 5, 4), copies(40, 5), certain):
        size = len(x) // 3
        lazy, full = (subject.select(x, size, evaluation=way) for way in ("lazy", "full"))
        cause = (
            "Lazy evaluation relies on three things: start() is no smaller than any gain; gains never grow as the "
            "batch grows, or shrinking = False; and gains(indices) of a point does not depend on the other indices."
        )
        expect_same(lazy, full, "lazy and full evaluation must make the same picks", cause)
