"""The contract of posteriors, as a function that tests any of them."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from poolwise.data.examples import Examples, as_examples, needed_labels
from poolwise.errors import ContractError
from poolwise.posteriors.protocol import Posterior
from poolwise.seeding import stream
from poolwise.testing.posterior_case import Case
from poolwise.testing.posterior_rules import CHECKS, explained
from poolwise.testing.random_states import states_put_back
from poolwise.testing.subject import Broken
from poolwise.user_code import told


def check_posterior(
    posterior: Posterior | Callable[[], Posterior],
    data: Any = None,
    *,
    skip: tuple[str, ...] = (),
    deterministic: bool = False,
) -> tuple[str, ...]:
    """Check that a posterior keeps the rules.

    Run it in your tests. It raises one `ContractError` that names the checks that failed, and what to do. A check that
    would fail for the same reason as another is not run. The checks:

    | name | what is tested |
    | --- | --- |
    | `protocol` | fit, predict, embed, state and load_state exist; `fit` returns the posterior |
    | `inputs` | the data is not changed |
    | `shapes` | predictions are `[N, K, C]`, for all examples and for one, with the same K and C |
    | `repeat` | a second call of `predict` gives the same |
    | `unlabelled` | data without labels, such as a pool, is predicted, and in the same way |
    | `normalised` | probabilities are finite, not negative, and sum to one over the classes |
    | `rows` | row i belongs to example i: in another order, the rows come in that order |
    | `consistency` | sample k of an example is the same alone and together with others |
    | `seeds` | the same seed gives the same predictions, another seed gives others |
    | `refit` | a second `fit` forgets the data of the first |
    | `separate` | fitting another posterior of the class changes nothing |
    | `embeddings` | `embed` and `predict(..., embeddings=True)` give the same, or both say that there are none |
    | `state` | a new posterior that loads the state, saved to a file, predicts the same |
    | `random-state` | the global random states of Python, NumPy and PyTorch are left alone |
    | `memory` | a small memory budget changes nothing but where predictions are kept |

    Args:
        posterior: a posterior, which is copied for each check and never changed; or a class or function that makes one.
        data: labelled data to test with, at least 12 examples; by default 60 random points of 3 classes, `[60, 6]`.
        skip: names of checks to leave out. `"refit"` is for posteriors that continue from the weights before.
        deterministic: whether fitting has no randomness, so that two seeds may give the same predictions.
    Returns:
        The names of the checks that were run; all have passed.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> from poolwise.testing import check_posterior
        >>> def predict(model, inputs):
        ...     logits = inputs @ model
        ...     return logits.transpose(1, 0, 2)
        >>> def fit(inputs, labels, seed):
        ...     return np.random.default_rng(seed).normal(size=(4, inputs.shape[1], labels.max() + 1))
        >>> len(check_posterior(pw.posteriors.from_callable(predict, fit=fit, outputs="logits")))
        15
    """
    makes = isinstance(posterior, type) or not hasattr(posterior, "predict")
    fresh: Any = posterior if makes else lambda: copy.deepcopy(posterior)
    if not callable(fresh):
        raise TypeError(f"check_posterior takes a posterior or a function that makes one, not {posterior!r}.")
    examples = _default() if data is None else as_examples(data)
    labels = needed_labels(examples, "check_posterior")
    if len(labels) < 12:
        raise ValueError(f"check_posterior needs at least 12 labelled examples, not {len(labels)}.")
    unknown = sorted(set(skip) - set(CHECKS))
    if unknown:
        raise ValueError(f"there is no check {unknown[0]!r}. The checks are: {', '.join(CHECKS)}.")
    case, run = Case.of(fresh, examples, deterministic), list[str]()
    failures: dict[str, str] = {}
    for name in CHECKS:
        if name in skip or explained(name, failures):
            continue
        run.append(name)
        failure = _failure(name, case)
        if failure is not None:
            failures[name] = failure
    if failures:
        name = getattr(posterior, "__name__", type(posterior).__name__)
        lines = "".join(f"\n- {check}: {failure}" for check, failure in failures.items())
        raise ContractError(f"{name} fails {len(failures)} of {len(run)} checks:{lines}", failures)
    return tuple(run)


def _failure(name: str, case: Case) -> str | None:
    """What a check has to say; the global random states are put back after it."""
    with states_put_back():
        try:
            CHECKS[name](case)
        except Broken as error:
            return str(error)
        except Exception as error:  # whatever foreign code raises is a failure of this check, not of the others
            return told(error)
    return None


def _default() -> Examples:
    """60 points of three classes around three centres."""
    draw, labels = stream(0, "check_posterior"), np.arange(60) % 3
    centres = draw.normal(size=(3, 6))  # classes that overlap, so that a wrong prediction shows
    return as_examples(((centres[labels] + draw.normal(size=(60, 6))).astype(np.float32), labels))
