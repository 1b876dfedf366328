"""Learners on a few points in the plane, and all that can be seen of one."""

import numpy as np
import torch
from torch import nn

import poolwise as pw
from poolwise.posteriors import DeepEnsemble

TINY = pw.Training(steps=15, batch_size=16, learning_rate=0.05)


def points(n=60, seed=0):
    """Three classes in the plane, with a little noise in two more columns."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, 3, n)
    x = np.stack([np.cos(2.1 * y), np.sin(2.1 * y)], 1) + 0.6 * draw.normal(size=(n, 2))
    return torch.from_numpy(np.concatenate([x, draw.normal(size=(n, 2))], 1)).float(), y


X, Y = points()
TEST = points(40, 1)


def linear():
    return nn.Sequential(nn.Linear(4, 3))


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


def ensemble(**options):
    return DeepEnsemble(linear, 3, training=TINY, **options)


def started(per_class=2, seed=0, data=None):
    pool = pw.Pool((X, Y) if data is None else data)
    pool.start_balanced(per_class, seed)
    return pool


def learner(directory=None, posterior=None, pool=None, method="bald", batch_size=5, **options):
    return pw.ActiveLearner(
        posterior or ensemble(), started() if pool is None else pool, method, batch_size, directory, **options
    )


def plain(entry):
    """A round without its times."""
    values = entry.as_dict()
    values.pop("seconds")
    if values["diagnostics"]:
        values["diagnostics"].pop("seconds")
    return values


def history(learner):
    return [plain(entry) for entry in learner.rounds]


def picture(learner):
    """All that a learner knows."""
    pending = None if learner.pending is None else learner.pending.as_dict()
    return learner.pool.state(), [entry.as_dict() for entry in learner.rounds], pending, learner._now.trained
