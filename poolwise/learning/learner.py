"""The learner: train, predict, select, take labels, and resume after any interruption."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from poolwise import budget
from poolwise.arrays import Array, Values
from poolwise.data.batches import Data
from poolwise.data.examples import Examples, as_examples, needed_labels
from poolwise.data.opening import OpenedData
from poolwise.data.pool import Pool
from poolwise.errors import StateError
from poolwise.learning.answers import Answers
from poolwise.learning.current import Current
from poolwise.learning.features import Features, FeaturesLike
from poolwise.learning.held_out import predict_held_out
from poolwise.learning.loading import arguments
from poolwise.learning.made_by import MadeBy
from poolwise.learning.model import Model, PosteriorLike
from poolwise.learning.next_batch import ask, choices, first_batch, read_candidates
from poolwise.learning.query import Query, plain_scores
from poolwise.learning.rounds import Round
from poolwise.learning.saving import Saver
from poolwise.learning.settings import Settings, first_method, plain, whole, whole_samples
from poolwise.metrics import evaluate
from poolwise.posteriors.posterior import Posterior
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent
from poolwise.seeding import child_seed
from poolwise.selection import registry
from poolwise.selection.registry import MethodLike


class ActiveLearner(Answers):
    """Chooses what to label next from a pool, and learns from the labels.

    Two calls make a round: `query()` trains on what is labelled, predicts what is not, and says what to label next;
    `update(indices, labels)` takes the labels. At any time you can add labels of other examples, correct labels, reject
    examples that cannot be labelled, and add examples and classes. With a directory, each change is on the disk before
    the call returns: a learner that was killed resumes from there, with the result it would have had.

    One learner at a time can write to a directory. Another process gets a `LockedError` that says who has it. Within
    one process the newest learner takes over, and an older one refuses any further change. The directory is free again
    once the learner is closed (`close()`, or the end of a `with` block), deleted, or its process ends.

    Args:
        posterior: the model, see `poolwise.posteriors`; or a function from the number of classes to one. A posterior of
            networks must be such a function if classes are to be added later, since its networks have one output per
            class: `lambda classes: DeepEnsemble(lambda: pw.models.mlp((64,), classes))`.
        pool: a `Pool`, or the data for one.
        method: name of a selection method (`poolwise.methods()` lists them), or a function of your own.
        batch_size: how many labels to ask for at a time; fewer when fewer are left.
        directory: where the state is saved. If it has the state of an earlier learner with the same settings and the
            same data, this learner resumes from it. None saves nothing.
        seed: root of all randomness.
        test: labelled examples on which the model of every round is evaluated.
        test_samples: evaluate with the first `test_samples` posterior samples only; by default with all of them.
        validation: labelled examples for early stopping and `stopping.Target`, in place of those the pool holds out.
        memory: working memory for predicting and selecting, in bytes or as `"2GB"`.
        self_contained: whether posterior and data are saved in the directory too, so that `load` needs nothing else.
        features: which features are passed to methods that need embeddings:
            - None: the kind that the method prefers, or the other kind where that one is missing;
            - `"network"`: what goes into the last layer of the trained network;
            - `"fixed"`: features that do not depend on the model: the output of the data's encoder, or the inputs
              themselves where they are numbers;
            - an `[N, D]` array, with a row for each example of the data;
            - a function from a batch of inputs (an array or a list of texts) to `[n, D]`, where each row depends on its
              own input only; or the place of one, `"package.module:function"`.

            All but those of the network are computed once and kept.
        first: how the first batch is chosen while nothing is labelled: `"random"`, or a method that needs nothing but
            features, such as `"k-means"`. It gets fixed features, since there is no trained network. Where there are
            none, the batch is drawn at random, with a `FeaturesWarning`.
        agreement: whether to track how far successive models agree on the pool (`Round.agreement`), which takes another
            pass over the pool in each round. `stopping.Stable` needs it.
        check_data: whether to compare the data, row by row, with that of the saved state. Pass False for data that is
            different each time it is read.
        grow: whether the data may have new rows at its end, and the pool new classes, since the state was saved. The
            old rows are checked as before.
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
        posterior: PosteriorLike,
        pool: Pool | Data | OpenedData,
        method: MethodLike = registry.DEFAULT,
        batch_size: int = 10,
        directory: str | Path | None = None,
        seed: int = 0,
        *,
        test: Data | None = None,
        test_samples: int | None = None,
        validation: Data | None = None,
        memory: int | str = budget.DEFAULT,
        self_contained: bool = True,
        features: FeaturesLike = None,
        first: MethodLike = "random",
        agreement: bool = False,
        check_data: bool = True,
        grow: bool = False,
        report: Report = silent,
        **parameters: Any,
    ) -> None:
        self._method = registry.resolve(method)
        Settings(self._method.reference, parameters, batch_size, seed, memory).check(self._method)
        self._first = first_method(first)
        self.pool = pool if isinstance(pool, Pool) else Pool(pool)
        self._model = Model(posterior, self.pool.classes)
        self.method, self.batch_size, self.seed = self._method.name, int(batch_size), int(seed)
        self.agreement, self.test_samples = agreement, None if test_samples is None else whole_samples(test_samples)
        if "candidates" in parameters:
            parameters["candidates"] = read_candidates(parameters["candidates"], self.pool)
        self._parameters, self._memory, self._report = parameters, memory, report
        self._features = Features(features, self.pool, memory)
        self._features.whole_numbers = bool(getattr(self.posterior, "embeds_inputs", False))
        self._test: Examples | None = None if test is None else as_examples(test)
        self._validation: Examples | None = None if validation is None else as_examples(validation)
        for examples in (self._test, self._validation):
            if examples is not None:
                needed_labels(examples, "evaluating a model")
        self._check_data, self._self_contained = check_data, self_contained
        self._now = Current()
        self._saver: Saver | None = None
        if directory is not None:
            self._open(Path(directory), grow=grow)

    def __repr__(self) -> str:
        waiting = "" if self._now.query is None else f", {len(self._now.query)} asked for"
        return f"ActiveLearner({self.method}, batches of {self.batch_size}{waiting}; {self.pool})"

    @property
    def posterior(self) -> Posterior:
        """The model."""
        return self._model.posterior

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds so far. The last one belongs to the batch that is being labelled now."""
        return tuple(self._now.rounds)

    @property
    def choices(self) -> Array:
        """Positions in the data of what can be picked: unlabelled, and among `candidates` if those are positions."""
        return choices(self.pool, self._parameters.get("candidates"))

    def query(self, batch_size: int | None = None) -> Query:
        """The examples to label next. Until all of them are answered, further calls return those that are left.

        While nothing is labelled there is no model. The batch is then drawn at random, or selected by the method
        `first`: its `origin` is `"random"` or `"first"`. Scores of a random batch are NaN.

        Args:
            batch_size: the size of a new batch, in place of the learner's own; a batch that is waiting stays as it is.
        Returns:
            The batch: `indices`, `ids`, `scores` and `diagnostics`.
        Raises:
            StateError: if nothing is left to label.
        """
        if self._now.query is not None:
            return self._now.query
        count = min(self.batch_size if batch_size is None else whole(batch_size), len(self.choices))
        if count == 0:
            what = "everything in the pool is" if not len(self.pool.unlabelled) else "all candidates are"
            rejected = " or rejected" if len(self.pool.rejected) else ""
            raise StateError(f"{what} labelled{rejected}: there is nothing left to ask for.")
        self._continue()
        self._features.folder = self.directory
        if self._now.trained is None and "embeddings" in self._method.inputs(self._parameters):
            self._features.check(self._method, self.posterior)  # before a model is trained in vain
        trained = self.fit()
        with self._changing():
            query, trained = self._ask(count, trained) if trained.labelled else self._ask_first(count, trained)
            self._now.query, self._now.trained = query, None
            self._now.rounds.append(
                replace(
                    trained,
                    indices=tuple(query.indices.tolist()),
                    scores=tuple(plain_scores(query.scores)),
                    diagnostics=None if query.diagnostics is None else query.diagnostics.as_dict(),
                    origin=query.origin,
                    made_by=query.made_by,
                )
            )
        return query

    def fit(self) -> Round:
        """Train on the labels that there are now, unless that is done, and evaluate on test and validation sets.

        Returns:
            The round, so far without a batch.
        """
        if self._saver is not None:
            self._saver.check()
        if self._now.trained is None:
            self._now.trained = self._train()
            if self._saver is not None:
                self._saver.current = False
        if self._saver is not None and not self._saver.current:
            self._save_state()
        return self._now.trained

    def predict(self, data: Data) -> Predictions:
        """Predict with the current model.

        Args:
            data: examples of the same kind as those of the pool.
        Returns:
            `[N, K, C]` predictions.
        """
        return self.posterior.predict(data, memory=self._memory, report=self._report)

    def finish(self, reason: str) -> Round:
        """Train once more on all labels, and record why no more are asked for.

        Args:
            reason: why; it becomes `Round.final`.
        Returns:
            The last round.
        """
        if self._now.rounds and self._now.rounds[-1].final is not None and not self._now.outdated:
            return self._now.rounds[-1]
        self._continue()
        trained = self.fit()
        with self._changing():
            self._now.rounds.append(replace(trained, final=reason))
        return self._now.rounds[-1]

    def _continue(self) -> None:
        """Take back the final round, if there is one."""
        if self._now.rounds and self._now.rounds[-1].final is not None:
            with self._changing():
                self._now.reopen()

    def _train(self) -> Round:
        number, labelled = len(self._now.rounds), len(self.pool.labelled)
        seconds = {"train": 0.0, "predict": 0.0, "select": 0.0}
        metrics = validation = None
        if labelled:
            started = time.perf_counter()
            held_out = self._validation or self.pool.validation_examples()
            # Training depends on the seed and the round only, so that methods compared on one seed start alike.
            seed = child_seed(self.seed, "training", number)
            self._model.fit(self.pool, held_out, seed=seed, report=self._report)
            self._now.model += 1
            self._now.outdated = False
            seconds["train"] = time.perf_counter() - started
            metrics = None if self._test is None else self._evaluate(self._test)
            validation = None if held_out is None else self._evaluate(held_out)
        return Round(number, labelled, metrics, validation, seconds=seconds)

    def _evaluate(self, examples: Examples) -> dict[str, float]:
        labels = needed_labels(examples, "evaluating a model")
        return evaluate(self.predict(examples), labels, samples=self.test_samples, memory=self._memory)

    def _ask_first(self, count: int, trained: Round) -> tuple[Query, Round]:
        """A first batch, without a model."""
        started = time.perf_counter()
        query = first_batch(
            self.pool,
            self._first,
            count,
            self._parameters.get("candidates"),
            features=self._features,
            seed=self.seed,
            number=trained.round,
            memory=self._memory,
            report=self._report,
        )
        if query.origin == "random":
            return self._signed(query, "random", None), trained
        assert self._first is not None
        seconds = {**trained.seconds, "select": time.perf_counter() - started}
        return self._signed(query, self._first.reference, None), replace(trained, seconds=seconds)

    def _ask(self, count: int, trained: Round) -> tuple[Query, Round]:
        """A batch that the method selects."""
        asked = ask(
            self.posterior,
            self.pool,
            self._method,
            count,
            self._parameters,
            features=self._features,
            seed=child_seed(self.seed, "selection", trained.round),
            classes=self.agreement,
            memory=self._memory,
            report=self._report,
            held_out=lambda: predict_held_out(
                self._model,
                self.pool,
                self._validation or self.pool.validation_examples(),
                seed=child_seed(self.seed, "held out", trained.round),
                memory=self._memory,
                report=self._report,
            ),
        )
        agreement = self._now.note_classes(asked.classes, self.pool.unlabelled, len(self.pool), trained.round)
        seconds = {**asked.seconds, "train": trained.seconds["train"] + asked.seconds["train"]}
        query = self._signed(asked.query, self._method.reference, self.posterior)
        return query, replace(trained, seconds=seconds, agreement=agreement, tracked=self.agreement)

    def _signed(self, query: Query, method: str, posterior: Posterior | None) -> Query:
        """A batch with the ids of its examples and the record of what made it."""
        model = self._now.model if posterior is not None else 0
        made_by = MadeBy.of(method, posterior, model, self.pool.classes, self.pool.encoder, self._features.setting)
        return replace(query, ids=self.pool.ids_of(query.indices), made_by=made_by)

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        method: MethodLike | None = None,
        posterior: PosteriorLike | None = None,
        data: Data | OpenedData | None = None,
        ids: Values | None = None,
        test: Data | None = None,
        validation: Data | None = None,
        features: FeaturesLike = None,
        first: MethodLike | None = None,
        check_data: bool = True,
        grow: bool = False,
        read_only: bool = False,
        report: Report = silent,
    ) -> Self:
        """Load a saved learner, as it was after its last change.

        Loading runs code that was saved with the posterior and the data: only load what you trust.

        Args:
            directory: where it was saved.
            method: the selection method, if it is a function that cannot be imported, such as a lambda.
            posterior: used instead of the saved one.
            data: used instead of the saved data; it must have the same rows in the same order. Or a `Pool` of them.
            ids: the ids of its examples, if the learner was saved without them.
            test: used instead of the saved test set.
            validation: used instead of the saved validation set.
            features: the array or function of features, if it was not saved with the learner.
            first: the method for the first batch, if it is a function that cannot be imported.
            check_data: whether to compare the data, test and validation sets with those of the saved state.
            grow: whether `data` may have more rows at its end, which are added to the pool.
            read_only: whether to open it without locking the directory, to read and to predict; changes are refused.
            report: called with (stage, done, total) as the work proceeds.
        """
        folder = Path(directory)
        given = {"posterior": posterior, "data": data, "ids": ids, "test": test, "validation": validation}
        given["features"] = features
        learner = cls(**arguments(folder, given, method, first), check_data=check_data, report=report)
        learner._open(folder, read_only=read_only, grow=grow)
        return learner

    def _settings(self) -> Settings:
        parameters = {name: plain(value) for name, value in self._parameters.items()}
        return Settings(
            self._method.reference,
            parameters,
            self.batch_size,
            self.seed,
            self._memory,
            self.agreement,
            self._features.setting,
            "random" if self._first is None else self._first.reference,
            self.test_samples,
        )
