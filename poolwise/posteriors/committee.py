"""Query by committee (Seung et al. 1992): scikit-learn classifiers as samples of a posterior."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from torch import Tensor

from poolwise import budget
from poolwise.arrays import Array
from poolwise.data.examples import Examples, as_examples, needed_labels
from poolwise.errors import EmptyPoolError, LabelError, MissingInputError, ParameterError, StateError
from poolwise.models import checks
from poolwise.posteriors.buffer import PredictionBuffer
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent
from poolwise.seeding import stream

_BAGGED = 10  # members, where their number is left open

# What a text is taken to need once it is a vector (bytes): a thousand terms, each with its number and its weight.
_TEXT_BYTES = 1 << 14


@dataclass(frozen=True)
class _Member:
    """A fitted classifier, and which class each column of its probabilities is."""

    classifier: Any
    classes: Array


class Committee:
    """Several scikit-learn classifiers, each fitted differently; member k is posterior sample k.

    There are three kinds of committee:
    - one classifier: copies of it, each fitted on its own bootstrap sample of the data (Breiman 1996);
    - a `RandomForestClassifier` or `ExtraTreesClassifier`: its trees;
    - a list of classifiers: each fitted on all the data.

    A member gives the probability zero to a class that it has not seen. Classifiers get tensors and arrays as `[n, D]`
    float64 arrays, and texts as a list, so that a pipeline may begin with a `TfidfVectorizer`.

    Args:
        estimator: one classifier with `predict_proba`, or a list of them; pipelines are classifiers too. They are
            cloned and never changed.
        members: how many bootstrap copies, 10 by default; or how many trees, by default as many as the forest has. A
            list of classifiers has as many members as classifiers.
        classes: number of classes C; by default that of the data's class names, or else the largest label plus one.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> from sklearn.naive_bayes import GaussianNB
        >>> inputs, labels = np.eye(3).repeat(8, 0), np.arange(3).repeat(8)
        >>> pw.posteriors.Committee(GaussianNB(), members=4).fit((inputs, labels)).predict(inputs).shape
        (24, 4, 3)
    """

    embeds_inputs = True  # `embed` returns the inputs: there are no embeddings of its own

    def __init__(self, estimator: Any, members: int | None = None, *, classes: int | None = None) -> None:
        listed = isinstance(estimator, list | tuple)
        self._estimators = [_checked(item) for item in (estimator if listed else [estimator])]
        if not self._estimators:
            raise ParameterError("estimator is an empty list. Pass a classifier, or a list of at least one.")
        if listed and members is not None:
            raise ParameterError(f"members={members!r} cannot be chosen for a list: each classifier in it is a member.")
        for name, value, most in (("members", members, 10_000), ("classes", classes, None)):
            if value is not None:
                checks.count(value, name, most=most)
        self._listed, self._size, self._classes = listed, members, classes
        self._members: list[_Member] = []
        self._C = 0

    def __repr__(self) -> str:
        names = ", ".join(type(estimator).__name__ for estimator in self._estimators)
        fitted = f"{len(self._members)} members, fitted" if self._members else "not fitted"
        return f"Committee({names}: {fitted})"

    def fit(self, data: Any, validation: Any = None, *, seed: int = 0, report: Report = silent) -> Self:
        """Fit all members on labelled data.

        Args:
            data: labelled examples, (inputs, labels), or a `Dataset` of (input, label).
            validation: not used.
            seed: root of the bootstrap samples and of every `random_state`; a `random_state` that you set is replaced.
            report: told about progress.
        """
        examples = as_examples(data)
        labels_n = needed_labels(examples, "a committee")
        if not len(examples):
            raise EmptyPoolError("there are no examples to fit a committee on.")
        C = self._count_classes(examples, labels_n)
        inputs = _read(examples, np.arange(len(examples)))
        single = self._estimators[0]
        if self._listed:
            members = self._fit_list(inputs, labels_n, seed, report)
        elif isinstance(single, RandomForestClassifier | ExtraTreesClassifier):
            members = self._fit_forest(inputs, labels_n, seed, report)
        else:
            members = self._fit_bootstrap(inputs, labels_n, seed, report)
        self._members, self._C = members, C
        return self

    def predict(
        self, data: Any, *, embeddings: bool = False, memory: int | str = budget.DEFAULT, report: Report = silent
    ) -> Predictions:
        """`[N, K, C]` predictions of K members.

        Classifiers compute in float64 and the result is stored in float32. This hides that the last digits of a matrix
        product depend on its number of rows.

        Args:
            data: examples.
            embeddings: whether to add `[N, D]` embeddings: the inputs themselves, where they are numbers.
            memory: bytes, or a text such as `"2GB"`: predictions that do not fit half of it go to a mapped file. No
                result depends on it.
            report: told about progress.
        """
        if not self._members:
            raise StateError("the committee has no members yet. Call fit(data) first.")
        examples, space = as_examples(data), budget.parse(memory)
        N = len(examples)
        if not N:
            raise EmptyPoolError("there are no examples to predict.")
        first = _read(examples, np.arange(1))
        D = None if isinstance(first, list) else first.shape[1]
        if embeddings and D is None:
            raise MissingInputError(
                "a committee has no embeddings of texts. Add some with predictions.with_embeddings(...)."
            )
        step = budget.block_rows(_TEXT_BYTES if D is None else 8 * D, space)
        features_N_D = np.empty((N, D or 0), np.float32) if embeddings else None
        with PredictionBuffer("probs", (N, len(self._members), self._C), space) as buffer:
            for start in range(0, N, step):
                rows = slice(start, min(start + step, N))
                inputs = _read(examples, np.arange(rows.start, rows.stop))
                for k, member in enumerate(self._members):
                    buffer.values[rows, k][:, member.classes] = member.classifier.predict_proba(inputs)
                if features_N_D is not None:
                    features_N_D[rows] = inputs
                report("predicting", rows.stop, N)
            return buffer.finish(features_N_D)

    def embed(self, data: Any, *, memory: int | str = budget.DEFAULT) -> Array:
        """`[N, D]` float32: the inputs themselves, where they are numbers.

        Args:
            data: examples.
            memory: working memory, in bytes or as `"2GB"`.
        """
        inputs = _read(examples := as_examples(data), np.arange(len(examples)))
        if isinstance(inputs, list):
            raise MissingInputError("a committee has no embeddings of texts. Use a method that needs none.")
        return inputs.astype(np.float32)

    def state(self) -> dict[str, Any]:
        """Everything that `predict` depends on: the number of classes and the members, pickled as joblib would do.

        A pickle is a program: load only what you saved yourself, with the version of scikit-learn that saved it.
        """
        return {"classes": self._C, "members": pickle.dumps(self._members)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; see `state` for what to trust."""
        self._C, self._members = int(state["classes"]), pickle.loads(state["members"])

    def _count_classes(self, examples: Examples, labels_n: Array) -> int:
        names = examples.class_names
        C = self._classes or (len(names) if names else int(labels_n.max()) + 1)
        if labels_n.max() >= C:
            raise LabelError(
                f"labels must be below the number of classes, {C}, but one is {labels_n.max()}. Correct it, or pass a "
                "larger classes=."
            )
        return C

    def _fit_list(self, inputs: Any, labels_n: Array, seed: int, report: Report) -> list[_Member]:
        members = []
        for k, estimator in enumerate(self._estimators):
            members.append(_fit(_seeded(estimator, seed, k), inputs, labels_n))
            report("fitting the committee", k + 1, len(self._estimators))
        return members

    def _fit_bootstrap(self, inputs: Any, labels_n: Array, seed: int, report: Report) -> list[_Member]:
        members, size = [], self._size or _BAGGED
        for k in range(size):
            drawn_n = _bootstrap(labels_n, stream(seed, "bootstrap", k))
            sample = [inputs[i] for i in drawn_n] if isinstance(inputs, list) else inputs[drawn_n]
            members.append(_fit(_seeded(self._estimators[0], seed, k), sample, labels_n[drawn_n]))
            report("fitting the committee", k + 1, size)
        return members

    def _fit_forest(self, inputs: Any, labels_n: Array, seed: int, report: Report) -> list[_Member]:
        forest = _seeded(self._estimators[0], seed, 0)
        if self._size is not None:
            forest.set_params(n_estimators=self._size)
        forest.fit(inputs, labels_n)
        report("fitting the committee", len(forest.estimators_), len(forest.estimators_))
        return [_Member(tree, forest.classes_) for tree in forest.estimators_]  # a tree numbers the forest's classes


def _checked(estimator: Any) -> Any:
    if not isinstance(estimator, BaseEstimator) or not is_classifier(estimator):
        kind = f"the class {estimator.__name__}" if isinstance(estimator, type) else type(estimator).__name__
        raise ParameterError(f"estimator must be a scikit-learn classifier, such as LogisticRegression(), not {kind}.")
    return estimator


def _seeded(estimator: Any, seed: int, k: int) -> Any:
    """A copy of an estimator with every `random_state` set, its own and those of its steps and parts."""
    copy = clone(estimator)
    names = sorted(name for name in copy.get_params() if name.split("__")[-1] == "random_state")
    return copy.set_params(**{name: int(stream(seed, "random_state", k, name).integers(2**31)) for name in names})


def _fit(classifier: Any, inputs: Any, labels_n: Array) -> _Member:
    classifier.fit(inputs, labels_n)
    if not hasattr(classifier, "predict_proba"):  # some classifiers know only once they are fitted
        raise ParameterError(
            f"{type(classifier).__name__} has no predict_proba, and a committee needs probabilities. "
            "Wrap it in sklearn.calibration.CalibratedClassifierCV, or use another classifier."
        )
    return _Member(classifier, classifier.classes_)


def _bootstrap(labels_n: Array, generator: np.random.Generator) -> Array:
    """n of n positions with replacement; drawn again if only one of several classes is among them.

    Most classifiers cannot be fitted on a single class.
    """
    n = len(labels_n)
    drawn_n = generator.integers(n, size=n)
    while np.ptp(labels_n[drawn_n]) == 0 and np.ptp(labels_n) > 0:
        drawn_n = generator.integers(n, size=n)
    return drawn_n


def _read(examples: Examples, indices_n: Array) -> Array | list[str]:
    """Inputs at some positions as scikit-learn takes them."""
    inputs: Any = examples.batch(indices_n)
    if isinstance(inputs, Tensor):
        return inputs.flatten(1).double().cpu().numpy()
    if not isinstance(inputs, list):
        raise ParameterError(
            f"a committee takes one array or texts, and a batch of these examples is a {type(inputs).__name__}. Pass "
            "one input per example, such as the texts themselves."
        )
    return inputs
