"""LBB with bounds from moments picks what full evaluation picks, on pools made to break it.

`POOLWISE_LONG=1` tries 300 pools instead of a few.
"""

import os
import warnings

import numpy as np
import pytest

import poolwise as pw
from poolwise.selection import bounded_redundancy, proposed_redundancy, raced_redundancy

LONG = os.environ.get("POOLWISE_LONG") == "1"
# Sizes around every change of form: K = 6 and 7 (fifth order), 11 and 12 (fourth), 32 and 33 classes (`I_ii` bounded).
SIZES = [
    (1, 10),
    (2, 2),
    (2, 1000),
    (3, 3),
    (5, 10),
    (5, 33),
    (5, 100),
    (5, 1000),
    (6, 40),
    (7, 34),
    (10, 10),
    (10, 32),
]
SIZES += [(11, 33), (12, 33), (13, 6), (20, 2), (20, 40)]
KINDS = (
    "one-hot",
    "identical members",
    "identical points",
    "near ties",
    "peaked",
    "flat",
    "random",
    "low rank",
    "mixed",
)


def adversarial(seed):
    """A pool `[N, K, C]` of log-probabilities, and a batch size."""
    draw = np.random.default_rng(seed)
    K, C = SIZES[seed % len(SIZES)]
    N = int(draw.integers(20, 24 if C >= 1000 else 60 if C >= 100 else 300))
    kind = KINDS[(seed // len(SIZES)) % len(KINDS)]
    spread = {"peaked": 12.0, "flat": 0.02}.get(kind, float(draw.choice([0.3, 1.0, 3.0])))
    logits = spread * draw.normal(size=(N, K, C)) + draw.choice([0.0, 2.0, 6.0]) * draw.normal(size=(N, 1, C))
    if kind == "low rank":
        logits = np.einsum("nd,kdc->nkc", draw.normal(size=(N, 3)), draw.normal(size=(K, 3, C)) * 2)
    if kind == "near ties":
        logits = logits[draw.integers(5, size=N)] + 1e-6 * draw.normal(size=(N, 1, 1)) * logits[:1]
    if kind == "identical points":
        logits = logits[draw.integers(7, size=N)]
    certain = np.where(np.arange(C) == logits.argmax(2)[:, :, None], 0.0, -np.inf)
    logits = logits - logits.max(2, keepdims=True)
    log_probs = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    odd_N = draw.random(N) < {"one-hot": 0.7, "identical members": 0.7, "mixed": 0.4}.get(kind, 0.1)
    one_hot_N = odd_N & (draw.random(N) < {"one-hot": 0.9, "identical members": 0.1}.get(kind, 0.5))
    log_probs[odd_N & ~one_hot_N] = log_probs[odd_N & ~one_hot_N][:, :1]
    log_probs[one_hot_N] = certain[one_hot_N]
    dtype = ("float64", "float32", "float16")[int(draw.integers(3))]
    if dtype == "float16":  # normalised as well as half precision can
        log_probs = np.maximum(log_probs, -1000.0)
    return log_probs.astype(dtype), int(draw.integers(2, 5 if C >= 1000 else min(N, 40)))


@pytest.mark.parametrize("seed", range(300 if LONG else 34))
def test_picks_are_those_of_full_evaluation(seed, monkeypatch):
    pool, batch = adversarial(seed)
    _, K, C = pool.shape
    draw = np.random.default_rng([seed, 1])
    monkeypatch.setattr(raced_redundancy, "_COMPILED", "not.there")
    monkeypatch.setattr(proposed_redundancy, "_COMPILED", "not.there")
    if seed % 5:  # with bounds even where they cost more than they save, of any order
        monkeypatch.setattr(bounded_redundancy, "pays", lambda K, C: K >= 2)
        highest = int(draw.integers(2, 6 if K <= 7 else 4))
        monkeypatch.setattr(bounded_redundancy, "order", lambda K, C: highest)
    if seed % 3 == 1:  # with every step taken in small pieces
        for name, value in {"_STEP": 3 * C * C, "_BOUNDS": 1, "_LEAST_TOGETHER": 2, "_INSERTED": 3}.items():
            monkeypatch.setattr(bounded_redundancy, name, value)
    if seed % 4 == 1:  # and pairs that count as dear, or as cheap
        monkeypatch.setattr(bounded_redundancy, "_CHEAP_SELF", int(draw.choice([0, 10**9])))
    memory = "1GB" if seed % 3 else int(draw.integers(8, 64)) * 4 * (K + 2) * C * 4
    redundancy = ("normalised", "max")[seed % 2]
    methods = (("lbb", {"redundancy": redundancy}), ("power-lbb", {"redundancy": redundancy}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pw.SaturationWarning)
        for method, parameters in methods if LONG else methods[seed % 3 == 0 :][:1]:
            lazy, full = (
                pw.select(
                    pool, batch, method, seed=seed, evaluation=evaluation, information=False, memory=m, **parameters
                )
                for evaluation, m in (("lazy", memory), ("full", "1GB"))
            )
            np.testing.assert_array_equal(lazy.indices, full.indices)
            np.testing.assert_allclose(lazy.scores, full.scores, atol=1e-5)


@pytest.mark.parametrize("seed", range(300 if LONG else 18))
def test_a_compiled_race_has_the_winners_of_full_evaluation(seed, monkeypatch):
    pytest.importorskip("numba")
    pool, batch = adversarial(seed)
    pool = pool.astype("float32" if pool.dtype == np.float64 else pool.dtype)
    _, K, C = pool.shape
    monkeypatch.setattr(bounded_redundancy, "pays", lambda K, C: K >= 2)
    monkeypatch.setattr(bounded_redundancy, "order", lambda K, C: 2)
    monkeypatch.setattr(raced_redundancy, "_MANY_PICKS", 0)
    if seed % 3 == 1:  # with few points looked at together
        monkeypatch.setattr(raced_redundancy, "_READ", 3)
    raced = []
    update = raced_redundancy.RacedRedundancy.update
    monkeypatch.setattr(
        raced_redundancy.RacedRedundancy, "update", lambda *args: (raced.append(args[1]), update(*args))[1]
    )
    memory = "1GB" if seed % 3 else int(np.random.default_rng([seed, 1]).integers(8, 64)) * 4 * (K + 2) * C * 4
    redundancy = ("normalised", "max")[seed % 2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pw.SaturationWarning)
        lazy, full = (
            pw.select(pool, batch, "lbb", evaluation=evaluation, information=False, memory=m, redundancy=redundancy)
            for evaluation, m in (("lazy", memory), ("full", "1GB"))
        )
    assert (len(raced) == 2 * batch) == (K >= 2)
    np.testing.assert_array_equal(lazy.indices, full.indices)
    np.testing.assert_allclose(lazy.scores, full.scores, atol=1e-5)


@pytest.mark.parametrize("seed", range(300 if LONG else 18))
def test_compiled_proposals_are_accepted_as_in_full_evaluation(seed, monkeypatch):
    pytest.importorskip("numba")
    pool, batch = adversarial(seed)
    pool = pool.astype("float32" if pool.dtype == np.float64 else pool.dtype)
    _, K, C = pool.shape
    draw = np.random.default_rng([seed, 1])
    highest = int(draw.integers(2, 6 if K <= 7 else 4))
    monkeypatch.setattr(bounded_redundancy, "pays", lambda K, C: K >= 2)
    monkeypatch.setattr(bounded_redundancy, "order", lambda K, C: highest)
    for name in ("_MANY_TERMS", "_SOME_TERMS"):
        monkeypatch.setattr(proposed_redundancy, name, 0)
    found = []
    accepted = proposed_redundancy.ProposedRedundancy.first_accepted
    monkeypatch.setattr(
        proposed_redundancy.ProposedRedundancy,
        "first_accepted",
        lambda *args: (found.append(accepted(*args)), found[-1])[1],
    )
    memory = "1GB" if seed % 3 else int(draw.integers(8, 64)) * 4 * (K + 2) * C * 4
    parameters = {"redundancy": ("normalised", "max")[seed % 2], "alpha": (1.0, 3.0)[seed % 4 == 3]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pw.SaturationWarning)
        lazy, full = (
            pw.select(
                pool, batch, "power-lbb", seed=seed, evaluation=evaluation, information=False, memory=m, **parameters
            )
            for evaluation, m in (("lazy", memory), ("full", "1GB"))
        )
    assert bool(found) == (K >= 2)
    np.testing.assert_array_equal(lazy.indices, full.indices)
    np.testing.assert_allclose(lazy.scores, full.scores, atol=1e-5)


def test_without_numba_many_picks_are_found_without_the_compiled_race(monkeypatch):
    pool, batch = adversarial(10)
    monkeypatch.setattr(raced_redundancy, "_MANY_PICKS", 0)
    found = []
    for name in (raced_redundancy._COMPILED, "not.there"):
        monkeypatch.setattr(raced_redundancy, "_COMPILED", name)
        found.append(pw.select(pool.astype("float32"), batch, "lbb", information=False))
    np.testing.assert_array_equal(found[0].indices, found[1].indices)


def test_lower_bounds_wait_for_the_information_of_a_point_with_itself(monkeypatch):
    # `I_ii` above 1, and bounds from below where pairs are cheap: an unscaled bound would be above the overlap.
    pool, batch = adversarial(28)
    monkeypatch.setattr(bounded_redundancy, "order", lambda K, C: 3)
    lazy, full = (
        pw.select(pool, batch, "power-lbb", seed=28, evaluation=evaluation, information=False)
        for evaluation in ("lazy", "full")
    )
    np.testing.assert_array_equal(lazy.indices, full.indices)


def test_bounds_are_used_where_moments_are_not_larger_than_pairs():
    assert bounded_redundancy.pays(5, 100)
    assert bounded_redundancy.pays(10, 10)
    assert not bounded_redundancy.pays(100, 10)
    assert not bounded_redundancy.pays(1, 100)
    assert [bounded_redundancy.order(5, C) for C in (10, 100)] == [2, 5]
