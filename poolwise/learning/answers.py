"""What people tell a learner: labels, corrections, what cannot be labelled, more examples and more classes."""

from datetime import datetime

import numpy as np

from poolwise.arrays import Array, ArrayOrTensor, Values
from poolwise.data.batches import Data
from poolwise.data.opening import OpenedData
from poolwise.learning.directory import InDirectory
from poolwise.learning.history import Event, EventKind, Witness
from poolwise.learning.query import Query


class Answers(InDirectory):
    """The part of a learner that takes what people say.

    `indices` are positions in the data or ids, as `Pool` takes them. If the ids are whole numbers, say which you mean:
    `ids=[...]` or `positions=[...]`.
    """

    @property
    def pending(self) -> Query | None:
        """What is asked for and not yet labelled, or None."""
        return self._now.query

    @property
    def history(self) -> tuple[Event, ...]:
        """All labels, corrections and rejections so far, oldest first, each with its author and time.

        Labels that the pool had before it was given to the learner are not part of it.
        """
        return tuple(self._now.history)

    def update(
        self,
        indices: Values | None = None,
        labels: Values | None = None,
        *,
        ids: Values | None = None,
        positions: Values | None = None,
        author: str | None = None,
        at: datetime | str | None = None,
        new_classes: bool = False,
        replace: bool = False,
    ) -> None:
        """Take labels, in any order: of all or some of the batch, and of other examples of the pool.

        On an error, no label is taken.

        Args:
            indices: positions in the data, such as `query().indices`, or ids, such as `query().ids`.
            labels: their class names or numbers, in the same order. A pandas Series is read by position.
            ids: ids, in place of `indices`.
            positions: positions in the data, in place of `indices`.
            author: who gave the labels.
            at: when: a `datetime`, or a text in ISO 8601; by default now.
            new_classes: whether class names that are not known are added as new classes, see `add_class`.
            replace: whether examples that have a label, or were rejected, get the new label. If False, they are an
                error.

        Example:
            >>> import numpy as np, poolwise as pw
            >>> from sklearn.naive_bayes import GaussianNB
            >>> pool = pw.Pool(np.arange(6.0)[:, None], ids=list("abcdef"), class_names=["low", "high"])
            >>> learner = pw.ActiveLearner(pw.posteriors.Committee(GaussianNB(), 2), pool, "random", batch_size=2)
            >>> learner.update(["a", "f"], ["low", "high"], author="anna")
            >>> [(event.item, event.class_name, event.author) for event in learner.history]
            [('a', 'low', 'anna'), ('f', 'high', 'anna')]
        """
        witness = Witness.of(author, at)
        with self._changing():
            indices_n = self.pool.find(indices, ids=ids, positions=positions)
            labels_n = self._numbers(labels, len(indices_n), new_classes)
            known_n = np.isin(indices_n, self.pool.labelled)
            if replace:
                rejected = np.intersect1d(indices_n, self.pool.rejected)
                self.pool.restore(positions=rejected)
                self.pool.correct(positions=indices_n[known_n], labels=labels_n[known_n])
                self.pool.label(positions=indices_n[~known_n], labels=labels_n[~known_n])
            else:
                self.pool.label(positions=indices_n, labels=labels_n)
            kinds: list[EventKind] = ["correction" if known else "label" for known in known_n.tolist()]
            self._note(witness, kinds, indices_n, labels_n)
            if len(indices_n):
                self._now.retrain()

    def correct(
        self,
        indices: Values | None = None,
        labels: Values | None = None,
        *,
        ids: Values | None = None,
        positions: Values | None = None,
        author: str | None = None,
        at: datetime | str | None = None,
    ) -> None:
        """Replace labels given before. The next model learns from the new ones; earlier rounds stay as they were.

        The arguments are those of `update`.

        Example:
            >>> import numpy as np, poolwise as pw
            >>> from sklearn.naive_bayes import GaussianNB
            >>> pool = pw.Pool(np.arange(6.0)[:, None], class_names=["low", "high"])
            >>> learner = pw.ActiveLearner(pw.posteriors.Committee(GaussianNB(), 2), pool, "random")
            >>> learner.update([5], ["low"])
            >>> learner.correct([5], ["high"], author="ben")
            >>> [(event.kind, event.class_name) for event in learner.history]
            [('label', 'low'), ('correction', 'high')]
        """
        witness = Witness.of(author, at)
        with self._changing():
            indices_n = self.pool.find(indices, ids=ids, positions=positions)
            labels_n = self._numbers(labels, len(indices_n), False)
            self.pool.correct(positions=indices_n, labels=labels_n)
            self._note(witness, ["correction"] * len(indices_n), indices_n, labels_n)
            if len(indices_n):
                self._now.retrain()

    def reject(
        self,
        indices: Values | None = None,
        reason: str = "",
        *,
        ids: Values | None = None,
        positions: Values | None = None,
        author: str | None = None,
        at: datetime | str | None = None,
    ) -> None:
        """Reject examples that cannot be labelled. They are not asked for again and do not count as labelled.

        A batch that is pending shrinks. A label that such an example had is withdrawn.

        Args:
            indices: positions in the data, or ids.
            reason: why, for the record.
            ids: ids, in place of `indices`.
            positions: positions in the data, in place of `indices`.
            author: who rejected them.
            at: when; by default now.

        Example:
            >>> import numpy as np, poolwise as pw
            >>> from sklearn.naive_bayes import GaussianNB
            >>> pool = pw.Pool(np.arange(6.0)[:, None], classes=2)
            >>> learner = pw.ActiveLearner(pw.posteriors.Committee(GaussianNB(), 2), pool, "random", batch_size=3)
            >>> asked = learner.query().indices
            >>> learner.reject(asked[:1], reason="empty page")
            >>> len(learner.pending), learner.pool.rejected.tolist() == asked[:1].tolist()
            (2, True)
            >>> learner.restore(asked[:1])
            >>> len(learner.pool.rejected)
            0
        """
        witness = Witness.of(author, at)
        with self._changing():
            indices_n = self.pool.find(indices, ids=ids, positions=positions)
            withdrawn = np.isin(indices_n, self.pool.labelled).any()
            self.pool.reject(positions=indices_n, reason=reason)
            self._note(witness, ["rejection"] * len(indices_n), indices_n, reason=reason)
            if withdrawn:
                self._now.retrain()

    def restore(
        self,
        indices: Values | None = None,
        *,
        ids: Values | None = None,
        positions: Values | None = None,
        author: str | None = None,
        at: datetime | str | None = None,
    ) -> None:
        """Put rejected examples back into the pool, unlabelled; the arguments are those of `reject`."""
        witness = Witness.of(author, at)
        with self._changing():
            indices_n = self.pool.find(indices, ids=ids, positions=positions)
            self.pool.restore(positions=indices_n)
            self._note(witness, ["return"] * len(indices_n), indices_n)

    def skip(self) -> None:
        """Drop the rest of the current batch, so that the next `query()` selects a new one."""
        with self._changing():
            self._now.query = None

    def extend(
        self, data: Data | OpenedData, *, ids: Values | None = None, features: ArrayOrTensor | None = None
    ) -> Array:
        """Append examples to the pool, and return their positions in the data.

        The current batch stays as it is. Fixed features are computed for the new examples only.

        Args:
            data: examples of the same kind as those of the pool.
            ids: what they are called, if the pool has ids.
            features: `[M, D]` features of the new examples, if the learner was given an array of features.

        Example:
            >>> import numpy as np, poolwise as pw
            >>> from sklearn.naive_bayes import GaussianNB
            >>> pool = pw.Pool(np.arange(6.0)[:, None], classes=2)
            >>> learner = pw.ActiveLearner(pw.posteriors.Committee(GaussianNB(), 2), pool, "random")
            >>> learner.extend(np.array([[6.0], [7.0]]))
            array([6, 7])
        """
        with self._changing():
            new = self.pool.extend(data, ids=ids)
            self._features.extend(features, len(new))
            self._now.grow(len(new))
            if self._saver is not None and len(new):
                self._saver.renew()
        return new

    def add_class(self, name: str | None = None) -> int:
        """Add a class after the others, and return its number. The next model knows it.

        A posterior of networks must be given to the learner as a function of the number of classes. A posterior that
        counts the classes of its labelled data, such as `Committee(...)`, works as it is.

        Args:
            name: its name; its number, as a text, if it is left out.

        Example:
            >>> import numpy as np, poolwise as pw
            >>> def posterior(classes):
            ...     return pw.posteriors.DeepEnsemble(lambda: pw.models.linear((1,), classes), members=2)
            >>> pool = pw.Pool(np.arange(6.0)[:, None], class_names=["low", "high"])
            >>> learner = pw.ActiveLearner(posterior, pool, "random")
            >>> learner.add_class("medium")
            2
            >>> learner.pool.class_names
            ('low', 'high', 'medium')
        """
        with self._changing():
            number = self.pool.add_class(name)
            self._model.check(self.pool)
            self._now.retrain()
        return number

    def _numbers(self, labels: Values | None, count: int, new_classes: bool) -> Array:
        """Labels as class numbers; new classes are added where that is wanted."""
        before = self.pool.classes
        labels_n = self.pool.numbers(labels, count, new_classes=new_classes)
        if self.pool.classes > before:
            self._model.check(self.pool)
        return labels_n

    def _note(
        self,
        witness: Witness,
        kinds: list[EventKind],
        indices_n: Array,
        labels_n: Array | None = None,
        reason: str = "",
    ) -> None:
        """Put down what was said, and take these examples out of what is asked for."""
        asked = frozenset() if self._now.query is None else frozenset(self._now.query.indices.tolist())
        self._now.history += witness.events(self.pool, kinds, indices_n, labels_n, reason=reason, asked=asked)
        self._now.answered(indices_n)
