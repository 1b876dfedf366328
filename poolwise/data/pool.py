"""The pool: which examples are labelled, which are not, which cannot be, and which are held out for validation.

Examples have a position in the data, and an id if the user has names for them. Classes have a number, and a name if the
user has names for them. This object alone translates between these, and between positions in the data and positions
among the unlabelled examples, which is what a selection method sees.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from poolwise.arrays import Array, Values
from poolwise.data.examples import EncodedBy, Subset, needed_labels
from poolwise.data.pool_names import PoolNames
from poolwise.errors import LabelError, ParameterError, StateError
from poolwise.seeding import stream

if TYPE_CHECKING:
    from poolwise.data.batches import Data
    from poolwise.data.opening import OpenedData


class Pool(PoolNames):
    """Examples, the labels known so far, and the examples held out for validation.

    Where a method takes `indices`, whole numbers are positions in the data and texts are ids. If the ids are whole
    numbers too, say which you mean: `ids=[...]` or `positions=[...]`. Labels are class names or class numbers.

    A pool that a learner uses is changed through the learner (`learner.update`, `learner.extend`, ...), which saves
    each change.

    Args:
        data: examples, or anything that `as_examples` or `open_data` returns. Labels in the data stay hidden until
            `reveal`, `start_balanced`, `start_random` or `hold_out` asks for them.
        classes: the number of classes; by default that of the class names, or else of the data's labels.
        ids: what the examples are called: texts or whole numbers, one per example, each only once. By default the `ids`
            that the data has, if those are texts.
        class_names: the names of the classes, in the order of their numbers; by default those that the data has.
        encoder: what made the inputs, if they are embeddings: a name, for the record. `pw.data.encoded` notes it by
            itself.

    Attributes:
        data: the examples.
        classes: the number of classes.
        class_names: their names, or None.
        ids: what the examples are called, or None.
        encoder: which encoder made the inputs, or None.
        added_classes: how many classes were added after the pool was made.

    Example:
        >>> import numpy as np
        >>> pool = Pool(np.zeros((5, 2)), ids=list("abcde"), class_names=["cat", "dog"])
        >>> pool.label(["d", "b"], ["cat", "dog"])
        >>> pool.labelled, pool.labels, pool.unlabelled
        (array([3, 1]), array([0, 1]), array([0, 2, 4]))
        >>> pool.reject(["c"], reason="out of focus")
        >>> pool
        Pool(5 examples, 2 classes: 2 labelled, 2 unlabelled, 0 for validation, 1 rejected)
    """

    def __init__(
        self,
        data: "Data | OpenedData",
        classes: int | None = None,
        *,
        ids: Values | None = None,
        class_names: Values | None = None,
        encoder: str | None = None,
    ) -> None:
        super().__init__(data, classes, ids=ids, class_names=class_names)
        N = len(self.data)
        self.encoder = EncodedBy(encoder) if encoder is not None else getattr(self.data, "encoder", None)
        self._labels_N = np.full(N, -1, np.int64)
        self._order: list[int] = []
        self._validation_N = np.zeros(N, bool)
        self._reasons: dict[int, str] = {}  # of the rejected examples, by position

    def __repr__(self) -> str:
        rejected = f", {len(self._reasons):,} rejected" if self._reasons else ""
        return (
            f"Pool({len(self):,} examples, {self.classes} classes: {len(self._order):,} labelled, "
            f"{len(self.unlabelled):,} unlabelled, {len(self.validation):,} for validation{rejected})"
        )

    @property
    def labelled(self) -> Array:
        """Positions in the data of the labelled examples, in the order in which they were labelled."""
        return np.array(self._order, np.int64)

    @property
    def labels(self) -> Array:
        """Labels of the `labelled` examples, in the same order."""
        labels: Array = self._labels_N[self.labelled]
        return labels

    @property
    def unlabelled(self) -> Array:
        """Positions in the data of the examples that can still be labelled, ascending."""
        free_N = (self._labels_N < 0) & ~self._validation_N
        free_N[list(self._reasons)] = False
        return np.flatnonzero(free_N)

    @property
    def validation(self) -> Array:
        """Positions in the data of the examples held out for validation, ascending."""
        return np.flatnonzero(self._validation_N)

    @property
    def rejected(self) -> Array:
        """Positions in the data of the examples that cannot be labelled, ascending."""
        return np.array(sorted(self._reasons), np.int64)

    @property
    def reasons(self) -> dict[int, str]:
        """Why each rejected example cannot be labelled, by its position."""
        return dict(self._reasons)

    def labelled_examples(self) -> Subset:
        """The labelled examples with the labels given to them; a class without a name gets its number as its name."""
        return Subset(self.data, self.labelled, self.labels, self.class_names or tuple(map(str, range(self.classes))))

    def unlabelled_examples(self) -> Subset:
        """The unlabelled examples."""
        return Subset(self.data, self.unlabelled)

    def validation_examples(self) -> Subset | None:
        """The validation examples, or None if there are none."""
        return Subset(self.data, self.validation) if self._validation_N.any() else None

    # Labels

    def label(
        self,
        indices: Values | None = None,
        labels: Values | None = None,
        *,
        ids: Values | None = None,
        positions: Values | None = None,
    ) -> None:
        """Record labels of unlabelled examples. On an error, none is recorded.

        Args:
            indices: positions in the data, or ids.
            labels: their class names or numbers, in the same order. A pandas Series is read by position.
            ids: ids, in place of `indices`.
            positions: positions in the data, in place of `indices`.
        """
        self._record(self.find(indices, ids=ids, positions=positions), labels, correcting=False)

    def correct(
        self,
        indices: Values | None = None,
        labels: Values | None = None,
        *,
        ids: Values | None = None,
        positions: Values | None = None,
    ) -> None:
        """Replace labels given before; `indices`, `labels`, `ids` and `positions` are those of `label`."""
        self._record(self.find(indices, ids=ids, positions=positions), labels, correcting=True)

    def reject(
        self,
        indices: Values | None = None,
        reason: str = "",
        *,
        ids: Values | None = None,
        positions: Values | None = None,
    ) -> None:
        """Take out examples that cannot be labelled. They are not offered again, and lose the label that they had.

        Args:
            indices: positions in the data, or ids.
            reason: why.
            ids: ids, in place of `indices`.
            positions: positions in the data, in place of `indices`.
        """
        if not isinstance(reason, str):
            raise ParameterError(f"reason must be a text, not {reason!r}.")
        indices_n = self._free(self.find(indices, ids=ids, positions=positions))
        self._reasons.update(dict.fromkeys(indices_n.tolist(), reason))
        withdrawn = set(indices_n[self._labels_N[indices_n] >= 0].tolist())
        self._labels_N[indices_n] = -1
        if withdrawn:
            self._order = [index for index in self._order if index not in withdrawn]

    def restore(
        self, indices: Values | None = None, *, ids: Values | None = None, positions: Values | None = None
    ) -> None:
        """Put rejected examples back into the pool, unlabelled.

        Args:
            indices: positions in the data, or ids.
            ids: ids, in place of `indices`.
            positions: positions in the data, in place of `indices`.
        """
        indices_n = self.find(indices, ids=ids, positions=positions)
        for index in indices_n.tolist():
            if index not in self._reasons:
                raise LabelError(f"{self.name(index)} was not rejected: there is nothing to take back.")
        for index in indices_n.tolist():
            del self._reasons[index]

    def reveal(
        self, indices: Values | None = None, *, ids: Values | None = None, positions: Values | None = None
    ) -> None:
        """Label examples with the labels in the data, as a simulation does.

        Args:
            indices: positions in the data, or ids.
            ids: ids, in place of `indices`.
            positions: positions in the data, in place of `indices`.
        """
        self._reveal(self.find(indices, ids=ids, positions=positions))

    # More examples

    def extend(self, data: "Data | OpenedData", *, ids: Values | None = None) -> Array:
        """Append unlabelled examples, and return their positions in the data.

        Args:
            data: examples of the same kind as those of the pool. Data in memory is copied.
            ids: what they are called, if the pool has ids; none may be in the pool already.

        Example:
            >>> pool = Pool(["meow", "woof"], class_names=["cat", "dog"], ids=[10, 20])
            >>> pool.extend(["purr"], ids=[30])
            array([2])
            >>> len(pool)
            3
        """
        before = len(self)
        new = np.arange(before, before + self._append(data, ids))
        self._labels_N = np.concatenate([self._labels_N, np.full(len(new), -1, np.int64)])
        self._validation_N = np.concatenate([self._validation_N, np.zeros(len(new), bool)])
        return new

    # First and validation sets

    def start_balanced(self, per_class: int, seed: int = 0) -> Array:
        """Label some random examples of every class with the labels in the data, and return their positions.

        Args:
            per_class: how many examples of each class.
            seed: root of the draw.
        """
        drawn = self._balanced(per_class, stream(seed, "initial set"), "initial set")
        self._reveal(drawn)
        return drawn

    def start_random(self, count: int, seed: int = 0) -> Array:
        """Label some random examples with the labels in the data, and return their positions.

        Args:
            count: how many examples.
            seed: root of the draw.
        """
        drawn = self._draw(count, stream(seed, "initial set"), "initial set")
        self._reveal(drawn)
        return drawn

    def hold_out(self, count: int, seed: int = 0, *, balanced: bool = False) -> Array:
        """Hold out random unlabelled examples for validation, with the labels in the data; return their positions.

        Args:
            count: how many in all.
            seed: root of the draw.
            balanced: whether to draw the same number of every class; `count` must then be a multiple of their number.
        """
        needed_labels(self.data, "a validation set")
        if balanced and count % self.classes:
            raise ParameterError(
                f"a balanced validation set of {count} examples is not possible with {self.classes} classes: "
                f"take a multiple of {self.classes}."
            )
        generator = stream(seed, "validation set")
        if balanced:
            drawn = self._balanced(count // self.classes, generator, "validation set")
        else:
            drawn = self._draw(count, generator, "validation set")
        self._validation_N[drawn] = True
        return drawn

    # Saving

    def state(self) -> dict[str, Any]:
        """What to save: positions, labels and names of classes, but neither the data nor the ids."""
        rejected = self.rejected.tolist()
        return {
            "examples": len(self),
            "classes": self.classes,
            "labelled": self._order.copy(),
            "labels": self.labels.tolist(),
            "validation": self.validation.tolist(),
            "rejected": rejected,
            "reasons": [self._reasons[index] for index in rejected],
            "class_names": None if self.class_names is None else list(self.class_names),
            "added_classes": self.added_classes,
        }

    def load_state(self, state: Mapping[str, Any], *, grow: bool = False) -> None:
        """Restore a saved state. The data must be the same.

        Classes that were added later are added again.

        Args:
            state: what `state` returned.
            grow: whether the data may have more rows at its end, and the pool more classes, than were saved.
        """
        classes, names, added = self._saved_classes(state, grow)
        if state["examples"] != len(self) and not (grow and state["examples"] < len(self)):
            raise ParameterError(_mismatch(state, self))
        order, labels, held, rejected = (
            _whole_numbers(state, name) for name in ("labelled", "labels", "validation", "rejected")
        )
        used, reasons = np.concatenate([order, held, rejected]), list(state.get("reasons", ()))
        if len(order) != len(labels) or len(rejected) != len(reasons) or len(np.unique(used)) < len(used):
            raise StateError("the saved pool contradicts itself: an example occurs twice, or labels are missing.")
        if used.size and not 0 <= used.min() <= used.max() < state["examples"]:
            raise StateError(f"the saved pool names examples outside 0 to {state['examples'] - 1}.")
        if labels.size and not 0 <= labels.min() <= labels.max() < classes:
            raise StateError(f"the saved pool has labels outside 0 to {classes - 1}.")
        self.classes, self.class_names, self.added_classes = classes, names, added
        self._order = order.tolist()
        self._labels_N[:] = -1
        self._labels_N[order] = labels
        self._validation_N[:] = False
        self._validation_N[held] = True
        self._reasons = dict(zip(rejected.tolist(), reasons, strict=True))

    def snapshot(self) -> dict[str, Any]:
        """All of the pool as it is now, to return to with `vars(pool).update(...)` after a change that failed."""
        copied = (np.ndarray, list)
        snapshot = {name: value.copy() if isinstance(value, copied) else value for name, value in vars(self).items()}
        return {**snapshot, "_reasons": dict(self._reasons)}

    def _saved_classes(self, state: Mapping[str, Any], grow: bool) -> tuple[int, tuple[str, ...] | None, int]:
        """The number of classes, their names, and how many were added, of a saved pool and this one together."""
        saved, added, names = state["classes"], state.get("added_classes", 0), state.get("class_names")
        if not saved - added <= self.classes <= saved and not (grow and self.classes > saved):
            raise ParameterError(_mismatch(state, self))
        if names is None or self.class_names is None:
            longer = self.class_names if names is None else tuple(names)
        else:
            for number, (before, now) in enumerate(zip(names, self.class_names, strict=False)):
                if before != now:
                    raise ParameterError(
                        f"class {number} of the saved pool is {before!r}, here it is {now!r}. Name the classes as they "
                        "were, in the same order."
                    )
            longer = max(tuple(names), self.class_names, key=len)
        classes = max(saved, self.classes)
        if longer is not None:
            longer = (*longer, *map(str, range(len(longer), classes)))
        return classes, longer, added + max(0, self.classes - saved)

    # Helpers

    def _free(self, indices_n: Array) -> Array:
        held = indices_n[self._validation_N[indices_n]]
        if held.size:
            raise LabelError(f"{self.name(int(held[0]))} is held out for validation and cannot be labelled.")
        return indices_n

    def _record(self, indices_n: Array, labels: Values | None, correcting: bool) -> None:
        labels_n = self.numbers(labels, len(indices_n))
        self._free(indices_n)
        known_n = self._labels_N[indices_n] >= 0
        rejected = [index for index in indices_n.tolist() if index in self._reasons]
        if rejected:
            raise LabelError(f"{self.name(rejected[0])} was rejected. Take that back first: restore().")
        if not correcting and known_n.any():
            first = int(indices_n[known_n][0])
            raise LabelError(f"{self.name(first)} has a label already. To change it, use correct().")
        if correcting and not known_n.all():
            first = int(indices_n[~known_n][0])
            raise LabelError(f"{self.name(first)} has no label to correct. Use label() or update().")
        self._labels_N[indices_n] = labels_n
        if not correcting:
            self._order.extend(indices_n.tolist())

    def _reveal(self, indices_n: Array) -> None:
        self._record(indices_n, needed_labels(self.data, "a simulation")[indices_n], correcting=False)

    def _known_free(self, what: str) -> tuple[Array, Array]:
        """Positions of the unlabelled examples whose label the data carries, and those labels."""
        free = self.unlabelled
        labels = needed_labels(self.data, what)[free]
        return free[labels >= 0], labels[labels >= 0]  # rows that were appended may have none

    def _draw(self, count: int, generator: np.random.Generator, what: str) -> Array:
        free, _ = self._known_free(f"a {what}")
        if not 0 <= count <= len(free):
            raise ParameterError(
                f"a {what} of {count} examples is not possible: {len(free)} are unlabelled. Ask for 0 to {len(free)}."
            )
        return generator.choice(free, count, replace=False)

    def _balanced(self, per_class: int, generator: np.random.Generator, what: str) -> Array:
        if per_class < 0:
            raise ParameterError(f"a {what} needs a number of examples per class of at least 0, not {per_class}.")
        free, labels = self._known_free(f"a balanced {what}")
        drawn = []
        for c in range(self.classes):
            members = free[labels == c]
            if len(members) < per_class:
                raise ParameterError(
                    f"a balanced {what} of {per_class} examples per class is not possible: class {c} has "
                    f"{len(members)}. Ask for at most {len(members)} per class."
                )
            drawn.append(generator.choice(members, per_class, replace=False))
        # Classes in turn, so that a prefix of the set is as balanced as it can be.
        return np.stack(drawn, 1).reshape(-1) if drawn else np.empty(0, np.int64)


def _mismatch(state: Mapping[str, Any], pool: Pool) -> str:
    return (
        f"the saved pool has {state['examples']} examples of {state['classes']} classes, this data has "
        f"{len(pool)} of {pool.classes}. Load it with the same data."
    )


def _whole_numbers(state: Mapping[str, Any], name: str) -> Array:
    """`[n]` whole numbers of a saved state."""
    array = np.asarray(state.get(name, []))
    if array.ndim != 1 or (array.size and array.dtype.kind != "i"):
        raise StateError(f"the saved pool has no list of whole numbers as {name!r}.")
    return array.astype(np.int64)
