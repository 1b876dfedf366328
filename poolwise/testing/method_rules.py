"""The rules that every selection method keeps, by name: for which methods they are, and which explain others."""

from collections.abc import Callable, Collection

from poolwise.selection.registry import Method
from poolwise.testing import invariance_rules, result_rules
from poolwise.testing.subject import Subject

_FUNCTIONS: tuple[Callable[[Subject], None], ...] = (
    result_rules.valid_batch,
    result_rules.best_first,
    result_rules.input_untouched,
    result_rules.same_seed,
    result_rules.global_random_state,
    result_rules.global_settings,
    result_rules.other_seeds,
    result_rules.input_kinds,
    result_rules.needs,
    result_rules.one_hot,
    result_rules.degenerate_pools,
    result_rules.batch_sizes,
    invariance_rules.evaluation,
    invariance_rules.block_size,
    invariance_rules.threads,
    invariance_rules.pool_order,
    invariance_rules.sample_order,
    invariance_rules.class_order,
    invariance_rules.labelled_order,
    invariance_rules.labelled_sets,
    invariance_rules.candidates,
    invariance_rules.exclusion,
    invariance_rules.ties,
)

RULES: dict[str, Callable[[Subject], None]] = {function.__name__: function for function in _FUNCTIONS}
"""The rules by name, in the order in which they are checked. Each raises `Broken` if a method breaks it."""

# Rules that are checked even where no valid batch comes.
_ALWAYS = frozenset({"input_untouched", "global_random_state", "global_settings"})
# Rules that compare no batches.
_ONE_BATCH = _ALWAYS | {"valid_batch", "best_first", "one_hot", "degenerate_pools", "batch_sizes", "labelled_sets"}
# Rules that compare batches. They fail where a batch changes from call to call, or where lazy evaluation is wrong.
_COMPARING = frozenset(RULES) - _ONE_BATCH

# What each broken rule explains: these need not be checked any more.
_EXPLAINS: dict[str, frozenset[str]] = {
    "valid_batch": frozenset(RULES) - _ALWAYS,
    "input_untouched": _COMPARING,
    "same_seed": _COMPARING,
    "global_random_state": _COMPARING,
    "evaluation": _COMPARING,
    "other_seeds": frozenset({"pool_order"}),
    "block_size": frozenset({"threads", "pool_order", "candidates", "exclusion", "ties"}),
    "candidates": frozenset({"exclusion"}),
}


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
    return any(name in _EXPLAINS.get(other, ()) for other in failed)
