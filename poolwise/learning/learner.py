"""The whole algorithm on one page: train, predict, select, take labels, and go on from there after any interruption."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

import numpy as np
import torch

from poolwise import budget
from poolwise.arrays import Array
from poolwise.data.examples import Examples, as_examples, needed_labels
from poolwise.data.pool import Pool
from poolwise.errors import FileError, LabelError, MissingInputError, ParameterError, StateError, UnknownMethodError
from poolwise.learning.checkpoint import CLASSES, OBJECTS, STATE, WEIGHTS, Checkpoint, read_objects, read_state
from poolwise.learning.query import Query
from poolwise.learning.rounds import Round
from poolwise.metrics import evaluate, kappa
from poolwise.posteriors.posterior import Posterior
from poolwise.predictions import Predictions
from poolwise.progress import Report, silent
from poolwise.scores.pool import score_pool
from poolwise.seeding import child_seed, stream
from poolwise.selection import registry
from poolwise.selection.registry import MethodLike
from poolwise.selection.select import select


class ActiveLearner:
    """Chooses what to label next from a pool, and learns from the labels.

    Two calls make a round: `query()` trains on what is labelled, predicts what is not, and says what to label next;
    `update(indices, labels)` takes the labels. Each change is on the disk before the call returns, if there is a
    directory: a learner that was killed goes on from there, with the result it would have had.

    Args:
        posterior: the model, see `poolwise.posteriors`.
        pool: a `Pool`, or data to make one of.
        method: name of a selection method (`poolwise.methods()` lists them), or a function of your own.
        batch_size: how many labels to ask for at a time; fewer when fewer are left.
        directory: where the state is kept. If it holds the state of an earlier learner with the same settings, this
            one goes on from there.
        seed: root of all randomness.
        test: labelled examples on which every round's model is judged.
        validation: labelled examples for early stopping and `stopping.Target`, in place of those the pool holds out.
        memory: working memory for predicting and selecting, in bytes or as `"2GB"`.
        self_contained: whether the directory also holds posterior and data, so that `load` needs nothing else.
        report: called with (stage, done, total) as the work goes on.
        parameters: the method's own parameters, and `candidates`: a share, a number, or positions in the data.
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
        report: Report = silent,
        **parameters: Any,
    ) -> None:
        own = {name: value for name, value in parameters.items() if name not in ("candidates", "information")}
        self._method = registry.resolve(method)
        self._method.check(own)
        stream(seed)
        budget.parse(memory)
        self.posterior, self.pool = posterior, pool if isinstance(pool, Pool) else Pool(pool)
        self.method, self.batch_size, self.seed = self._method.name, _whole(batch_size), int(seed)
        self._parameters, self._memory, self._report = parameters, memory, report
        self._self_contained = self_contained
        self._test: Examples | None = None if test is None else as_examples(test)
        self._validation: Examples | None = None if validation is None else as_examples(validation)
        for examples in (self._test, self._validation):
            if examples is not None:
                needed_labels(examples, "judging a model")
        self._rounds: list[Round] = []
        self._query: Query | None = None
        self._trained: Round | None = None  # the round whose model the posterior holds, not yet in the history
        self._model = 0  # the number of the model that the posterior holds; 0 for none
        self._classes_N: Array | None = None  # what the last model says of each example, -1 where it was not asked
        self._classes_round = 0  # the round of that model
        self._saved = False  # whether the checkpoint is up to date with the model
        self._checkpoint = None if directory is None else Checkpoint(Path(directory))
        if self._checkpoint is not None:
            if (self._checkpoint.folder / STATE).exists():
                self._resume(self._checkpoint)
            else:
                self.save()

    @property
    def directory(self) -> Path | None:
        """Where the state is kept."""
        return None if self._checkpoint is None else self._checkpoint.folder

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
        count = min(self.batch_size if batch_size is None else _whole(batch_size), len(self._choices()))
        if count == 0:
            raise StateError("everything in the pool is labelled: there is nothing left to ask for.")
        if self._rounds and self._rounds[-1].final is not None:  # it goes on after all, with the model it has
            with self._changing():
                self._trained = _with(self._rounds.pop(), final=None)
        trained = self.fit()
        with self._changing():
            if not len(self.pool.labelled):
                drawn = stream(self.seed, "first batch", trained.round).choice(self._choices(), count, replace=False)
                query = Query(drawn, np.zeros(count), None)
            else:
                query, trained = self._select(count, trained)
            self._query, self._trained = query, None
            self._rounds.append(
                _with(
                    trained,
                    indices=tuple(query.indices.tolist()),
                    scores=tuple(query.scores.tolist()),
                    diagnostics=None if query.diagnostics is None else query.diagnostics.as_dict(),
                )
            )
        return query

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
        with self._changing():
            self.pool.label(indices_n, labels)
            left = ~np.isin(self._query.indices, indices_n) if self._query is not None else np.zeros(0, bool)
            self._query = self._query.part(left) if self._query is not None and left.any() else None
            self._trained = None

    def correct(self, indices: object, labels: object) -> None:
        """Replace labels given before; the next model learns from the new ones."""
        with self._changing():
            self.pool.correct(indices, labels)
            self._trained = None

    def skip(self) -> None:
        """Give up what is left of the current batch, so that the next `query()` selects anew."""
        with self._changing():
            self._query = None

    def fit(self) -> Round:
        """Train on what is labelled now, unless that is done, and judge the model on the test and validation sets."""
        if self._trained is None:
            self._trained, self._saved = self._train(), False
        if not self._saved:
            self._save_state()
        return self._trained

    def _train(self) -> Round:
        number, labelled = len(self._rounds), len(self.pool.labelled)
        seconds = {"train": 0.0, "predict": 0.0, "select": 0.0}
        metrics = validation = None
        if labelled:
            started = time.perf_counter()
            held_out = self._validation or self.pool.validation_examples()
            # Training depends on the seed and the round only, so that methods compared on one seed start alike.
            seed = child_seed(self.seed, "training", number)
            self.posterior.fit(self.pool.labelled_examples(), held_out, seed=seed, report=self._report)
            self._model += 1
            seconds["train"] = time.perf_counter() - started
            metrics = None if self._test is None else self._judge(self._test)
            validation = None if held_out is None else self._judge(held_out)
        return Round(number, labelled, metrics, validation, seconds=seconds)

    def predict(self, data: object) -> Predictions:
        """Predictions of the current model."""
        return self.posterior.predict(data, memory=self._memory, report=self._report)

    def finish(self, reason: str) -> Round:
        """Train once more on all labels and close the history with the reason for stopping."""
        if self._rounds and self._rounds[-1].final is not None:
            return self._rounds[-1]
        trained = self.fit()
        with self._changing():
            self._rounds.append(_with(trained, final=reason))
        return self._rounds[-1]

    def _choices(self) -> Array:
        """Positions in the data of what may be asked for: unlabelled, and among `candidates` if those are positions."""
        candidates, unlabelled = self._parameters.get("candidates"), self.pool.unlabelled
        if candidates is None or isinstance(candidates, str | Integral):
            return unlabelled
        return np.intersect1d(self.pool.positions(candidates), unlabelled)

    def _select(self, count: int, trained: Round) -> tuple[Query, Round]:
        """Predict what is unlabelled and select from it; positions among the unlabelled are translated here."""
        started = time.perf_counter()
        unlabelled = self.pool.unlabelled
        with_embeddings = "embeddings" in self._method.inputs(self._parameters)
        predictions = self.posterior.predict(
            self.pool.unlabelled_examples(), embeddings=with_embeddings, memory=self._memory, report=self._report
        )
        if with_embeddings:
            known = self.posterior.embed(self.pool.labelled_examples(), memory=self._memory)
            predictions = predictions.with_embeddings(labelled_embeddings=known)
        classes_n = score_pool(predictions, lambda block: block.probs.mean(1).argmax(1).double()).astype(np.int64)
        agreement = None if self._classes_N is None else kappa(self._classes_N[unlabelled], classes_n)
        predicted = time.perf_counter()
        seed = child_seed(self.seed, "selection", trained.round)
        parameters, choices = self._parameters, self._choices()
        if len(choices) < len(unlabelled):
            parameters = {**parameters, "candidates": np.searchsorted(unlabelled, choices)}
        elif parameters.get("candidates") is not None and not isinstance(parameters["candidates"], str | Integral):
            parameters = {**parameters, "candidates": None}
        batch = select(
            predictions, count, self._method, seed=seed, memory=self._memory, report=self._report, **parameters
        )
        finished = time.perf_counter()
        self._classes_N, self._classes_round = np.full(len(self.pool), -1, np.int64), trained.round
        self._classes_N[unlabelled] = classes_n
        seconds = {**trained.seconds, "predict": predicted - started, "select": finished - predicted}
        query = Query(unlabelled[batch.indices], batch.scores, batch.diagnostics)
        return query, _with(trained, seconds=seconds, agreement=agreement)

    def _judge(self, examples: Examples) -> dict[str, float]:
        return evaluate(self.predict(examples), needed_labels(examples, "judging a model"), memory=self._memory)

    # The state

    def save(self, directory: str | Path | None = None) -> None:
        """Write everything that `load` needs: pool, labels, history, weights, and the learner's own settings.

        A learner with a directory does this by itself at every change.
        """
        if directory is not None:
            self._checkpoint = Checkpoint(Path(directory))
        if self._checkpoint is None:
            raise StateError('this learner has no directory. Pass one: learner.save("runs/mine").')
        self._checkpoint.make()
        if self._self_contained:
            objects = {"posterior": self.posterior, "data": self.pool.data}
            self._checkpoint.write_objects({**objects, "test": self._test, "validation": self._validation})
        self._save_state()

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
        report: Report = silent,
    ) -> Self:
        """A learner as it was when its state was last written.

        Loading runs code that was saved with the posterior and the data: only load what you trust.

        Args:
            directory: where it was saved.
            method: the selection method, if it is a function that cannot be imported, such as a lambda.
            posterior: used instead of the saved one.
            data: used instead of the saved data.
            test: used instead of the saved test set.
            validation: used instead of the saved validation set.
            report: called with (stage, done, total) as the work goes on.
        """
        folder = Path(directory)
        if not (folder / STATE).exists():
            raise FileError(f"{folder} holds no learner: there is no {STATE} in it. Check the path.")
        state = read_state(folder / STATE)
        objects = {"posterior": posterior, "data": data, "test": test, "validation": validation}
        missing = [name for name in objects if objects[name] is None and name in state["objects"]]
        if missing:
            if not (folder / OBJECTS).exists():
                raise MissingInputError(
                    f"{folder} was saved without its {' and '.join(missing)}: pass "
                    f"{' and '.join(f'{name}=' for name in missing)}."
                )
            saved = read_objects(folder / OBJECTS)
            objects = {name: saved[name] if name in missing else given for name, given in objects.items()}
        settings = state["settings"]
        return cls(
            cast(Posterior, objects["posterior"]),
            Pool(objects["data"], state["pool"]["classes"]),
            _saved_method(settings["method"], method),
            settings["batch_size"],
            folder,
            settings["seed"],
            test=objects["test"],
            validation=objects["validation"],
            memory=settings["memory"],
            self_contained=(folder / OBJECTS).exists(),
            report=report,
            **settings["parameters"],
        )

    def _settings(self) -> dict[str, Any]:
        return {
            "method": self._method.reference,
            "parameters": {name: _plain(value) for name, value in self._parameters.items()},
            "batch_size": self.batch_size,
            "seed": self.seed,
            "memory": self._memory,
        }

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """A change, which is on the disk at the end; on any error all is as it was, there and here."""
        pool = self.pool.state()
        before = list(self._rounds), self._query, self._trained, self._classes_N, self._classes_round
        try:
            yield
            self._save_state()
        except BaseException:
            self.pool.load_state(pool)
            self._rounds, self._query, self._trained, self._classes_N, self._classes_round = before
            raise

    def _save_state(self) -> None:
        """Bring the checkpoint up to date: the model, what it says of the pool, and the state that names them."""
        if self._checkpoint is None:
            return
        files: dict[str, Callable[[BinaryIO], None]] = {}
        if self._model:
            files[WEIGHTS.format(self._model)] = lambda file: torch.save(self.posterior.state(), file)
        if self._classes_N is not None:
            classes_N = self._classes_N
            files[CLASSES.format(self._classes_round)] = lambda file: np.save(file, classes_N, allow_pickle=False)
        sets = {"test": self._test, "validation": self._validation}
        state = {
            "settings": self._settings(),
            "objects": ["posterior", "data", *(name for name, examples in sets.items() if examples is not None)],
            "pool": self.pool.state(),
            "rounds": [entry.as_dict() for entry in self._rounds],
            "query": None if self._query is None else self._query.as_dict(),
            "trained": None if self._trained is None else self._trained.as_dict(),
            "model": self._model,
            "classes": None if self._classes_N is None else self._classes_round,
        }
        self._checkpoint.write(state, files)
        self._saved = True

    def _resume(self, checkpoint: Checkpoint) -> None:
        state = read_state(checkpoint.folder / STATE)
        mine = json.loads(json.dumps(self._settings()))  # as it would be read, with lists for tuples
        different = {k: (v, state["settings"].get(k)) for k, v in mine.items() if state["settings"].get(k) != v}
        different.pop("memory", None)
        if different:
            name, (now, saved) = next(iter(different.items()))
            raise StateError(
                f"{self.directory} holds a learner with {name} = {saved!r}, not {now!r}. Use another directory, or "
                "ActiveLearner.load to go on with the saved settings."
            )
        self.pool.load_state(state["pool"])
        self._rounds = [Round.from_dict(entry) for entry in state["rounds"]]
        self._query = None if state["query"] is None else Query.from_dict(state["query"])
        self._trained = None if state["trained"] is None else Round.from_dict(state["trained"])
        self._model, self._saved = state["model"], True
        if state["classes"] is not None:
            self._classes_round = state["classes"]
            name = CLASSES.format(self._classes_round)
            self._classes_N = checkpoint.read(name, partial(np.load, allow_pickle=False))
        if self._model:
            name = WEIGHTS.format(self._model)
            if (checkpoint.folder / name).exists():
                self.posterior.load_state(checkpoint.read(name, partial(torch.load, weights_only=True)))
            else:
                self._model, self._trained = 0, None  # the weights are gone: train again, with the same result
        checkpoint.remove_torn()


def _with(entry: Round, **changes: Any) -> Round:
    return Round(**{**vars(entry), **changes})


def _saved_method(reference: str, given: MethodLike | None) -> registry.Method:
    """The method of a saved learner: the given one, if it is the same, or the one that its state names."""
    if given is not None:
        found = registry.resolve(given)
        if found.reference != reference:
            raise StateError(
                f"the saved learner uses the method {reference!r}, not {found.reference!r}. Give that one."
            )
        return found
    try:
        return registry.find(reference)
    except UnknownMethodError as error:
        raise MissingInputError(
            f"the saved learner uses the method {reference!r}, which cannot be found here. Pass it: "
            f"ActiveLearner.load(directory, method=...). ({error})"
        ) from error


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic | torch.Tensor) else value


def _whole(batch_size: object) -> int:
    if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
        raise ParameterError(f"batch_size must be a whole number of at least 1, not {batch_size!r}.")
    return int(batch_size)
