"""The whole algorithm on one page: train, predict, select, take labels, and go on from there after any interruption."""

import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import cloudpickle
import numpy as np
import torch

from poolwise import memory as budget
from poolwise import registry
from poolwise.data.examples import Examples, as_examples, as_labels, needed_labels
from poolwise.data.pool import Pool
from poolwise.errors import FileError, LabelError, MissingInputError, ParameterError, SaturationWarning, StateError
from poolwise.metrics import evaluate
from poolwise.posteriors.posterior import Posterior
from poolwise.predictions import Predictions
from poolwise.predictions.arrays import Array
from poolwise.progress import Report, silent
from poolwise.query import Query
from poolwise.rounds import Round
from poolwise.scores.pool import score_pool
from poolwise.seeding import child_seed, stream
from poolwise.selection.select import select
from poolwise.stopping import Budget, Rule
from poolwise.storage import read_json, replacing, write_json

_STATE, _OBJECTS = "learner.json", "objects.pkl"


class ActiveLearner:
    """Chooses what to label next from a pool, and learns from the labels.

    Two calls make a round: `query()` trains on what is labelled, predicts what is not, and says what to label next;
    `update(indices, labels)` takes the labels. Each change is on the disk before the call returns, if there is a
    directory: a learner that was killed goes on from there, with the result it would have had.

    Args:
        posterior: the model, see `poolwise.posteriors`.
        pool: a `Pool`, or data to make one of.
        method: name of a selection method; `poolwise.methods()` lists them.
        batch_size: how many labels to ask for at a time; fewer when fewer are left.
        directory: where the state is kept. If it holds the state of an earlier learner with the same settings, this
            one goes on from there.
        seed: root of all randomness.
        test: labelled examples on which every round's model is judged.
        validation: labelled examples for early stopping and `stopping.Target`, instead of those that the pool holds out.
        memory: working memory for predicting and selecting, in bytes or as `"2GB"`.
        self_contained: whether the directory also holds posterior and data, so that `load` needs nothing else.
        report: called with (stage, done, total) as the work goes on.
        parameters: the method's own parameters, and `candidates`.
    """

    def __init__(
        self,
        posterior: Posterior,
        pool: object,
        method: str = "power-lbb",
        batch_size: int = 10,
        directory: str | Path | None = None,
        seed: int = 0,
        *,
        test: object = None,
        validation: object = None,
        memory: int | str = budget.DEFAULT,
        self_contained: bool = True,
        report: Report = silent,
        **parameters: Any,
    ) -> None:
        own = {name: value for name, value in parameters.items() if name not in ("candidates", "information")}
        registry.find(method).check(own)
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ParameterError(f"batch_size must be a whole number of at least 1, not {batch_size!r}.")
        stream(seed)
        self.posterior, self.pool = posterior, pool if isinstance(pool, Pool) else Pool(pool)
        self.method, self.batch_size, self.seed = method, batch_size, seed
        self._parameters, self._memory, self._report = parameters, memory, report
        self._self_contained = self_contained
        self._test: Examples | None = None if test is None else as_examples(test)
        self._validation: Examples | None = None if validation is None else as_examples(validation)
        self._rounds: list[Round] = []
        self._query: Query | None = None
        self._trained: Round | None = None  # the round whose model the posterior holds, not yet in the history
        self._classes_N: Array | None = None  # what the last model says of each example, -1 where it was not asked
        self.directory = None if directory is None else Path(directory)
        if self.directory is not None:
            if (self.directory / _STATE).exists():
                self._resume(read_json(self.directory / _STATE))
            else:
                self.save()

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds so far; the last one is that of the batch that is asked for now."""
        return tuple(self._rounds)

    @property
    def pending(self) -> Query | None:
        """What is asked for and not yet labelled, or None."""
        return self._query

    def query(self, batch_size: int | None = None) -> Query:
        """What to label next. Asked again, it is the same until labels come; then what is left of it.

        While nothing is labelled there is no model to ask, and the batch is drawn at random.

        Args:
            batch_size: another size, for a new batch only.
        """
        if self._query is not None:
            return self._query
        count = min(batch_size or self.batch_size, len(self.pool.unlabelled))
        if count == 0:
            raise StateError("everything in the pool is labelled: there is nothing left to ask for.")
        trained = self.fit()
        if not len(self.pool.labelled):
            drawn = stream(self.seed, "first batch").choice(self.pool.unlabelled, count, replace=False)
            self._query = Query(drawn, np.zeros(count), None)
        else:
            self._query, trained = self._select(count, trained)
        self._trained = None
        self._rounds.append(
            _with(
                trained,
                indices=tuple(self._query.indices.tolist()),
                scores=tuple(self._query.scores.tolist()),
                diagnostics=None if self._query.diagnostics is None else self._query.diagnostics.as_dict(),
            )
        )
        self._save_classes(trained.round)
        self._save_state()
        if self.directory is not None:
            self._remove_old("classes-*.npy", self.directory / f"classes-{trained.round:05}.npy")
        return self._query

    def update(self, indices: object, labels: object) -> None:
        """Take labels of what was asked for: all of it or a part, in any order.

        Args:
            indices: positions in the data, from `query().indices`.
            labels: their labels, whole numbers from 0.
        """
        indices_n = self.pool.positions(indices)
        asked = set() if self._query is None else set(self._query.indices.tolist())
        unasked = [index for index in indices_n.tolist() if index not in asked]
        known = set(self.pool.labelled.tolist())
        for index in unasked:
            if index in known:
                raise LabelError(f"example {index} has a label already. To change it, use correct().")
            raise LabelError(f"example {index} was not asked for. Label the examples of query().indices.")
        self.pool.label(indices_n, labels)
        left = ~np.isin(self._query.indices, indices_n) if self._query is not None else np.zeros(0, bool)
        self._query = self._query.part(left) if self._query is not None and left.any() else None
        self._trained = None
        self._save_state()

    def correct(self, indices: object, labels: object) -> None:
        """Replace labels given before; the next model learns from the new ones."""
        self.pool.correct(indices, labels)
        self._trained = None
        self._save_state()

    def skip(self) -> None:
        """Give up what is left of the current batch, so that the next `query()` selects anew."""
        self._query = None
        self._save_state()

    def fit(self) -> Round:
        """Train on what is labelled now, unless that is done, and judge the model on the test and validation sets."""
        if self._trained is not None:
            return self._trained
        number, labelled = len(self._rounds), len(self.pool.labelled)
        seconds = {"train": 0.0, "predict": 0.0, "select": 0.0}
        metrics = validation = None
        if labelled:
            started = time.perf_counter()
            held_out = self._validation or self.pool.validation_examples()
            # Training depends on the seed and the round only, so that methods compared on one seed start alike.
            seed = child_seed(self.seed, "training", number)
            self.posterior.fit(self.pool.labelled_examples(), held_out, seed=seed, report=self._report)
            seconds["train"] = time.perf_counter() - started
            metrics = None if self._test is None else self._judge(self._test)
            validation = None if held_out is None else self._judge(held_out)
        self._trained = Round(number, labelled, metrics, validation, seconds=seconds)
        self._save_weights(self._trained)
        return self._trained

    def predict(self, data: object) -> Predictions:
        """Predictions of the current model."""
        return self.posterior.predict(data, memory=self._memory, report=self._report)

    def finish(self, reason: str) -> Round:
        """Train once more on all labels and close the history with the reason for stopping."""
        if self._rounds and self._rounds[-1].final is not None:
            return self._rounds[-1]
        self._rounds.append(_with(self.fit(), final=reason))
        self._save_state()
        return self._rounds[-1]

    def _select(self, count: int, trained: Round) -> tuple[Query, Round]:
        """Predict what is unlabelled and select from it; positions among the unlabelled are translated here."""
        started = time.perf_counter()
        unlabelled = self.pool.unlabelled
        with_embeddings = "embeddings" in registry.find(self.method).needs
        predictions = self.posterior.predict(
            self.pool.unlabelled_examples(), embeddings=with_embeddings, memory=self._memory, report=self._report
        )
        if with_embeddings:
            known = self.posterior.embed(self.pool.labelled_examples(), memory=self._memory)
            predictions = predictions.with_embeddings(labelled_embeddings=known)
        agreement = self._agree(predictions, unlabelled)
        predicted = time.perf_counter()
        seed = child_seed(self.seed, "selection", trained.round)
        batch = select(
            predictions, count, self.method, seed=seed, memory=self._memory, report=self._report, **self._parameters
        )
        finished = time.perf_counter()
        seconds = {**trained.seconds, "predict": predicted - started, "select": finished - predicted}
        query = Query(unlabelled[batch.indices], batch.scores, batch.diagnostics)
        return query, _with(trained, seconds=seconds, agreement=agreement)

    def _agree(self, predictions: Predictions, unlabelled: Array) -> float | None:
        """Cohen's kappa between this model and the one before, on what was unlabelled both times."""
        before = self._classes_N
        now = score_pool(predictions, lambda block: block.probs.mean(1).argmax(1).double()).astype(np.int64)
        self._classes_N = np.full(len(self.pool), -1, np.int64)
        self._classes_N[unlabelled] = now
        return None if before is None else kappa(before[unlabelled], now, self.pool.classes)

    def _judge(self, examples: Examples) -> dict[str, float]:
        return evaluate(self.predict(examples), needed_labels(examples, "judging a model"), memory=self._memory)

    # The state

    def save(self, directory: str | Path | None = None) -> None:
        """Write everything that `load` needs: pool, labels, history, weights, and the learner's own settings.

        A learner with a directory does this by itself at every change.
        """
        if directory is not None:
            self.directory = Path(directory)
        if self.directory is None:
            raise StateError('this learner has no directory. Pass one: learner.save("runs/mine").')
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make the directory {self.directory} ({error.strerror}).") from error
        if self._self_contained:
            self._save_objects(self.directory / _OBJECTS)
        if self._trained is not None:
            self._save_weights(self._trained)
        self._save_state()

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        posterior: Posterior | None = None,
        data: object = None,
        test: object = None,
        validation: object = None,
        report: Report = silent,
    ) -> Self:
        """A learner as it was when its state was last written.

        Loading runs code that was saved with the posterior and the data: only load what you trust.

        Args:
            directory: where it was saved.
            posterior: used instead of the saved one.
            data: used instead of the saved data.
            test: used instead of the saved test set.
            validation: used instead of the saved validation set.
            report: called with (stage, done, total) as the work goes on.
        """
        folder = Path(directory)
        if not (folder / _STATE).exists():
            raise FileError(f"{folder} holds no learner: there is no {_STATE} in it. Check the path.")
        state = read_json(folder / _STATE)
        objects: dict[str, Any] = {"test": test, "validation": validation}
        if posterior is None or data is None:
            if not (folder / _OBJECTS).exists():
                raise MissingInputError(f"{folder} was saved without posterior and data: pass posterior= and data=.")
            with (folder / _OBJECTS).open("rb") as file:
                objects = {**cloudpickle.load(file), **{k: v for k, v in objects.items() if v is not None}}
        settings = state["settings"]
        return cls(
            posterior if posterior is not None else objects["posterior"],
            Pool(objects["data"] if data is None else data, state["pool"]["classes"]),
            settings["method"],
            settings["batch_size"],
            folder,
            settings["seed"],
            test=objects["test"],
            validation=objects["validation"],
            memory=settings["memory"],
            self_contained=(folder / _OBJECTS).exists(),
            report=report,
            **settings["parameters"],
        )

    def _save_objects(self, path: Path) -> None:
        try:
            with replacing(path) as file:
                objects = {"posterior": self.posterior, "data": self.pool.data}
                cloudpickle.dump({**objects, "test": self._test, "validation": self._validation}, file)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise ParameterError(
                f"the posterior or the data cannot be saved ({error}). Pass self_contained=False, and give both to "
                "ActiveLearner.load when you go on."
            ) from error

    def _settings(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "parameters": {name: _plain(value) for name, value in self._parameters.items()},
            "batch_size": self.batch_size,
            "seed": self.seed,
            "memory": self._memory,
        }

    def _save_state(self) -> None:
        if self.directory is None:
            return
        state = {
            "settings": self._settings(),
            "pool": self.pool.state(),
            "rounds": [entry.as_dict() for entry in self._rounds],
            "query": None if self._query is None else self._query.as_dict(),
            "trained": None if self._trained is None else self._trained.as_dict(),
        }
        write_json(self.directory / _STATE, state)

    def _save_weights(self, trained: Round) -> None:
        """The model first, then the state that speaks of it; older models go last."""
        if self.directory is None:
            return
        path = self.directory / f"weights-{trained.round:05}.pt"
        with replacing(path) as file:
            torch.save(self.posterior.state(), file)
        self._save_state()
        self._remove_old("weights-*.pt", path)

    def _save_classes(self, number: int) -> None:
        """What this round's model says of the pool, likewise."""
        if self.directory is None or self._classes_N is None:
            return
        path = self.directory / f"classes-{number:05}.npy"
        with replacing(path) as file:
            np.save(file, self._classes_N, allow_pickle=False)

    def _remove_old(self, pattern: str, newest: Path) -> None:
        for old in newest.parent.glob(pattern):
            if old != newest:
                old.unlink(missing_ok=True)

    def _resume(self, state: Mapping[str, Any]) -> None:
        different = {k: (v, state["settings"][k]) for k, v in self._settings().items() if state["settings"][k] != v}
        different.pop("memory", None)
        if different:
            name, (mine, saved) = next(iter(different.items()))
            raise StateError(
                f"{self.directory} holds a learner with {name} = {saved!r}, not {mine!r}. Use another directory, or "
                "ActiveLearner.load to go on with the saved settings."
            )
        self.pool.load_state(state["pool"])
        self._rounds = [Round.from_dict(entry) for entry in state["rounds"]]
        self._query = None if state["query"] is None else Query.from_dict(state["query"])
        self._trained = None if state["trained"] is None else Round.from_dict(state["trained"])
        assert self.directory is not None
        classes = self.directory / f"classes-{len(self._rounds) - 1:05}.npy"
        self._classes_N = np.load(classes, allow_pickle=False) if classes.exists() else None
        last = self._trained or (self._rounds[-1] if self._rounds else None)
        if last is not None and last.labelled:
            weights = self.directory / f"weights-{last.round:05}.pt"
            if weights.exists():
                self.posterior.load_state(torch.load(weights, weights_only=True))
            else:
                self._trained = None  # the weights are gone: train again, with the same result


Oracle = Callable[[Array], object]


def simulate(
    learner: ActiveLearner, oracle: Oracle | object, budget: int | None = None, stop: Sequence[Rule] = ()
) -> Iterator[Round]:
    """Run a learner against known labels; a round is yielded as soon as its labels are taken.

    Args:
        learner: the learner; one that was interrupted goes on where it was.
        oracle: a function from positions in the data to labels, or all labels by position.
        budget: stop when so many examples are labelled in all, those from the start included. The last batch is cut
            to fit.
        stop: other rules for stopping, see `poolwise.stopping`.
    Yields:
        The rounds that are not in the learner's history yet, the last one with the reason for stopping.
    """
    answer = oracle if callable(oracle) else _lookup(oracle, len(learner.pool))
    rules = [*stop, *([] if budget is None else [Budget(budget)])]
    while not (learner.rounds and learner.rounds[-1].final):
        room = len(learner.pool.unlabelled) if budget is None else budget - len(learner.pool.labelled)
        reason = next((why for rule in rules if (why := rule.reason(learner.rounds))), None)
        if reason is None and learner.pending is None and room <= 0:
            reason = "everything is labelled" if budget is None else f"the budget of {budget} labels is used"
        if reason is not None:
            yield learner.finish(reason)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SaturationWarning)  # every round's diagnostics say it
            query = learner.query(min(learner.batch_size, room))
        entry = learner.rounds[-1]
        learner.update(query.indices, answer(query.indices))
        yield entry


def _lookup(labels: object, count: int) -> Oracle:
    labels_N = as_labels(labels, count)
    return lambda indices_n: labels_N[indices_n]


def kappa(first_n: Array, second_n: Array, classes: int) -> float:
    """Cohen's kappa: agreement beyond what chance would give; 1 if both give one and the same class everywhere."""
    counts = np.zeros((classes, classes))
    np.add.at(counts, (first_n, second_n), 1)
    shares = counts / max(1, len(first_n))
    chance = float(shares.sum(0) @ shares.sum(1))
    return 1.0 if chance >= 1 else float((np.trace(shares) - chance) / (1 - chance))


def _with(entry: Round, **changes: Any) -> Round:
    return Round(**{**vars(entry), **changes})


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
