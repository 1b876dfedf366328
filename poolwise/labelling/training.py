"""One round of work: labels → model → predictions → batch. Killed anywhere, it is simply done again.

Each step is stored in one transaction when it is done, and files get their names before the store refers to them.
Nothing else is kept between rounds: the same labels give the same model and the same batch.
"""

import secrets
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poolwise.arrays import Array
from poolwise.data.examples import Examples, TensorExamples
from poolwise.data.pool import Pool
from poolwise.errors import SaturationWarning
from poolwise.labelling import reasons
from poolwise.labelling.choosing import default_method, first_rule
from poolwise.labelling.items import Items
from poolwise.labelling.measuring import save_said, with_accuracy
from poolwise.labelling.model import Model
from poolwise.labelling.predicted import Predicted
from poolwise.labelling.store import ModelRecord, Pick, Proposal, Store
from poolwise.labelling.store.events import Fold
from poolwise.learning.learner import ActiveLearner
from poolwise.predictions import Predictions
from poolwise.progress import Report
from poolwise.scores.kernels import bald
from poolwise.scores.pool import score_pool
from poolwise.seeding import child_seed, stream
from poolwise.storage import make_folder

# Labels that measure models; with more of them the interval is narrow enough.
_ENOUGH_CHECKS = 200

# Files of predictions that are kept.
_KEPT = 3


@dataclass(frozen=True)
class Labels:
    """What is known about the items, by their positions in the data.

    Attributes:
        classes: the names of the classes.
        trained: positions of the labelled items that models learn from, in the order of the data.
        trained_labels: the numbers of their classes.
        checked: positions of the labelled items that models are measured on.
        checked_labels: the numbers of their classes.
        open: positions of what may be asked for.
        reserved: those of them that were drawn to measure models on, and have no label yet.
        last: the number of the last event.
    """

    classes: Sequence[str]
    trained: Array
    trained_labels: Array
    checked: Array
    checked_labels: Array
    open: Array
    reserved: Array
    last: int

    @property
    def enough(self) -> bool:
        """Whether a model can learn anything: from labels of two classes."""
        return len(np.unique(self.trained_labels)) >= 2


def read_labels(fold: Fold, items: Items, usable: Array, checks: set[str]) -> Labels:
    """The labels of items that are in the data now.

    Args:
        fold: the current labels.
        items: the items.
        usable: `[N]` whether an item can be offered.
        checks: the items that are never trained on.
    """
    number = {name: place for place, name in enumerate(fold.classes)}
    free = usable.copy()
    shelved = np.zeros(len(items), bool)
    places: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
    for name, current in fold.items.items():
        place = items.position.get(name)
        if place is None:
            continue
        if current.label is not None and current.label in number:
            free[place] = False
            places[name in checks].append((place, number[current.label]))
        elif current.unlabelable:
            free[place] = False
        else:
            shelved[place] = True  # somebody skipped it, or did not know
    left = free & ~shelved
    free = left if left.any() else free
    drawn = np.array([place for name in checks if (place := items.position.get(name)) is not None], np.int64)
    trained, checked = (np.array(sorted(places[c]), np.int64).reshape(-1, 2) for c in (False, True))
    return Labels(
        list(fold.classes),
        trained[:, 0],
        trained[:, 1],
        checked[:, 0],
        checked[:, 1],
        np.flatnonzero(free),
        np.sort(drawn[free[drawn]]),
        fold.last,
    )


def mean_probs(predictions: Predictions) -> tuple[Array, Array]:
    """`[N, C]` mean probabilities and `[N]` disagreement of the members."""
    probs = np.concatenate([block.probs.mean(1).numpy() for _, block in predictions.blocks()])
    return probs.astype(np.float32), score_pool(predictions, bald).astype(np.float32)


@dataclass(frozen=True)
class PlannedRound:
    """Everything that a round needs to know.

    Attributes:
        store: where results go.
        items: the items.
        labels: what is known about them.
        model: not trained yet.
        encoder: name and fingerprint of the features.
        folder: where predictions go.
        seed: root of all randomness.
        method: the selection method; None for the default.
        held_out: the share of a batch that is drawn at random to measure models.
        report: told about progress.
    """

    store: Store
    items: Items
    labels: Labels
    model: Model
    encoder: str
    folder: Path
    seed: int
    method: str | None
    held_out: float
    report: Report

    def run(self, count: int) -> tuple[ModelRecord | None, Proposal | None]:
        """Train, predict and select; without labels of two classes, only select.

        Args:
            count: how many items the batch has; 0 for no batch. There are fewer if fewer are left.
        """
        labels, asked = self.labels, count
        count = min(count, len(labels.open))
        checks, candidates = self._draw_checks(count)
        wanted = len(checks)
        learner = self._learner(count - wanted, candidates)
        record = predicted = None
        if labels.enough:
            record, predicted = self._train(learner)
        if not count:
            return record, None
        picks: list[Pick] = []
        notes: list[str] = []
        method = "random"
        if count > wanted:
            picks, method, notes = self._select(learner, predicted)
        picks = _mixed(picks, [Pick(self.items.ids[place], None, reasons.CHECK, True) for place in checks.tolist()])
        proposal = Proposal(
            picks,
            method,
            encoder=self.encoder,
            model=None if record is None else record.number,
            seed=self.seed,
            settings={"asked": asked, "held_out": self.held_out},
            notes=notes,
            after_event=labels.last,
        )
        return record, self.store.add_batch(proposal)

    def _draw_checks(self, count: int) -> tuple[Array, Array]:
        """Positions of the items of a batch to measure models on, and of those that the method may choose from.

        An item that was drawn for that once is never offered to the method: what a method chooses is no random sample.
        """
        labels = self.labels
        generator = stream(self.seed, "checks", len(labels.trained), len(labels.checked))
        others = np.setdiff1d(labels.open, labels.reserved)
        wanted = round(count * self.held_out) if len(labels.checked) < _ENOUGH_CHECKS else 0
        wanted = max(wanted, count - len(others))
        known = generator.permutation(labels.reserved)[:wanted]
        fresh = generator.choice(others, wanted - len(known), replace=False) if wanted > len(known) else known[:0]
        return np.sort(np.concatenate([known, fresh])), np.setdiff1d(others, fresh)

    def predict(self, examples: Examples, ids: Sequence[str]) -> Predicted:
        """Predictions of other items, by a model that is trained on the labels and not stored."""
        learner = self._learner(1, np.empty(0, np.int64))
        learner.fit()
        probs, disagreement = mean_probs(learner.predict(examples))
        return Predicted(0, self.labels.classes, ids, probs, disagreement)

    def _learner(self, count: int, candidates: Array) -> ActiveLearner:
        """A learner in memory, with the labels that there are."""
        labels = self.labels
        settings: dict[str, Any] = self._default_method() if self.method is None else {"method": self.method}
        pool = Pool(self.model.examples, classes=max(2, len(labels.classes)))
        if labels.enough:
            pool.label(labels.trained, labels.trained_labels)
        seed = child_seed(self.seed, "round", len(labels.trained), len(labels.checked))
        if len(candidates):
            settings["candidates"] = candidates
        return ActiveLearner(
            self.model.posterior, pool, batch_size=max(1, count), seed=seed,
            first=first_rule(self.items.kind), report=self.report, **settings,
        )  # fmt: skip

    def _default_method(self) -> dict[str, Any]:
        """The method and its parameters; none if a user's model reads texts, so that the learner's default is used."""
        if not isinstance(self.model.examples, TensorExamples):
            return {}
        return default_method(len(self.items.ids))

    def _train(self, learner: ActiveLearner) -> tuple[ModelRecord, Predicted]:
        labels, started = self.labels, time.perf_counter()
        learner.fit()
        probs, disagreement = mean_probs(learner.predict(self.model.examples))
        said = probs[labels.checked].argmax(1) if len(labels.checked) else np.empty(0, np.int64)
        correct, count = int((said == labels.checked_labels).sum()), len(labels.checked)
        name = f"{labels.last}-{secrets.token_hex(4)}"
        predicted = Predicted(0, labels.classes, self.items.ids, probs, disagreement)
        make_folder(self.folder)
        predicted.save(self.folder / f"{name}.npz")
        save_said(self.folder / f"{name}.said.npz", self.items.ids, probs)
        made = ModelRecord(
            len(labels.trained),
            list(labels.classes),
            self.model.name,
            seconds=round(time.perf_counter() - started, 3),
            seed=learner.seed,
            after_event=labels.last,
            details={"predictions": f"{name}.npz", "said": f"{name}.said.npz", "encoder": self.encoder},
        )
        record = self.store.add_model(with_accuracy(made, correct, count))
        _forget(self.folder, self.store)
        return record, predicted

    def _select(self, learner: ActiveLearner, predicted: Predicted | None) -> tuple[list[Pick], str, list[str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", SaturationWarning)
            query = learner.query()
        notes = [str(warning.message) for warning in caught]
        picks = []
        for place, score in zip(query.indices.tolist(), query.scores.tolist(), strict=True):
            if predicted is None:
                reason = reasons.RANDOM if query.origin == "random" else reasons.START
            else:
                reason = reasons.why(predicted.probs[place], float(predicted.disagreement[place]), predicted.classes)
            picks.append(Pick(self.items.ids[place], score if np.isfinite(score) else None, reason))
        first = "random" if query.origin == "random" else first_rule(self.items.kind)
        return picks, learner.method if predicted is not None else first, notes


def _mixed(picks: list[Pick], checks: list[Pick]) -> list[Pick]:
    """Checks spread evenly over a batch, so that they are not all left out if it is not finished."""
    if not picks or not checks:
        return picks or checks
    mixed: list[Pick] = []
    for place, pick in enumerate(picks):
        mixed.append(pick)
        due = (place + 1) * len(checks) // len(picks)
        mixed += checks[len(mixed) - place - 1 : due]
    return mixed


def _forget(folder: Path, store: Store) -> None:
    """Remove the predictions of models that are not among the newest; what each said about the items stays."""
    models = store.models()
    kept = {record.details.get("predictions") for record in models[-_KEPT:]}
    kept |= {record.details.get("said") for record in models}
    oldest = time.time() - 3_600  # another process may be about to store a model
    for path in folder.glob("*.npz"):
        if path.name not in kept and path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
