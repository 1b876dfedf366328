"""`bait`, `lcmd`, `falcun` and `gp-look-ahead`: against slow oracles, against others' code, and on bad input."""

import warnings

import numpy as np
import pytest
import rule_oracles as oracles
from pools import features, one_hot, pool, uniform
from scipy import stats

import poolwise as pw
from poolwise.errors import MissingInputError, NotEnoughMemoryError, ParameterError, PoolwiseError
from poolwise.selection.falcun import approach

pytestmark = pytest.mark.filterwarnings("ignore::poolwise.errors.SaturationWarning")

RULES = ["bait", "lcmd", "falcun", "gp-look-ahead"]
DETERMINISTIC = [name for name in RULES if name != "falcun"]


def select(x, size, method, *, D=6, **more):
    if method == "bait":
        more.setdefault("embeddings", features(len(x), D))
    return pw.select(x, size, method, information=False, **more)


def probs_of(x):
    return np.exp(np.asarray(x, np.float64))


# BAIT


@pytest.mark.parametrize("form", ["binary", "full"])
@pytest.mark.parametrize("L", [0, 1, 9, 60])
@pytest.mark.parametrize("oversampling", [1.0, 2.0, 2.5])
def test_bait_is_the_oracles(form, L, oversampling):
    x, h = pool(24, 3, 3, 1, dtype=np.float64), features(24, 4, 1)
    known, known_h = pool(L, 3, 3, 2, dtype=np.float64), features(L, 4, 2)
    picks, gains = oracles.bait_greedy(
        probs_of(x), h, 7, (probs_of(known), known_h), form, oversampling=oversampling, regularisation=0.3
    )
    batch = pw.select(
        x, 7, "bait", embeddings=h, labelled_embeddings=known_h, labelled_predictions=known if L else None, form=form,
        oversampling=oversampling, regularisation=0.3,
    )  # fmt: skip
    assert batch.indices.tolist() == picks
    np.testing.assert_allclose(batch.scores, gains, rtol=1e-8)


@pytest.mark.parametrize("regularisation", [1e-6, 1e-3, 1e4])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_bait_keeps_its_digits(regularisation, scale):
    """Up to fourteen orders of magnitude between what is labelled and what is not."""
    x, h = pool(20, 2, 3, 5, dtype=np.float64), features(20, 4, 5).astype(np.float64) * scale
    batch = pw.select(x, 12, "bait", embeddings=h, regularisation=regularisation, oversampling=1.0)
    for t, index in enumerate(batch.indices):
        gains = oracles.bait_gains(probs_of(x), h, batch.indices[:t].tolist(), regularisation)
        assert gains[index] >= (1 - 1e-6) * gains.max()
        assert batch.scores[t] == pytest.approx(gains[index], rel=1e-4)


def test_the_full_factors_are_the_fisher_information():
    x, h = pool(5, 3, 4, dtype=np.float64), features(5, 3).astype(np.float64)
    for point, row in zip(probs_of(x), h, strict=True):
        factor = oracles.fisher_factor(point, row, "full")
        np.testing.assert_allclose(factor.T @ factor, oracles.fisher_information(point, row), atol=1e-12)


def test_two_classes_binary_and_full_agree():
    """With two classes the rest is one class: both forms differ by a factor, which the regularisation absorbs."""
    x, h = pool(40, 3, 2, 3, dtype=np.float64), features(40, 5)
    one = pw.select(x, 8, "bait", embeddings=h, regularisation=1.0)
    two = pw.select(x, 8, "bait", embeddings=h, regularisation=2.0, form="full")
    assert one.indices.tolist() == two.indices.tolist()


@pytest.mark.parametrize("form", ["binary", "full"])
def test_more_features_than_points(form):
    """The features are replaced by coordinates in the space that they span."""
    x, h = pool(12, 2, 3, 4, dtype=np.float64), features(12, 40, 4)
    known, known_h = pool(5, 2, 3, 6, dtype=np.float64), features(5, 40, 6)
    picks, gains = oracles.bait_greedy(probs_of(x), h, 4, (probs_of(known), known_h), form)
    batch = pw.select(x, 4, "bait", embeddings=h, labelled_embeddings=known_h, labelled_predictions=known, form=form)
    assert batch.indices.tolist() == picks
    np.testing.assert_allclose(batch.scores, gains, rtol=1e-8)


def test_ten_thousand_columns():
    x, h = pool(50, 2, 3), features(50, 10_000)
    assert len(set(pw.select(x, 20, "bait", embeddings=h).indices)) == 20


def test_bait_on_mapped_features_larger_than_the_budget(tmp_path):
    x, h = pool(3000, 2, 3), features(3000, 300)
    np.save(tmp_path / "h.npy", h.astype(np.float16))
    mapped = np.load(tmp_path / "h.npy", mmap_mode="r")
    small = pw.select(x, 12, "bait", embeddings=mapped, memory="1MB")
    large = pw.select(x, 12, "bait", embeddings=h.astype(np.float16), memory="1GB")
    assert small.indices.tolist() == large.indices.tolist()
    np.testing.assert_allclose(small.scores, large.scores, rtol=1e-9)


def test_what_does_not_fit_the_budget_is_refused():
    x = pool(200, 2, 100)
    with pytest.raises(NotEnoughMemoryError, match='form="binary"'):
        pw.select(x, 3, "bait", embeddings=features(200, 190), form="full")
    with pytest.raises(NotEnoughMemoryError, match="fewer features"):
        pw.select(pool(3000, 1, 2), 3, "bait", embeddings=features(3000, 2500), memory="100MB")


@pytest.mark.parametrize(
    "wrong", [{"regularisation": 0.0}, {"regularisation": np.inf}, {"oversampling": 0.5}, {"form": "half"}]
)
def test_bait_refuses_wrong_parameters(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        select(pool(10, 2, 3), 2, "bait", **wrong)


def test_bait_needs_the_predictions_of_labelled_points():
    x = pool(10, 2, 3)
    with pytest.raises(MissingInputError, match="labelled_predictions"):
        select(x, 2, "bait", labelled_embeddings=features(3))
    with pytest.raises(MissingInputError, match="embeddings"):
        pw.select(x, 2, "bait")


def test_certain_points_have_no_information():
    x = pool(20, 2, 3)
    x[::2] = one_hot(np.zeros((10, 2), int), 3)
    batch = select(x, 10, "bait")
    assert sorted(batch.indices) == list(range(1, 20, 2))


# LCMD


@pytest.mark.parametrize("L", [0, 1, 7, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lcmd_is_the_oracles(L, dtype):
    x, known = pool(60, 4, 3, 1, dtype=dtype), pool(L, 4, 3, 2, dtype=dtype)
    picks, gains = oracles.lcmd_greedy(probs_of(x), 15, probs_of(known))
    batch = select(x, 15, "lcmd", labelled_predictions=known if L else None)
    assert batch.indices.tolist() == picks
    np.testing.assert_allclose(batch.scores, gains, rtol=1e-5)


def test_lcmd_does_not_pick_a_copy_of_what_is_labelled():
    x = pool(10, 3, 3)
    batch = select(x, 4, "lcmd", labelled_predictions=x[:6])
    assert sorted(batch.indices) == [6, 7, 8, 9]
    assert select(x, 1, "lcmd", labelled_predictions=x).diagnostics.saturated_at == 0


def test_lcmd_ties_go_to_the_lowest_index():
    """One-hot members: many distances are equal."""
    labels = np.array([[0, 0], [1, 0], [0, 1], [1, 0], [0, 1], [0, 0]])
    assert select(one_hot(labels, 2), 2, "lcmd").indices.tolist() == [1, 2]


# Falcun


def test_falcun_draws_by_its_relevance():
    """Frequencies of ordered pairs of picks against the oracle's probabilities."""
    x = pool(5, 2, 3, 2, scale=1.0, dtype=np.float64)
    expected = np.zeros((5, 5))
    first = oracles.falcun_relevance(probs_of(x), []) ** 3
    for i, weight in enumerate(first / first.sum()):
        second = oracles.falcun_relevance(probs_of(x), [i]) ** 3
        expected[i] = weight * second / second.sum()
    counts = np.zeros((5, 5))
    for seed in range(800):
        counts[tuple(select(x, 2, "falcun", seed=seed, gamma=3).indices)] += 1
    possible = expected > 0
    assert counts[~possible].sum() == 0
    assert stats.chisquare(counts[possible], 800 * expected[possible]).pvalue > 1e-3


def test_falcun_scores_are_the_relevance_of_each_pick():
    x = pool(80, 3, 4, 3, dtype=np.float64)
    batch = select(x, 20, "falcun", seed=3)
    for t, index in enumerate(batch.indices):
        relevance = oracles.falcun_relevance(probs_of(x), batch.indices[:t])
        assert batch.scores[t] == pytest.approx(relevance[index], rel=1e-9)


def test_distances_of_equal_points_stay_zero():
    np.testing.assert_array_equal(approach(np.ones(3), np.zeros(3)), np.zeros(3))


def test_falcun_with_a_large_power_takes_the_largest():
    x = pool(50, 2, 3, 8, dtype=np.float64)
    batch = select(x, 5, "falcun", gamma=1e6)
    picks = []
    for _ in range(5):
        picks.append(int(np.argmax(oracles.falcun_relevance(probs_of(x), picks))))
    assert batch.indices.tolist() == picks


# Looking ahead


@pytest.mark.parametrize("noise", [1e-4, 0.01, 1.0])
@pytest.mark.parametrize("given", [False, True])
def test_gp_look_ahead_is_the_oracles(noise, given):
    x, targets = pool(20, 4, 3, 1, dtype=np.float64), pool(9, 4, 3, 2, dtype=np.float64)
    picks, gains = oracles.gp_look_ahead_greedy(probs_of(x), 8, noise, probs_of(targets) if given else None)
    batch = select(x, 8, "gp-look-ahead", noise=noise, **({"targets": targets} if given else {}))
    assert batch.indices.tolist() == picks
    np.testing.assert_allclose(batch.scores, gains, rtol=1e-6)


def test_looking_ahead_prefers_a_point_that_speaks_for_many():
    """A lone point has the largest variance; the crowd shares its own."""
    spread = np.array([[0.9, 0.1], [0.1, 0.9]])
    lone = np.array([[0.95, 0.05], [0.95, 0.05]])
    x = np.log(
        np.array([[[0.99, 0.01], [0.01, 0.99], [0.5, 0.5]]] + [[*spread, [0.5, 0.5]]] * 8 + [[*lone, [0.9, 0.1]]])
    )
    x[0] = np.log([[0.5, 0.5], [0.995, 0.005], [0.005, 0.995]])
    assert select(x, 1, "gp-variance").indices.tolist() == [0]
    assert select(x, 1, "gp-look-ahead").indices.tolist() == [1]


# All of them on bad input

POOLS = {
    "one sample": pool(30, 1, 3),
    "two classes": pool(30, 4, 2),
    "one class": uniform(30, 3, 1),
    "certain": one_hot(np.random.default_rng(0).integers(0, 3, (30, 4)), 3),
    "all equal": np.repeat(pool(1, 3, 3), 30, 0),
    "uniform": uniform(30, 3, 3),
    "half precision": pool(30, 3, 3).astype(np.float16),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", POOLS)
def test_a_whole_pool_can_be_picked(rule, name):
    batch = select(POOLS[name], 30, rule)
    assert sorted(batch.indices) == list(range(30))
    assert np.isfinite(batch.scores).all()


@pytest.mark.parametrize("rule", DETERMINISTIC)
def test_equal_points_come_in_order(rule):
    embeddings = {"embeddings": np.ones((30, 2), np.float32)} if rule == "bait" else {}
    assert select(POOLS["all equal"], 6, rule, **embeddings).indices.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("rule", RULES)
def test_five_thousand_classes(rule):
    x = pool(40, 2, 5000)
    wide, narrow = (select(x, 5, rule, memory=memory) for memory in ("1GB", "100KB"))
    assert wide.indices.tolist() == narrow.indices.tolist()


@pytest.mark.parametrize("rule", ["bait", "lcmd"])
def test_more_labelled_points_than_pool(rule):
    x, known = pool(12, 3, 3), pool(200, 3, 3, 9)
    more = {"labelled_embeddings": features(200, 6, 9)} if rule == "bait" else {}
    assert sorted(select(x, 12, rule, labelled_predictions=known, **more).indices) == list(range(12))


@pytest.mark.parametrize("rule", RULES)
def test_nan_is_refused(rule):
    x = pool(10, 2, 3)
    x[4, 0, 0] = np.nan
    with pytest.raises(PoolwiseError, match="row 4"):
        select(x, 2, rule)


def test_nan_in_features_is_refused():
    h = features(10)
    h[3, 1] = np.nan
    with pytest.raises(PoolwiseError, match="embeddings"):
        pw.select(pool(10, 2, 3), 2, "bait", embeddings=h)


@pytest.mark.parametrize("form", ["binary", "full"])
@pytest.mark.parametrize("kind", ["zero", "one column", "half precision", "half zero"])
def test_odd_features(kind, form):
    x, h = pool(30, 2, 3), features(30, 1 if kind == "one column" else 6)
    h[: {"zero": 30, "half zero": 15}.get(kind, 0)] = 0.0
    h = h.astype(np.float16) if kind == "half precision" else h
    batch = pw.select(x, 10, "bait", embeddings=h, form=form)
    assert len(set(batch.indices)) == 10
    if kind == "half zero":
        assert batch.indices.min() >= 15


# Code that is not ours


class FixedPredictions:
    """A classifier for scikit-activeml whose predictions are given: the point is its own number."""

    @staticmethod
    def of(probs):
        from skactiveml.base import SkactivemlClassifier

        class Fixed(SkactivemlClassifier):
            def fit(self, X, y, sample_weight=None):
                self.classes_ = np.arange(probs.shape[1])
                return self

            def predict_proba(self, X):
                return probs[np.asarray(X[:, 0], int)].copy()

        return Fixed(classes=np.arange(probs.shape[1])).fit(None, None)


def test_falcun_draws_as_scikit_activeml_does():
    """The probabilities of its draws, after its own picks, against ours."""
    skactiveml = pytest.importorskip("skactiveml.pool", reason="scikit-activeml is not installed")
    x = pool(60, 1, 5, 4, dtype=np.float64)
    probs = probs_of(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers, unknown = np.arange(60.0)[:, None], np.full(60, np.nan)
        picks, chances = skactiveml.Falcun(random_state=0).query(
            numbers, unknown, FixedPredictions.of(probs[:, 0]), fit_clf=False, batch_size=12, return_utilities=True
        )
    for t in range(12):
        weights = oracles.falcun_relevance(probs, picks[:t]) ** 10
        np.testing.assert_allclose(np.nan_to_num(chances[t]), weights / weights.sum(), atol=1e-9)
