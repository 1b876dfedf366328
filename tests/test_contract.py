"""What every method owes its caller, over the whole registry: a method added later is covered as it is."""

import math
import random
import typing

import numpy as np
import pytest
import torch
from pools import features, one_hot, pool, uniform

import poolwise as pw
from poolwise import errors

METHODS = pw.methods()
EXACT = [name for name, method in METHODS.items() if not method.stochastic]
STOCHASTIC = [name for name, method in METHODS.items() if method.stochastic]
# Methods whose gains are information about the model, so that samples that agree leave nothing to gain.
INFORMATION = ["bald", "batchbald", "epig", "lbb", "power-bald", "power-lbb", "softmax-bald", "softrank-bald"]

every_method = pytest.mark.parametrize("method", METHODS)
pytestmark = pytest.mark.filterwarnings("ignore::poolwise.SaturationWarning")


def select(x, size, method, **options):
    """Select with embeddings, for the methods that want them."""
    given = {"embeddings": features(len(x)), **options}
    return pw.select(x, size, method, **given)


@pytest.fixture(scope="module")
def plain():
    return pool(120, 5, 4)


# The result


@every_method
def test_result_has_the_promised_shapes_types_and_valid_distinct_indices(method, plain):
    batch = select(plain, 30, method)
    assert batch.indices.dtype == np.int64
    assert batch.scores.dtype == np.float64
    assert batch.indices.shape == batch.scores.shape == (30,)
    assert len(set(batch.indices.tolist())) == 30
    assert 0 <= batch.indices.min() <= batch.indices.max() < 120
    assert np.isfinite(batch.scores).all()
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
def test_input_is_left_as_it_was(method, plain):
    z = features(120)
    x, copy, z_copy = plain.copy(), plain.copy(), z.copy()
    select(x, 20, method, embeddings=z)
    np.testing.assert_array_equal(x, copy)
    np.testing.assert_array_equal(z, z_copy)
    tensor = torch.from_numpy(x)
    select(tensor, 20, method, embeddings=torch.from_numpy(z))
    np.testing.assert_array_equal(tensor.numpy(), copy)
    np.testing.assert_array_equal(z, z_copy)


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


@every_method
def test_arrays_and_tensors_give_the_same_batch(method, plain):
    array = select(plain, 15, method)
    tensor = select(torch.from_numpy(plain), 15, method, embeddings=torch.from_numpy(features(120)))
    made = pw.select(pw.Predictions.from_log_probs(plain, embeddings=features(120)), 15, method)
    for other in (tensor, made):
        np.testing.assert_array_equal(other.indices, array.indices)
        np.testing.assert_array_equal(other.scores, array.scores)


# Degenerate pools


@every_method
@pytest.mark.parametrize(
    "x",
    [
        pytest.param(one_hot(np.random.default_rng(0).integers(0, 3, (40, 4)), 3), id="certain"),
        pytest.param(one_hot(np.zeros((40, 4), int), 3), id="certain of one class"),
        pytest.param(uniform(40, 4, 3), id="uniform"),
        pytest.param(np.repeat(pool(1, 4, 3), 40, 0), id="all points identical"),
        pytest.param(np.repeat(pool(40, 1, 3), 4, 1), id="all samples identical"),
        pytest.param(np.repeat(pool(8, 4, 3), 5, 0), id="five copies of each"),
        pytest.param(pool(40, 1, 3), id="one sample"),
        pytest.param(pool(40, 4, 1), id="one class"),
        pytest.param(pool(40, 4, 2), id="two classes"),
        pytest.param(pool(40, 70, 2, scale=0.01), id="weak samples"),
        pytest.param(pool(40, 4, 3, scale=60.0), id="nearly certain"),
        pytest.param(pool(40, 4, 3).astype(np.float16), id="float16"),
        pytest.param(pool(40, 4, 3, dtype=np.float64), id="float64"),
    ],
)
@pytest.mark.timeout(60)
def test_degenerate_pools_give_a_whole_valid_batch(method, x):
    for size in (1, 25, 40):
        batch = select(x, size, method)
        assert len(set(batch.indices.tolist())) == size
        assert set(batch.indices.tolist()) <= set(range(40))
        assert np.isfinite(batch.scores).all()
        information = batch.diagnostics.information
        assert np.isfinite(information).all()
        assert information[-1] <= math.log(x.shape[1])


@every_method
def test_a_thousand_classes_give_a_whole_valid_batch(method):
    options = {"configurations": 2000} if "configurations" in METHODS[method].parameters else {}
    for size in (1, 4, 6):
        batch = select(pool(6, 3, 1000, scale=3.0), size, method, **options)
        assert len(set(batch.indices.tolist())) == size
        assert np.isfinite(batch.scores).all()
        assert batch.diagnostics.information[-1] <= math.log(3)


@every_method
def test_identical_embeddings_give_a_whole_valid_batch(method, plain):
    for z in (np.zeros((120, 3)), np.full((120, 3), 7.0)):
        batch = select(plain, 30, method, embeddings=z)
        assert len(set(batch.indices.tolist())) == 30
        assert np.isfinite(batch.scores).all()


@every_method
@pytest.mark.parametrize("scale", [1e-12, 1e12, 1e25])
def test_embeddings_of_any_finite_scale_give_distinct_points(method, plain, scale):
    batch = select(plain, 30, method, embeddings=features(120) * scale)
    assert len(set(batch.indices.tolist())) == 30
    assert np.isfinite(batch.scores).all()


@every_method
def test_a_batch_as_large_as_the_pool_is_a_permutation(method):
    for N in (1, 2, 17):
        assert sorted(select(pool(N, 3, 3), N, method).indices.tolist()) == list(range(N))


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


@pytest.mark.parametrize("method", EXACT)
def test_pool_order_does_not_matter(method):
    x, z = pool(200, 6, 4), features(200)
    expected = pw.select(x, 20, method, embeddings=z)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(200)
        batch = pw.select(x[order], 20, method, embeddings=z[order])
        np.testing.assert_array_equal(order[batch.indices], expected.indices)
        np.testing.assert_allclose(batch.scores, expected.scores, rtol=1e-4, atol=1e-6)


def test_pool_order_does_not_matter_to_batchbald_while_it_is_exact():
    x = pool(200, 6, 4, scale=0.7)
    expected = pw.select(x, 5, "batchbald")
    order = np.random.default_rng(1).permutation(200)
    np.testing.assert_array_equal(order[pw.select(x[order], 5, "batchbald").indices], expected.indices)


@every_method
def test_order_of_samples_and_classes_does_not_matter(method, plain):
    """The scores of the whole pool, point by point, for all that do not draw; else of the first pick."""
    size = 1 if method in STOCHASTIC or METHODS[method].parameters.get("engine") else 120
    expected = select(plain, size, method, information=False)
    draw = np.random.default_rng(3)
    for axis in (1, 2):
        moved = np.take(plain, draw.permutation(plain.shape[axis]), axis)
        batch = select(moved, size, method, information=False)
        scores, other = np.zeros(120), np.zeros(120)
        scores[expected.indices], other[batch.indices] = expected.scores, batch.scores
        np.testing.assert_allclose(other, scores, rtol=1e-4, atol=2e-6)


@every_method
@pytest.mark.parametrize("shape", [(200, 6, 5), (200, 20, 2), (200, 3, 11)], ids=str)
def test_memory_does_not_change_the_batch(method, shape):
    x = pool(*shape)
    options = {"configurations": 1000} if "configurations" in METHODS[method].parameters else {}
    expected = select(x, 30, method, seed=3, information=False, **options)
    for memory in ("200KB", "10KB", "1KB", 1):
        batch = select(x, 30, method, seed=3, information=False, memory=memory, **options)
        np.testing.assert_array_equal(batch.indices, expected.indices)
        np.testing.assert_allclose(batch.scores, expected.scores, rtol=1e-5, atol=1e-6)


@every_method
def test_memory_does_not_change_the_batch_of_a_pool_full_of_ties(method):
    x = np.tile(pool(100, 6, 5), (5, 1, 1))
    z = np.tile(features(100), (5, 1))
    expected = select(x, 60, method, embeddings=z, information=False)
    for memory in ("30KB", "5KB"):
        batch = select(x, 60, method, embeddings=z, information=False, memory=memory)
        np.testing.assert_array_equal(batch.indices, expected.indices)


@pytest.mark.parametrize("method", ["least-confidence", "margin", "entropy", "bald", "lbb-released", "epig", "smocu"])
def test_equal_points_are_taken_in_order(method):
    """Copies of a point have the same score to the last bit, so the lowest index comes first."""
    x = np.tile(pool(100, 6, 5), (5, 1, 1))
    targets = {"targets": pool(20, 6, 5, seed=4)} if "targets" in METHODS[method].parameters else {}
    batch = pw.select(x, 500, method, information=False, **targets)
    for copies in batch.indices.reshape(100, 5):
        np.testing.assert_array_equal(copies, copies[0] + 100 * np.arange(5))


@every_method
def test_threads_do_not_change_the_batch(method):
    x = pool(400, 10, 10)
    batches = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        batches.append(select(x, 12, method, seed=1, information=False))
        assert torch.get_num_threads() == threads, "the caller's setting is left alone"
    np.testing.assert_array_equal(batches[0].indices, batches[1].indices)
    np.testing.assert_allclose(batches[0].scores, batches[1].scores, rtol=1e-5, atol=1e-6)


# Randomness


@every_method
def test_the_same_seed_gives_the_same_batch(method, plain):
    first, second = (select(plain, 20, method, seed=11) for _ in range(2))
    np.testing.assert_array_equal(first.indices, second.indices)
    np.testing.assert_array_equal(first.scores, second.scores)
    np.testing.assert_array_equal(first.diagnostics.information, second.diagnostics.information)


@pytest.mark.parametrize("method", STOCHASTIC)
def test_other_seeds_give_other_batches(method):
    x = pool(800, 5, 10, scale=1.0)
    found = [select(x, 60, method, seed=seed, information=False) for seed in range(4)]
    different = [not np.array_equal(found[0].indices, other.indices) for other in found[1:]]
    different += [not np.array_equal(found[0].scores, other.scores) for other in found[1:]]
    assert any(different)


@pytest.mark.parametrize("method", EXACT)
def test_the_seed_does_not_matter_to_methods_that_do_not_draw(method, plain):
    first, second = (select(plain, 20, method, seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(first.indices, second.indices)


@every_method
def test_global_random_state_is_neither_used_nor_changed(method, plain):
    batches = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
        batches.append(select(plain, 10, method, candidates="80%").indices)
        after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
        assert before == after
    np.testing.assert_array_equal(*batches)


# Refusals


@every_method
@pytest.mark.parametrize("size", [0, -1, 121, True, 3.0, 2.5, None, "3", [3]])
def test_bad_batch_sizes_are_refused(method, size, plain):
    with pytest.raises(errors.BatchSizeError):
        select(plain, size, method)


@every_method
def test_a_batch_size_may_be_any_kind_of_whole_number(method, plain):
    assert len(select(plain, np.int32(4), method).indices) == 4


@every_method
@pytest.mark.parametrize("row", [0, 60, 119])
def test_nan_anywhere_is_refused_and_the_row_named(method, row, plain):
    x = plain.copy()
    x[row, 2, 1] = np.nan
    with pytest.raises(errors.NotFiniteError, match=rf"row {row}\b"):
        select(x, 5, method)
    x[row, 2, 1] = np.inf
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
@pytest.mark.parametrize("seed", [-1, 1.5, None, "0", True])
def test_bad_seeds_are_refused(method, seed, plain):
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
    assert set(found.needs) <= {"predictions", "embeddings"}
    for name, parameter in found.parameters.items():
        assert parameter.name == name
        assert len(parameter.help) > 10
        assert parameter.default is not parameter
    assert found.run.__doc__


def test_the_methods_of_the_design_are_all_there():
    assert set(METHODS) >= {
        *("random", "least-confidence", "margin", "entropy", "bald", "batchbald", "lbb", "power-bald", "power-lbb"),
        *("softmax-bald", "softrank-bald", "lbb-released", "power-lbb-released", "epig", "smocu", "gp-variance"),
        *("posterior-coverage", "badge", "coreset", "cluster-margin"),
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


@every_method
@pytest.mark.parametrize(
    ("share", "count"), [("10%", 12), ("33.4%", 41), ("100%", 120), (25, 25), (np.int64(9), 9), (999, 120)]
)
def test_a_share_or_number_of_candidates_is_drawn_from_the_seed(method, share, count, plain):
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
