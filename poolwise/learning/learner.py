"""The learner: train, predict, select, take labels, and resume after any interruption."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from poolwise import budget
from poolwise.arrays import Array
from poolwise.data.examples import Examples, as_examples, needed_labels
from poolwise.data.pool import Pool
from poolwise.errors import LabelError, StateError
from poolwise.learning.asking import ask, choices, read_candidates
from poolwise.learning.identity import Identity
from poolwise.learning.keeping import Keeper, Parts
from poolwise.learning.loading import arguments
from poolwise.learning.query import Query, plain_scores
from poolwise.learning.rounds import Round
from poolwise.learning.settings import Settings, plain, whole
from poolwise.learning.standing import Standing
from poolwise.metrics import evaluate, kappa
from poolwise.posteriors.posterior import Posterior
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent
from poolwise.seeding import child_seed, stream
from poolwise.selection import registry
from poolwise.selection.registry import MethodLike


class ActiveLearner:
    """Chooses what to label next from a pool, and learns from the labels.

    Two calls make a round: `query()` trains on what is labelled, predicts what is not, and says what to label next;
    `update(indices, labels)` takes the labels. With a directory, each change is on the disk before the call returns: a
    learner that was killed resumes from there, with the result it would have had.

    One learner at a time can write to a directory. Another process gets a `LockedError` that says who has it. Within
    one process the newest learner takes over, and an older one refuses any further change. The directory is free again
    once the learner is closed (`close()`, or the end of a `with` block), deleted, or its process ends.

    Args:
        posterior: the model, see `poolwise.posteriors`.
        pool: a `Pool`, or data to make one of.
        method: name of a selection method (`poolwise.methods()` lists them), or a function of your own.
        batch_size: how many labels to ask for at a time; fewer when fewer are left.
        directory: where the state is kept. If there is the state of an earlier learner with the same settings and the
            same data, this one resumes from there.
        seed: root of all randomness.
        test: labelled examples on which the model of every round is evaluated.
        validation: labelled examples for early stopping and `stopping.Target`, in place of those the pool holds out.
        memory: working memory for predicting and selecting, in bytes or as `"2GB"`.
        self_contained: whether posterior and data are saved in the directory too, so that `load` needs nothing else.
        agreement: whether to track how far successive models agree on the pool (`Round.agreement`), which takes another
            pass over the pool in each round. `stopping.Stable` needs it.
        check_data: whether to make sure that a directory is opened with the data it was made with, row by row. Pass
            False for data that is different each time it is read.
        report: called with (stage, done, total) as the work proceeds.
        parameters: the method's own parameters, and `candidates`: a share, a number, or positions in the data.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> from sklearn.linear_model import LogisticRegression
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> y = (x[:, 0] > 0).astype(int)
        >>> pool = pw.Pool(x, classes=2)
        >>> pool.label([0, 39], [0, 1])
        >>> posterior = pw.posteriors.Committee(LogisticRegression(), 3)
        >>> learner = pw.ActiveLearner(posterior, pool, "margin", batch_size=2)
        >>> query = learner.query()
        >>> learner.update(query.indices, y[query.indices])
        >>> learner.pool
        Pool(40 examples, 2 classes: 4 labelled, 36 unlabelled, 0 for validation)
    """

    def __init__(
        self,
        posterior: Posterior,
        pool: object,
        method: MethodLike = registry.DEFAULT,
        batch_size: int = 10,
        directory: str | Path | None = None,
        seed: int = 0,
        *,
        test: object = None,
        validation: object = None,
        memory: int | str = budget.DEFAULT,
        self_contained: bool = True,
        agreement: bool = False,
        check_data: bool = True,
        report: Report = silent,
        **parameters: Any,
    ) -> None:
        self._method = registry.resolve(method)
        Settings(self._method.reference, parameters, batch_size, seed, memory).check(self._method)
        self.posterior, self.pool = posterior, pool if isinstance(pool, Pool) else Pool(pool)
        self.method, self.batch_size, self.seed = self._method.name, int(batch_size), int(seed)
        self.agreement = agreement
        if "candidates" in parameters:
            parameters["candidates"] = read_candidates(parameters["candidates"], self.pool)
        self._parameters, self._memory, self._report = parameters, memory, report
        self._test: Examples | None = None if test is None else as_examples(test)
        self._validation: Examples | None = None if validation is None else as_examples(validation)
        for examples in (self._test, self._validation):
            if examples is not None:
                needed_labels(examples, "evaluating a model")
        self._check_data, self._self_contained = check_data, self_contained
        self._at = Standing()
        self._keeper: Keeper | None = None
        if directory is not None:
            self._open(Path(directory))

    @property
    def directory(self) -> Path | None:
        """Where the state is kept."""
        return None if self._keeper is None else self._keeper.folder

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds so far; the last one is that of the batch that is asked for now."""
        return tuple(self._at.rounds)

    @property
    def pending(self) -> Query | None:
        """What is asked for and not yet labelled, or None."""
        return self._at.query

    @property
    def choices(self) -> Array:
        """Positions in the data of what may be asked for: unlabelled, and among `candidates` if those are positions."""
        return choices(self.pool, self._parameters.get("candidates"))

    def query(self, batch_size: int | None = None) -> Query:
        """What to label next. Asked again, it is the same until labels come; then what is left of it.

        While nothing is labelled there is no model. The batch is then drawn at random: its `origin` is `"random"`, and
        its scores are NaN.

        Args:
            batch_size: another size, for a new batch only.
        """
        if self._at.query is not None:
            return self._at.query
        count = min(self.batch_size if batch_size is None else whole(batch_size), len(self.choices))
        if count == 0:
            what = "everything in the pool is" if not len(self.pool.unlabelled) else "all candidates are"
            raise StateError(f"{what} labelled: there is nothing left to ask for.")
        if self._at.rounds and self._at.rounds[-1].final is not None:  # it continues after all, with the model it has
            with self._changing():
                self._at.trained = replace(self._at.rounds.pop(), final=None)
        trained = self.fit()
        with self._changing():
            query, trained = self._ask(count, trained) if trained.labelled else self._draw(count, trained)
            self._at.query, self._at.trained = query, None
            self._at.rounds.append(
                replace(
                    trained,
                    indices=tuple(query.indices.tolist()),
                    scores=tuple(plain_scores(query.scores)),
                    diagnostics=None if query.diagnostics is None else query.diagnostics.as_dict(),
                    origin=query.origin,
                )
            )
        return query

    def update(self, indices: object, labels: object) -> None:
        """Take labels of what was asked for: all of it or some, in any order.

        Args:
            indices: positions in the data, from `query().indices`.
            labels: their labels, whole numbers from 0, in the same order. A pandas Series is read by position too.
        """
        indices_n = self.pool.positions(indices)
        asked = set() if self._at.query is None else set(self._at.query.indices.tolist())
        unasked = [index for index in indices_n.tolist() if index not in asked]
        known = set(self.pool.labelled.tolist())
        for index in unasked:
            if index in known:
                raise LabelError(f"example {index} has a label already. To change it, use correct().")
            raise LabelError(f"example {index} was not asked for. Label the examples of query().indices.")
        with self._changing():
            self.pool.label(indices_n, labels)
            left = ~np.isin(self._at.query.indices, indices_n) if self._at.query is not None else np.zeros(0, bool)
            self._at.query = self._at.query.part(left) if self._at.query is not None and left.any() else None
            self._at.trained = None

    def correct(self, indices: object, labels: object) -> None:
        """Replace labels given before; the next model learns from the new ones."""
        with self._changing():
            self.pool.correct(indices, labels)
            self._at.trained = None

    def skip(self) -> None:
        """Give up what is left of the current batch, so that the next `query()` selects anew."""
        with self._changing():
            self._at.query = None

    def fit(self) -> Round:
        """Train on what is labelled now, unless that is done, and evaluate the model on test and validation sets."""
        if self._keeper is not None:
            self._keeper.check()
        if self._at.trained is None:
            self._at.trained = self._train()
            if self._keeper is not None:
                self._keeper.current = False
        if self._keeper is not None and not self._keeper.current:
            self._save_state()
        return self._at.trained

    def predict(self, data: object) -> Predictions:
        """Predictions of the current model."""
        return self.posterior.predict(data, memory=self._memory, report=self._report)

    def finish(self, reason: str) -> Round:
        """Train once more on all labels and close the history with the reason for stopping."""
        if self._at.rounds and self._at.rounds[-1].final is not None:
            return self._at.rounds[-1]
        trained = self.fit()
        with self._changing():
            self._at.rounds.append(replace(trained, final=reason))
        return self._at.rounds[-1]

    def _train(self) -> Round:
        number, labelled = len(self._at.rounds), len(self.pool.labelled)
        seconds = {"train": 0.0, "predict": 0.0, "select": 0.0}
        metrics = validation = None
        if labelled:
            started = time.perf_counter()
            held_out = self._validation or self.pool.validation_examples()
            # Training depends on the seed and the round only, so that methods compared on one seed start alike.
            seed = child_seed(self.seed, "training", number)
            self.posterior.fit(self.pool.labelled_examples(), held_out, seed=seed, report=self._report)
            self._at.model += 1
            seconds["train"] = time.perf_counter() - started
            metrics = None if self._test is None else self._evaluate(self._test)
            validation = None if held_out is None else self._evaluate(held_out)
        return Round(number, labelled, metrics, validation, seconds=seconds)

    def _evaluate(self, examples: Examples) -> dict[str, float]:
        return evaluate(self.predict(examples), needed_labels(examples, "evaluating a model"), memory=self._memory)

    def _draw(self, count: int, trained: Round) -> tuple[Query, Round]:
        """A first batch, without a model."""
        drawn = stream(self.seed, "first batch", trained.round).choice(self.choices, count, replace=False)
        return Query(drawn, np.full(count, np.nan), None, "random"), trained

    def _ask(self, count: int, trained: Round) -> tuple[Query, Round]:
        """A batch that the method selects."""
        asked = ask(
            self.posterior,
            self.pool,
            self._method,
            count,
            self._parameters,
            seed=child_seed(self.seed, "selection", trained.round),
            classes=self.agreement,
            memory=self._memory,
            report=self._report,
        )
        agreement, unlabelled = None, self.pool.unlabelled
        if asked.classes is not None and self._at.classes is not None:
            agreement = kappa(self._at.classes[unlabelled], asked.classes)
        self._at.classes = None
        if asked.classes is not None:
            self._at.classes, self._at.classes_round = np.full(len(self.pool), -1, np.int64), trained.round
            self._at.classes[unlabelled] = asked.classes
        seconds = {**trained.seconds, **asked.seconds}
        return asked.query, replace(trained, seconds=seconds, agreement=agreement, tracked=self.agreement)

    # The directory

    def save(self, directory: str | Path | None = None) -> None:
        """Write everything that `load` needs: pool, labels, history, weights, and the learner's own settings.

        A learner with a directory does this by itself at every change.

        Args:
            directory: where to save it from now on; by default where it is kept already.
        """
        before = self._keeper
        if directory is not None and (before is None or Path(directory).resolve() != before.folder.resolve()):
            self._keeper = self._new_keeper(Path(directory))
        elif before is not None:
            before.renew()
        try:
            self._save_state()
        except BaseException:
            if self._keeper is not None and self._keeper is not before:
                self._keeper.undo()
            self._keeper = before
            raise
        if before is not None and before is not self._keeper:
            before.close()

    def close(self) -> None:
        """Leave the directory to others. The learner can still predict, but refuses any change."""
        if self._keeper is not None:
            self._keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        method: MethodLike | None = None,
        posterior: Posterior | None = None,
        data: object = None,
        test: object = None,
        validation: object = None,
        check_data: bool = True,
        read_only: bool = False,
        report: Report = silent,
    ) -> Self:
        """A learner as it was when its state was last written.

        Loading runs code that was saved with the posterior and the data: only load what you trust.

        Args:
            directory: where it was saved.
            method: the selection method, if it is a function that cannot be imported, such as a lambda.
            posterior: used instead of the saved one.
            data: used instead of the saved data; it must have the same rows in the same order.
            test: used instead of the saved test set.
            validation: used instead of the saved validation set.
            check_data: whether to make sure that the data, test and validation sets are those of before.
            read_only: whether to open it without locking the directory, for looking and predicting; changes are
                refused.
            report: called with (stage, done, total) as the work proceeds.
        """
        folder = Path(directory)
        given = {"posterior": posterior, "data": data, "test": test, "validation": validation}
        learner = cls(**arguments(folder, given, method), check_data=check_data, report=report)
        learner._open(folder, read_only)
        return learner

    def _open(self, folder: Path, read_only: bool = False) -> None:
        """Resume from a directory, or begin to keep this learner there."""
        keeper = self._new_keeper(folder, read_only)
        try:
            if keeper.exists:
                self._at = keeper.resume(self._settings(), self._parts())
            else:
                keeper.save(self._settings(), self._parts(), self._at)
        except BaseException:
            keeper.undo()
            raise
        self._keeper = keeper

    def _new_keeper(self, folder: Path, read_only: bool = False) -> Keeper:
        identity = Identity(self.pool, self._test, self._validation) if self._check_data else None
        return Keeper(folder, identity, self_contained=self._self_contained, read_only=read_only)

    def _parts(self) -> Parts:
        return Parts(self.posterior, self.pool, self._test, self._validation)

    def _settings(self) -> Settings:
        parameters = {name: plain(value) for name, value in self._parameters.items()}
        return Settings(self._method.reference, parameters, self.batch_size, self.seed, self._memory, self.agreement)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """A change, which is on the disk at the end; on any error everything is as it was, there and here."""
        if self._keeper is not None:
            self._keeper.check()
        pool, before = self.pool.state(), self._at.copy()
        try:
            yield
            if self._keeper is not None:
                self._save_state()
        except BaseException:
            self.pool.load_state(pool)
            self._at = before
            raise

    def _save_state(self) -> None:
        if self._keeper is None:
            raise StateError('this learner has no directory. Pass one: learner.save("runs/mine").')
        self._keeper.save(self._settings(), self._parts(), self._at)
