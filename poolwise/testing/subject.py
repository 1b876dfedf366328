"""What a rule for methods works with: the method under test, and how a rule says that it is broken."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch

from poolwise.arrays import Array
from poolwise.errors import BatchSizeError, MethodError, ParameterError
from poolwise.selection.batch import Batch
from poolwise.selection.registry import Method
from poolwise.selection.select import select
from poolwise.testing.pools import features, pool
from poolwise.user_code import told


class Broken(Exception):
    """A rule is broken; the message says how."""


class NoBatch(Broken):
    """The method raised, or what it returned is no batch."""


def expect(condition: object, message: str) -> None:
    """Break the rule unless a condition holds."""
    if not condition:
        raise Broken(message)


@dataclass(frozen=True)
class Settings:
    """Settings of the whole program that no method may change."""

    the_default_type_of_PyTorch: torch.dtype
    recording_of_gradients: bool
    treatment_of_errors_by_NumPy: dict[str, Any]

    @classmethod
    def now(cls) -> Self:
        """The settings as they are."""
        return cls(torch.get_default_dtype(), torch.is_grad_enabled(), dict(np.geterr()))

    def put_back(self) -> None:
        """Make these the settings again."""
        torch.set_default_dtype(self.the_default_type_of_PyTorch)
        torch.set_grad_enabled(self.recording_of_gradients)
        np.seterr(**self.treatment_of_errors_by_NumPy)


@dataclass(frozen=True)
class Subject:
    """The method under test, the parameters it is tested with, and the settings of the program before any test."""

    method: Method
    parameters: Callable[[Array], Mapping[str, Any]]
    settings: Settings = field(default_factory=Settings.now)

    def select(self, x: Any, size: int, like: Array | None = None, **options: Any) -> Batch:
        """A batch; embeddings, and what the method needs of labelled points, are always there.

        Args:
            x: the pool.
            size: how many points to pick.
            like: the pool that the method's parameters are made for, if that is another.
            options: for `poolwise.select`.
        """
        made = self.parameters(np.asarray(x) if like is None else like)
        given = {"embeddings": features(len(x)), **self.known(x, like), "information": False, **options}
        try:
            return select(x, size, self.method, **{**made, **given})
        except (MethodError, BatchSizeError, ParameterError) as error:
            raise NoBatch(str(error)) from error
        except Exception as error:  # whatever the method under test raises
            raise NoBatch(f"it raised {told(error)}.") from error

    def known(
        self, x: Any, like: Array | None = None, count: int = 9, needs: Collection[str] | None = None
    ) -> dict[str, Array]:
        """What is needed of labelled points, some of each class, by the name of the argument of `select`.

        Args:
            x: the pool.
            like: the pool that the method's parameters are made for, if that is another.
            count: how many points are labelled.
            needs: what is needed; by default what the method says it needs.
        """
        _, K, C = x.shape
        if needs is None:
            needs = self.method.inputs(self.parameters(np.asarray(x) if like is None else like))
        made = {
            "labelled_embeddings": features(count, seed=1),
            "labelled_predictions": pool(count, K, C, seed=1),
            "labels": np.arange(count) % C,
            "held_out_predictions": pool(count, K, C, seed=2),
            "held_out_labels": np.arange(count) % C,
        }
        return {name: value for name, value in made.items() if name in needs}


def expect_same(found: Batch, expected: Batch, rule: str, cause: str) -> None:
    """Both batches are the same points with the same scores, up to rounding."""
    expect_same_points(found.indices, expected.indices, rule, cause)
    differs = ~np.isclose(found.scores, expected.scores, rtol=1e-4, atol=2e-6)
    at = int(np.argmax(differs))
    expect(
        not differs.any(),
        f"{rule}, but the score of pick {at} is {found.scores[at]}, not {expected.scores[at]}. {cause}",
    )


def expect_same_points(found: Array, expected: Array, rule: str, cause: str) -> None:
    """Both batches are the same points, in the same order."""
    differs = found != expected
    at = int(np.argmax(differs))
    reordered = differs.any() and set(found.tolist()) == set(expected.tolist())
    what = "the same points come in another order: " if reordered else ""
    expect(not differs.any(), f"{rule}, but {what}pick {at} is point {found[at]}, not {expected[at]}. {cause}")
