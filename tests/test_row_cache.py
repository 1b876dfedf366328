"""Rows that are kept in working form, with room for a few of them only."""

import numpy as np
import torch
from pools import pool

from poolwise.information.pairs import Deviations
from poolwise.predictions import Predictions
from poolwise.selection.row_cache import DeviationCache

N, K, C = 60, 3, 4


def _cache(rows: int) -> tuple[DeviationCache, Deviations]:
    predictions = Predictions.from_log_probs(pool(N, K, C, seed=2))
    everything = Deviations.of(predictions.rows(np.arange(N)).probs)
    cache = DeviationCache(predictions, rows * (predictions.row_bytes + C * 8))
    assert cache.limit == rows
    return cache, everything


def test_rows_are_right_however_often_others_made_room() -> None:
    cache, everything = _cache(12)
    random = np.random.default_rng(0)
    for _ in range(300):
        indices = random.integers(N, size=random.integers(1, 13))
        expected = everything.take(torch.from_numpy(indices))
        found = cache.take(indices)
        assert torch.equal(found.ratios, expected.ratios)
        assert torch.equal(found.means, expected.means)
        one = int(random.integers(N))
        slot = cache.slot(one)
        assert torch.equal(cache.store.ratios[slot], everything.ratios[one])
    assert len(cache.store) <= 12


def test_only_the_oldest_rows_make_room() -> None:
    cache, _ = _cache(10)
    cache.take(np.arange(10))
    cache.take(np.array([20, 21]))  # over 0 and 1
    assert cache.rows_read == 12
    cache.take(np.arange(2, 10))
    assert cache.rows_read == 12
    cache.take(np.array([0, 9]))  # over 2
    assert cache.rows_read == 13
