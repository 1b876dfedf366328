"""`check_method` passes sound methods, and names what is wrong with broken ones."""

import random

import numpy as np
import pytest
import torch
from pools import pool

import poolwise as pw
from poolwise.errors import ContractError, ParameterError
from poolwise.testing import check_method
from poolwise.testing.method_rules import RULES

pytestmark = pytest.mark.filterwarnings("error")


def uncertainty(task):
    """A sound method: least confidence."""
    return task.scores(lambda block: 1 - block.probs.mean(1).amax(1))


def best(scores, count):
    return np.argsort(-np.asarray(scores), kind="stable")[:count]


# Broken methods, each with the rule that it breaks and a word of the message


def changes_its_input(task):
    return task.scores(lambda block: block.log_probs.mul_(1.5).amax((1, 2)))


def changes_the_embeddings(task):
    task.predictions.embeddings[0] += 1
    return uncertainty(task)


def returns_positions_in_the_pool(task):
    picks = best(uncertainty(task), task.batch_size)
    return picks if task.positions is None else task.positions[picks]


def scores_the_whole_pool(task):
    return best(pw.scores.margin(task.pool), task.batch_size)


def normalises_by_block(task):
    return task.scores(lambda block: block.probs.mean(1).amax(1) / block.probs.std())


def writes_down_the_block_it_sees(task):
    seen = []
    return task.scores(lambda block: seen.append(0) or block.probs.mean(1).amax(1) + len(seen))


def seeds_numpy(task):
    np.random.seed(0)  # noqa: NPY002
    return np.random.permutation(len(task.predictions))[: task.batch_size]  # noqa: NPY002


def seeds_python(task):
    random.seed(0)
    return uncertainty(task)


def seeds_torch(task):
    torch.manual_seed(0)
    return uncertainty(task)


def draws_from_torch(task):
    return torch.randperm(len(task.predictions))[: task.batch_size]


def gives_nan(task):
    scores = uncertainty(task)
    picks = best(scores, task.batch_size)
    return pw.Picks(picks, np.where(np.arange(len(picks)) == 2, np.nan, scores[picks]))


def gives_nan_on_certain_predictions(task):
    return task.scores(lambda block: -(block.probs.log() * block.probs).sum((1, 2)))


def repeats_itself(task):
    return np.zeros(task.batch_size, int)


def repeats_itself_on_ties(task):
    scores = uncertainty(task)
    return np.searchsorted(np.sort(scores), np.sort(scores)[-task.batch_size :])


def is_one_short(task):
    return best(uncertainty(task), task.batch_size)[:-1]


def is_out_of_range(task):
    return np.arange(task.batch_size) + len(task.predictions)


def ignores_its_seed(task):
    return np.random.default_rng(0).permutation(len(task.predictions))[: task.batch_size]


def has_no_seed(task):
    return np.random.default_rng().permutation(len(task.predictions))[: task.batch_size]


def hides_that_it_draws(task):
    return task.generator("mine").permutation(len(task.predictions))[: task.batch_size]


def takes_the_first(task):
    return np.arange(task.batch_size)


def favours_early_points(task):
    return uncertainty(task) - 0.01 * np.arange(len(task.predictions))


def likes_the_first_class(task):
    return task.scores(lambda block: block.probs[:, :, 0].mean(1))


def trusts_the_first_sample(task):
    return task.scores(lambda block: 1 - block.probs[:, 0].amax(1))


def crashes_with_one_sample(task):
    return task.scores(lambda block: (block.probs[:, 1:] - block.probs[:, :-1]).abs().amax((1, 2)))


def sets_the_number_of_threads(task):
    import poolwise.parallel

    poolwise.parallel._allowed = 3
    return uncertainty(task)


def begins_with_the_worst(task):
    scores = np.asarray(uncertainty(task))
    indices = np.argsort(scores)[-task.batch_size :]
    return pw.Picks(indices, scores[indices])


def needs_embeddings_and_does_not_say_so(task):
    return np.linalg.norm(task.predictions.embeddings, axis=1)


def looks_at_labels_that_it_did_not_ask_for(task):
    return uncertainty(task) if task.labels is None else -uncertainty(task)


def sets_the_default_type(task):
    torch.set_default_dtype(torch.float64)
    return uncertainty(task)


def changes_a_default(task, *, weights: list = [1.0]):  # noqa: B006
    weights.append(2.0)
    return uncertainty(task)


def returns_a_mask(task):
    scores = uncertainty(task)
    return np.isin(np.arange(len(scores)), best(scores, task.batch_size))


def returns_scores_as_whole_numbers(task):
    return (1e6 * np.asarray(uncertainty(task))).astype(int)


class OneShort(pw.GreedyObjective):
    """Forgets a point."""

    def start(self):
        self.value = np.asarray(uncertainty(self.task))
        return self.value[1:]

    def gains(self, indices):
        return self.value[indices]

    def add(self, index):
        pass


def returns_text(task):
    return "the best"


class Growing(pw.GreedyObjective):
    """Gains that grow, which lazy evaluation is not told."""

    def start(self):
        self.value = np.asarray(uncertainty(self.task))
        self.picks = 0
        return self.value / 100

    def gains(self, indices):
        return self.value[indices] * (1 + self.picks * (self.value[indices] < np.median(self.value)))

    def add(self, index):
        self.picks += 1


def returns_a_tuple(task):
    scores = uncertainty(task)
    picks = best(scores, task.batch_size)
    return picks, scores[picks]


def returns_positions_as_floats(task):
    return best(uncertainty(task), task.batch_size) * 1.0


def scores_each_class(task):
    return task.scores(lambda block: block.probs.mean(1))


def scores_in_a_list(task):
    return task.scores(lambda block: block.probs.amax((1, 2)).tolist())


def sorts_its_picks_by_position(task):
    return np.sort(best(uncertainty(task), task.batch_size))


def has_many_ties(task):
    return np.round(uncertainty(task), 2)


class Nothing(OneShort):
    """Forgets to return the first gains."""

    def start(self):
        self.value = np.asarray(uncertainty(self.task))


class WithoutSuper(OneShort):
    """Does not call the constructor of its base."""

    def __init__(self, task, *, weight: float = 1.0):
        self.weight = weight


MEMORY = {}


def remembers_the_first_pool(task):
    return MEMORY.setdefault("first", uncertainty(task))


BROKEN = [
    (returns_a_tuple, "valid_batch", "return Picks(indices, scores)"),
    (returns_positions_as_floats, "valid_batch", "as whole numbers: .astype(int)"),
    (scores_each_class, "valid_batch", "a tensor of shape [120], not [120, 4]"),
    (scores_in_a_list, "valid_batch", "a tensor of shape [120], not an object of type list"),
    (sorts_its_picks_by_position, "pool_order", "the same points come in another order"),
    (
        has_many_ties,
        "pool_order",
        'Their scores are equal. If many points have equal scores on purpose, pass skip=["po',
    ),
    (Nothing, "valid_batch", "Nothing.start() must return one number for each point, shape [120], not None"),
    (WithoutSuper, "valid_batch", "__init__ must begin with super().__init__(task)"),
    (likes_the_first_class, "class_order", 'skip=["class_order"]'),
    (trusts_the_first_sample, "sample_order", 'skip=["sample_order"]'),
    (needs_embeddings_and_does_not_say_so, "needs", "without embeddings, which it does not say it needs"),
    (looks_at_labels_that_it_did_not_ask_for, "needs", "labels must not change the batch"),
    (changes_its_input, "input_untouched", "predictions of the caller were changed"),
    (changes_the_embeddings, "input_untouched", "embeddings of the caller were changed"),
    (returns_positions_in_the_pool, "candidates", "positions in task.predictions"),
    (returns_positions_in_the_pool, "exclusion", "positions in task.predictions"),
    (scores_the_whole_pool, "candidates", "positions in task.predictions"),
    (scores_the_whole_pool, "exclusion", "positions in task.predictions"),
    (normalises_by_block, "block_size", "memory budget must not change"),
    (writes_down_the_block_it_sees, "block_size", "that row only"),
    (seeds_numpy, "global_random_state", "state of NumPy was changed"),
    (seeds_python, "global_random_state", "state of Python was changed"),
    (seeds_torch, "global_random_state", "state of PyTorch was changed"),
    (draws_from_torch, "global_random_state", "state of PyTorch was changed"),
    (gives_nan, "valid_batch", "score nan: scores must be finite"),
    (gives_nan_on_certain_predictions, "one_hot", "must be finite"),
    (repeats_itself, "valid_batch", "more than once"),
    (repeats_itself_on_ties, "ties", "more than once"),
    (is_one_short, "valid_batch", "asked for 30 points"),
    (is_out_of_range, "valid_batch", "positions in task.predictions"),
    (has_no_seed, "same_seed", "same seed must give the same batch"),
    (hides_that_it_draws, "other_seeds", "stochastic=True"),
    (takes_the_first, "pool_order", "whatever the order of the pool"),
    (favours_early_points, "pool_order", "whatever the order of the pool"),
    (likes_the_first_class, "class_order", "order of the classes"),
    (trusts_the_first_sample, "sample_order", "order of the posterior samples"),
    (crashes_with_one_sample, "degenerate_pools", "one sample: it raised IndexError"),
    (sets_the_number_of_threads, "threads", "number of PyTorch threads was changed"),
    (begins_with_the_worst, "best_first", "np.argsort(-scores)[:n]"),
    (needs_embeddings_and_does_not_say_so, "needs", "needs=(...)"),
    (looks_at_labels_that_it_did_not_ask_for, "needs", "must not change the batch"),
    (sets_the_default_type, "global_settings", "default type of PyTorch was changed"),
    (returns_text, "valid_batch", "A method returns Picks"),
    (changes_a_default, "input_untouched", "parameter weights was changed"),
    (returns_a_mask, "valid_batch", "np.flatnonzero(mask)"),
    (returns_scores_as_whole_numbers, "valid_batch", "If they are scores, return them as floats"),
    (OneShort, "valid_batch", "OneShort.start() must return one number for each point, shape [120]"),
    (Growing, "evaluation", "lazy and full evaluation"),
]


@pytest.mark.parametrize(("method", "rule", "says"), BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_a_broken_method_is_caught_with_the_right_message(method, rule, says):
    """By the rule that is for it; the tests below run all of them."""
    others = [name for name in RULES if name not in ("valid_batch", rule)]
    with pytest.raises(ContractError, match=method.__name__) as caught:
        check_method(method, skip=others)
    assert rule in caught.value.failures
    assert says in caught.value.failures[rule]
    assert f"- {rule}: " in str(caught.value)


def test_a_stochastic_method_that_ignores_its_seed_is_caught():
    with pytest.raises(ContractError, match="four seeds gave the same batch") as caught:
        check_method(ignores_its_seed, stochastic=True)
    assert list(caught.value.failures) == ["other_seeds"]


def test_a_sound_method_passes_every_rule(global_state):
    checked = check_method(uncertainty)
    assert checked == [name for name in RULES if name != "evaluation" and not name.startswith("labelled")]


def test_a_sound_method_breaks_nothing_that_it_is_not_blamed_for():
    """Only the broken rule is named, not its neighbours."""
    for method, rule in ((favours_early_points, "pool_order"), (hides_that_it_draws, "other_seeds")):
        with pytest.raises(ContractError) as caught:
            check_method(method, skip=["pool_order"] if rule != "pool_order" else ["candidates", "exclusion"])
        assert list(caught.value.failures) == [rule]


def test_what_another_rule_explains_is_not_named():
    """One cause, one message: what is drawn from the global state changes every comparison of two batches."""
    MEMORY.clear()
    for method, rules in (
        (draws_from_torch, ["same_seed", "global_random_state"]),
        (has_no_seed, ["same_seed"]),
        (changes_its_input, ["input_untouched"]),
        (changes_a_default, ["input_untouched"]),
        (writes_down_the_block_it_sees, ["block_size"]),
        (hides_that_it_draws, ["other_seeds"]),
        (returns_positions_in_the_pool, ["candidates"]),
        (Growing, ["evaluation"]),
        (repeats_itself, ["valid_batch"]),
        (sets_the_default_type, ["global_settings"]),
        (gives_nan_on_certain_predictions, ["one_hot"]),
        (remembers_the_first_pool, ["same_seed"]),
    ):
        with pytest.raises(ContractError) as caught:
            check_method(method)
        assert list(caught.value.failures) == rules
    assert torch.get_default_dtype() == torch.float32


def test_other_rules_without_a_batch_are_named_with_the_reason():
    with pytest.raises(ContractError, match=r"For the same reason, no batch came in degenerate_pools"):
        check_method(gives_nan_on_certain_predictions)
    MEMORY.clear()
    with pytest.raises(ContractError, match=r"after a pool of 120 points, .* keep nothing between calls"):
        check_method(remembers_the_first_pool)


def test_a_kernel_may_return_an_array():
    def with_arrays(task):
        return task.scores(lambda block: block.probs.mean(1).numpy().max(1))

    assert np.array_equal(
        pw.select(pool(50, 4, 3), 10, with_arrays).indices,
        pw.select(pool(50, 4, 3), 10, lambda task: -uncertainty(task)).indices,
    )


def test_sound_stochastic_methods_and_greedy_objectives_pass():
    @pw.method("testing-gumbel", stochastic=True)
    def gumbel(task):
        """Uncertainty with noise."""
        return uncertainty(task) + task.generator("noise").gumbel(size=len(task.predictions)) / 10

    class Spread(pw.GreedyObjective):
        """Far from the picks."""

        def start(self):
            rows = self.task.predictions.rows(np.arange(len(self.task.predictions)))
            self.mean = rows.probs.double().mean(1).sort(1).values.numpy()
            self.near = 2 - (self.mean**2).sum(1)
            return self.near

        def gains(self, indices):
            return self.near[indices]

        def add(self, index):
            self.near = np.minimum(self.near, np.abs(self.mean - self.mean[index]).sum(1))

    assert "pool_order" not in check_method(gumbel)
    assert "evaluation" in check_method(Spread)


def test_rules_can_be_skipped_and_parameters_given():
    def needs_more_than_one_sample(task, *, power: float):
        if task.predictions.shape[1] < 2:
            raise ValueError("one sample is too few")
        return uncertainty(task) ** power

    assert "degenerate_pools" not in check_method(
        needs_more_than_one_sample, parameters={"power": 2.0}, skip=["degenerate_pools"]
    )
    made = check_method(
        needs_more_than_one_sample, parameters=lambda x: {"power": x.shape[1] / 2.0}, skip={"degenerate_pools"}
    )
    assert "candidates" in made
    with pytest.raises(ContractError, match="needs the parameter power"):
        check_method(needs_more_than_one_sample)
    with pytest.raises(ParameterError, match="pool_order"):
        check_method("margin", skip=["order"])


def test_the_random_state_is_as_it_was_after_a_broken_method_too(global_state):
    with pytest.raises(ContractError):
        check_method(seeds_torch, skip=[name for name in RULES if name != "global_random_state"])


def test_an_error_is_an_assertion_error_for_test_runners():
    with pytest.raises(AssertionError, match="breaks 1 of the rules"):
        check_method(takes_the_first)
    assert pool(3, 2, 2).shape == (3, 2, 2)
