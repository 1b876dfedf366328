"""The contract of selection methods as a function: does a method do what every method must?"""

import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from poolwise.arrays import Array
from poolwise.errors import ContractError, ParameterError, PrefilterWarning, SaturationWarning
from poolwise.selection.registry import MethodLike, resolve
from poolwise.testing.method_rules import RULES, applies, explained
from poolwise.testing.subject import Broken, NoBatch, Subject

Parameters = Mapping[str, Any] | Callable[[Array], Mapping[str, Any]]


def check_method(
    method: MethodLike,
    *,
    parameters: Parameters | None = None,
    stochastic: bool | None = None,
    skip: Collection[str] = (),
) -> list[str]:
    """Check on many small pools that a selection method keeps the rules. Takes a few seconds.

    Run it in your tests. It raises a `ContractError` that names each broken rule, what was expected, what came and the
    usual cause. A rule that is broken for the same reason as another is not named. The rules, with the names that
    `skip` takes:

    - `valid_batch`: B different whole-number positions in `task.predictions`, with B finite scores.
    - `best_first`: scores do not rise from the first pick to the last (not for stochastic methods and
      greedy objectives).
    - `input_untouched`: predictions, embeddings, all that is known of labelled points, and the method's own parameters
      are as they were.
    - `same_seed`: the same seed gives the same batch.
    - `global_random_state`: the state of Python, NumPy and PyTorch is neither used nor changed.
    - `global_settings`: settings of the whole program, such as the default type of PyTorch, are left alone.
    - `other_seeds`: other seeds give other batches if the method is stochastic, and the same otherwise.
    - `input_kinds`: arrays, tensors, read-only and oddly strided memory give the same batch.
    - `needs`: inputs that are not among the method's `needs` can be missing, and change nothing.
    - `one_hot`: certain predictions, with log-probabilities of -inf, give finite scores.
    - `degenerate_pools`: so do uniform predictions, identical points, one sample, one class and the like.
    - `batch_sizes`: batches of one point and of all points work; a larger one is an error.
    - `pool_order`: the same points are picked from the pool in another order (not for stochastic methods).
    - `sample_order`, `class_order`: the order of posterior samples and of classes does not matter.
    - `labelled_order`: the order of the labelled points does not matter (if the method needs something of labelled
      points and is not stochastic).
    - `labelled_sets`: the method works whether nothing is labelled, one point, many, or one class only (if the method
      needs something of labelled points).
    - `block_size`: the memory budget, and with it the size of blocks, does not matter.
    - `threads`: the number of threads does not matter, and is left alone.
    - `candidates`, `exclusion`: with a part of the pool, the batch is that of this part alone, as positions in the
      whole pool.
    - `ties`: exact copies of points are picked alike whatever the block size.
    - `evaluation`: lazy and full evaluation make the same picks (if there is a parameter `evaluation`).

    Args:
        method: a name, a method, a function or a subclass of `GreedyObjective`: whatever `poolwise.select` takes.
        parameters: the method's own parameters to check it with; or a function that makes them from the `[N, K, C]`
            log-probabilities of a pool.
        stochastic: whether the seed changes the batch, for a function that was not registered with `poolwise.method`.
        skip: names of rules that do not apply to this method.
    Returns:
        The names of the rules that were checked.

    Example:
        >>> import poolwise as pw
        >>> "pool_order" in pw.testing.check_method("margin", skip=["threads"])
        True
        >>> def first(task):
        ...     return range(task.batch_size)
        >>> try:
        ...     pw.testing.check_method(first)
        ... except pw.errors.ContractError as error:
        ...     print(list(error.failures))
        ['pool_order']
    """
    unknown = [name for name in skip if name not in RULES]
    if unknown:
        raise ParameterError(f"there is no check {unknown[0]!r} to skip. The checks are: {', '.join(RULES)}.")
    found = resolve(method)
    if stochastic is not None:
        found = replace(found, stochastic=stochastic)
    subject = Subject(found, parameters if callable(parameters) else lambda x: dict(parameters or {}))
    names = [name for name in RULES if name not in skip and applies(name, found)]
    failures, reasons = dict[str, str](), dict[str, str]()
    also: dict[str, list[str]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SaturationWarning)
        warnings.simplefilter("ignore", PrefilterWarning)
        for name in names:
            if explained(name, failures):
                continue
            try:
                RULES[name](subject)
            except Broken as broken:
                cause = _reason(broken)
                if cause is None:
                    failures[name] = str(broken)
                elif "valid_batch" in failures:
                    continue
                elif cause in reasons:
                    also.setdefault(reasons[cause], []).append(name)
                else:
                    reasons[cause], failures[name] = name, str(broken)
            finally:
                subject.settings.put_back()
    for name, others in also.items():
        failures[name] += f" (For the same reason, no batch came in {', '.join(others)}.)"
    if failures:
        raise _contract_error(found.name, failures)
    return names


def _reason(broken: Broken) -> str | None:
    """Why no batch came, without the numbers that differ from pool to pool; or None if one came."""
    error: BaseException | None = broken
    while error is not None and not isinstance(error, NoBatch):
        error = error.__cause__
    return None if error is None else re.sub(r"\d+", "#", str(error))


def _contract_error(method: str, failures: dict[str, str]) -> ContractError:
    lines = "\n".join(f"- {name}: {message}" for name, message in failures.items())
    return ContractError(f"{method} breaks {len(failures)} of the rules for methods:\n{lines}", failures)
