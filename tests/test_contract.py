"""What every method owes its caller, over the whole registry: a method added later is covered as it is."""

import math
import typing

import numpy as np
import pytest
from cases import case
from pools import features, pool

import poolwise as pw
from poolwise import errors
from poolwise.selection.inputs import INPUTS
from poolwise.testing import check_method
from poolwise.testing.method_rules import RULES
from poolwise.testing.pools import degenerate

METHODS = pw.methods()
# Methods whose gains are information about the model, so that samples that agree leave nothing to gain.
INFORMATION = ["bald", "batchbald", "epig", "lbb", "power-bald", "power-lbb", "softmax-bald", "softrank-bald"]

# Rules for the methods that need something of labelled points.
LABELLED = {"labelled_order", "labelled_sets"}

every_method = pytest.mark.parametrize("method", METHODS)
pytestmark = pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")


def select(x, size, method, **options):
    """Select with embeddings, for the methods that want them."""
    given = {"embeddings": features(len(x)), **options}
    return pw.select(x, size, method, **given)


@pytest.fixture(scope="module")
def plain():
    return pool(120, 5, 4)


# The contract


TARGETED = [name for name, method in METHODS.items() if "targets" in method.parameters]


@pytest.mark.parametrize("method", [name for name in METHODS if name not in TARGETED])
def test_every_method_keeps_the_contract(method, global_state):
    options = {"configurations": 200} if "configurations" in METHODS[method].parameters else None
    checked = check_method(method, parameters=options)
    assert set(RULES) - set(checked) <= {"best_first", "pool_order", "evaluation", *LABELLED}


@pytest.mark.parametrize("method", TARGETED)
def test_methods_with_targets_keep_the_contract(method, global_state):
    """Targets that are not given are drawn from the whole pool by the seed; targets that are given leave no chance."""
    check_method(method, skip=["candidates", "exclusion"])
    checked = check_method(method, parameters=lambda x: {"targets": x[:20]}, stochastic=False)
    assert set(RULES) - set(checked) <= {"evaluation", *LABELLED}


def test_candidates_are_drawn_without_the_global_random_state(plain, global_state):
    select(plain, 10, "bald", candidates="80%")


# The result


@every_method
def test_a_batch_names_its_method(method, plain):
    batch = select(plain, np.int32(30), method)
    assert batch.method == method
    assert len(batch) == 30


@every_method
def test_diagnostics_are_there_and_within_bounds(method, plain):
    found = select(plain, 30, method).diagnostics
    assert found.ceiling == math.log(5)
    assert found.information.shape == (30,)
    assert (np.diff(found.information) >= 0).all()
    assert found.information[0] >= 0
    assert found.information[-1] <= math.log(5)
    assert found.considered == 120
    assert found.pairs >= 0
    assert found.rows >= 0
    assert found.seconds > 0
    assert found.saturated_at is None or 0 <= found.saturated_at < 30
    assert str(found)
    assert found.as_dict()["ceiling"] == found.ceiling
    assert select(plain, 5, method, information=False).diagnostics.information is None


@every_method
def test_read_only_and_strange_strides_give_the_same_batch(method, plain):
    expected = select(plain, 12, method).indices
    frozen = plain.copy()
    frozen.flags.writeable = False
    z = features(120)
    z.flags.writeable = False
    np.testing.assert_array_equal(select(frozen, 12, method, embeddings=z).indices, expected)
    np.testing.assert_array_equal(select(np.asfortranarray(plain), 12, method).indices, expected)
    backwards = plain[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1]
    np.testing.assert_array_equal(select(backwards, 12, method).indices, expected)


# Degenerate pools


@pytest.mark.parametrize("method", ["random", "lbb"])
def test_degenerate_pools_give_a_batch_with_its_information(method):
    """Which depends on the picks alone. `check_method` tries the same pools with every method, without it."""
    for kind, x in degenerate().items():
        with case(kind):
            batch = select(x, 24, method)
            assert sorted(batch.indices.tolist()) == list(range(24))
            assert np.isfinite(batch.scores).all()
            information = batch.diagnostics.information
            assert np.isfinite(information).all()
            assert information[-1] <= math.log(x.shape[1])


@every_method
def test_a_thousand_classes_give_a_whole_valid_batch(method):
    options = {"configurations": 2000} if "configurations" in METHODS[method].parameters else {}
    batch = select(pool(6, 3, 1000, scale=3.0), 4, method, **options)
    assert len(set(batch.indices.tolist())) == 4
    assert np.isfinite(batch.scores).all()
    assert batch.diagnostics.information[-1] <= math.log(3)


@every_method
def test_identical_embeddings_give_a_whole_valid_batch(method, plain):
    for z in (np.zeros((120, 3)), np.full((120, 3), 7.0)):
        batch = select(plain, 30, method, embeddings=z)
        assert len(set(batch.indices.tolist())) == 30
        assert np.isfinite(batch.scores).all()


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if "embeddings" in str(method.needs)])
@pytest.mark.parametrize("scale", [1e-12, 1e12, 1e25])
def test_embeddings_of_any_finite_scale_give_distinct_points(method, plain, scale):
    batch = select(plain, 30, method, embeddings=features(120) * scale)
    assert len(set(batch.indices.tolist())) == 30
    assert np.isfinite(batch.scores).all()


@pytest.mark.parametrize("method", INFORMATION)
def test_samples_that_agree_leave_no_information_and_say_so(method):
    x = np.repeat(pool(50, 1, 4), 7, 1)
    np.testing.assert_allclose(pw.scores.bald(x), 0, atol=1e-6)
    with pytest.warns(pw.SaturationWarning):
        batch = select(x, 10, method)
    assert batch.diagnostics.saturated_at == 0
    np.testing.assert_allclose(batch.scores, 0, atol=1e-5)
    np.testing.assert_allclose(batch.diagnostics.information, 0, atol=1e-6)


@pytest.mark.parametrize("method", ["gp-variance", "smocu", "posterior-coverage"])
@pytest.mark.parametrize("K", [3, 7, 10])
def test_samples_that_agree_leave_nothing_to_move_and_say_so(method, K):
    x = np.repeat(pool(50, 1, 4), K, 1)
    with pytest.warns(pw.SaturationWarning):
        batch = select(x, 10, method)
    assert batch.diagnostics.saturated_at == 0
    np.testing.assert_allclose(batch.scores, 0, atol=1e-6)


# Symmetries


def test_pool_order_does_not_matter_to_batchbald_while_it_is_exact():
    x = pool(200, 6, 4, scale=0.7)
    expected = pw.select(x, 5, "batchbald")
    order = np.random.default_rng(1).permutation(200)
    np.testing.assert_array_equal(order[pw.select(x[order], 5, "batchbald").indices], expected.indices)


@every_method
@pytest.mark.thorough
def test_memory_does_not_change_the_batch(method):
    """With many samples of few classes; `check_method` does the same with other shapes."""
    x = pool(120, 20, 2)
    options = {"configurations": 1000} if "configurations" in METHODS[method].parameters else {}
    expected = select(x, 20, method, seed=3, information=False, **options)
    for memory in ("50KB", "10KB", 1):  # blocks of 39 rows, of seven, and of one
        batch = select(x, 20, method, seed=3, information=False, memory=memory, **options)
        np.testing.assert_array_equal(batch.indices, expected.indices)
        np.testing.assert_allclose(batch.scores, expected.scores, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["least-confidence", "margin", "entropy", "bald", "lbb-released", "epig", "smocu"])
def test_equal_points_are_taken_in_order(method):
    """Copies of a point have the same score to the last bit, so the lowest index comes first."""
    x = np.tile(pool(100, 6, 5), (5, 1, 1))
    targets = {"targets": pool(20, 6, 5, seed=4)} if "targets" in METHODS[method].parameters else {}
    batch = pw.select(x, 500, method, information=False, **targets)
    for copies in batch.indices.reshape(100, 5):
        np.testing.assert_array_equal(copies, copies[0] + 100 * np.arange(5))


# Refusals


@every_method
def test_bad_batch_sizes_are_refused(method, plain):
    for size in (0, -1, 121, True, 3.0, 2.5, None, "3", [3]):
        with pytest.raises(errors.BatchSizeError):
            select(plain, size, method)


@every_method
def test_nan_anywhere_is_refused_and_the_row_named(method, plain):
    for row in (0, 60, 119):
        for value in (np.nan, np.inf):
            x = plain.copy()
            x[row, 2, 1] = value
            with pytest.raises(errors.NotFiniteError, match=rf"row {row}\b"):
                select(x, 5, method)


@every_method
def test_what_does_not_normalise_is_refused_and_the_row_named(method, plain):
    x = plain.copy()
    x[77] += 0.1
    with pytest.raises(errors.NotNormalisedError, match=r"row 77\b"):
        select(x, 5, method)
    with pytest.raises(errors.NotNormalisedError, match=r"row 0\b"):
        select(np.exp(plain), 5, method)


@every_method
def test_bad_seeds_are_refused(method, plain):
    for seed in (-1, 1.5, None, "0", True):
        with pytest.raises(errors.ParameterError, match="seed"):
            select(plain, 5, method, seed=seed)


@every_method
def test_unknown_parameters_are_refused_and_the_known_ones_named(method, plain):
    with pytest.raises(errors.ParameterError, match="colour") as caught:
        select(plain, 5, method, colour="blue")
    assert all(name in str(caught.value) for name in METHODS[method].parameters)


def test_unknown_methods_are_refused_and_the_known_ones_named(plain):
    with pytest.raises(errors.UnknownMethodError, match="bold") as caught:
        select(plain, 5, "bold")
    assert all(name in str(caught.value) for name in METHODS)


@pytest.mark.parametrize("memory", [0, -1, "much", "0", "1 XB", True, 1.5, None])
def test_bad_memory_budgets_are_refused(memory, plain):
    with pytest.raises(errors.ParameterError, match="memory"):
        select(plain, 5, "bald", memory=memory)


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if "embeddings" in method.needs])
def test_missing_embeddings_are_asked_for(method, plain):
    with pytest.raises(errors.MissingInputError, match="embeddings"):
        pw.select(plain, 5, method)


def test_every_refusal_is_a_value_error_with_a_cause_in_it():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.InputError)]
    assert len(kinds) > 8
    assert all(issubclass(kind, ValueError) and kind.__doc__ for kind in kinds)


# Parameters


def parameters():
    return [(name, parameter) for name, method in METHODS.items() for parameter in method.parameters]


def good_values(parameter):
    """A few values that the declaration of a parameter allows."""
    if parameter.choices:
        return list(parameter.choices)
    if parameter.annotation is int:
        return [parameter.default, 7, np.int64(7)]
    if parameter.name == "purity":
        return [parameter.default, 0.5, 1, np.float32(0.5)]
    if parameter.name == "radius":
        return [parameter.default, 0, 1.5, np.float32(2.5)]
    if parameter.annotation is float:
        return [parameter.default, 3, 2.5, np.float32(2.5)]
    if parameter.name == "reference":
        return [parameter.default, 50, np.array([1, 5, 7]), [0, 119]]
    if parameter.name == "targets":
        return [None, pool(9, 5, 4, seed=2), pw.Predictions.from_log_probs(pool(9, 5, 4, seed=2))]
    return [parameter.default]


def bad_values(parameter):
    if parameter.choices:
        return ["neither", 3, None, ["lazy"], True]
    if parameter.annotation is int:
        return [0, -1, "many", None, 2.5, True]
    if parameter.name == "radius":
        return [-1, math.nan, math.inf, "large", None, True]
    if parameter.annotation is float:
        return [0, -1.0, math.nan, math.inf, "large", None, True]
    if parameter.name == "reference":
        return [0, -1, True, [], [-1], [120], [1, 1], [0.5], "all"]
    if parameter.name == "targets":
        return [pool(9, 4, 4), pool(9, 5, 3), pool(9, 5, 4)[0], np.exp(pool(9, 5, 4)), np.full((2, 5, 4), np.nan), 3.0]
    return [typing.NamedTuple]


@pytest.mark.parametrize(("method", "name"), parameters())
def test_every_parameter_takes_what_it_declares(method, name, plain):
    for value in good_values(METHODS[method].parameters[name]):
        batch = select(plain, 6, method, **{name: value})
        assert len(set(batch.indices.tolist())) == 6
        assert np.isfinite(batch.scores).all()


@pytest.mark.parametrize(("method", "name"), parameters())
def test_every_parameter_refuses_what_it_cannot_use(method, name, plain):
    for value in bad_values(METHODS[method].parameters[name]):
        with pytest.raises(errors.InputError, match=r".{20}"):
            select(plain, 6, method, **{name: value})


@every_method
def test_every_method_and_parameter_is_documented(method):
    found = METHODS[method]
    assert found.name == method
    for text in (found.summary, found.formula, found.paper):
        assert len(text) > 10
    assert {need.partition(" if ")[0] for need in found.needs} <= {"predictions", *INPUTS}
    for name, parameter in found.parameters.items():
        assert parameter.name == name
        assert len(parameter.help) > 10
        assert not parameter.required
        assert parameter.check(parameter.default, method) == parameter.default
    assert found.function.__doc__
    assert found.reference == method


def test_the_methods_of_the_design_are_all_there():
    assert set(METHODS) >= {
        *("random", "least-confidence", "margin", "entropy", "bald", "batchbald", "lbb", "power-bald", "power-lbb"),
        *("softmax-bald", "softrank-bald", "lbb-released", "power-lbb-released", "epig", "smocu", "gp-variance"),
        *("posterior-coverage", "badge", "coreset", "cluster-margin"),
        *("k-means", "typiclust", "prob-cover", "drop-query"),
    }
    lbb, power = METHODS["lbb"].parameters, METHODS["power-lbb"].parameters
    assert lbb["redundancy"].choices == ("normalised", "max", "mean", "sum")
    assert lbb["redundancy"].default == power["redundancy"].default == "normalised"
    assert lbb["pairs"].choices == ("unordered", "ordered")
    assert power["alpha"].default == 1


def test_the_default_method_is_the_best_of_the_study(plain):
    assert pw.select(plain, 5).method == "posterior-coverage"


# Candidates


@every_method
def test_candidates_restrict_the_choice(method, plain):
    some = np.arange(3, 120, 4)
    # Targets drawn by default come from the whole pool, so they are given here to be the same in both calls.
    options = {"targets": plain[:20]} if "targets" in METHODS[method].parameters else {}
    batch = select(plain, 10, method, candidates=some, **options)
    assert set(batch.indices.tolist()) <= set(some.tolist())
    assert batch.diagnostics.considered == len(some)
    z = features(120)
    alone = pw.select(plain[some], 10, method, embeddings=z[some], **options)
    np.testing.assert_array_equal(batch.indices, some[alone.indices])
    np.testing.assert_array_equal(batch.scores, alone.scores)


SHARES = [("10%", 12), ("33.4%", 41), ("100%", 120), (25, 25), (np.int64(9), 9), (999, 120)]


@every_method
def test_a_share_or_number_of_candidates_is_drawn_from_the_seed(method, plain):
    for share, count in SHARES:
        with case(share):
            batches = [select(plain, 5, method, candidates=share, seed=4, information=False) for _ in range(2)]
            assert batches[0].diagnostics.considered == count
            np.testing.assert_array_equal(batches[0].indices, batches[1].indices)
            assert len(set(batches[0].indices.tolist())) == 5


def test_candidates_are_never_fewer_than_the_batch(plain):
    for candidates in ("1%", 3, "0.001%"):
        batch = select(plain, 20, "bald", candidates=candidates)
        assert batch.diagnostics.considered == 20
        assert len(batch.indices) == 20


def test_candidates_are_drawn_uniformly_and_differently_by_seed(plain):
    counts = np.zeros(120)
    for seed in range(300):
        counts[select(plain, 12, "bald", candidates=12, seed=seed, information=False).indices] += 1
    assert counts.min() > 0
    assert abs(counts - 30).max() < 6 * math.sqrt(30 * 0.9)


@pytest.mark.parametrize(
    "candidates",
    [
        *("ten", "10", "0%", "101%", "-5%", 0, -3, True, 0.5, {"a": 1}),
        *([], [1.0, 2.0], [[1, 2]], [1, 1, 2, 3, 4], [-1, 2, 3, 4, 5], [1, 2, 3, 4, 120]),
    ],
    ids=str,
)
def test_bad_candidates_are_refused(candidates, plain):
    with pytest.raises(errors.ParameterError, match="candidates"):
        select(plain, 4, "bald", candidates=candidates)


def test_too_few_named_candidates_are_refused(plain):
    with pytest.raises(errors.BatchSizeError):
        select(plain, 4, "bald", candidates=[1, 2, 3])


def test_reference_positions_are_positions_in_the_pool_with_candidates_too(plain):
    some, reference = np.arange(60, 120), np.array([3, 70])
    whole = pw.select(plain, 120, "lbb-released", reference=reference)
    part = pw.select(plain, 60, "lbb-released", reference=reference, candidates=some)
    scores = dict(zip(whole.indices.tolist(), whole.scores.tolist(), strict=True))
    np.testing.assert_allclose(part.scores, [scores[i] for i in part.indices.tolist()], rtol=1e-6)
