"""A project: data, labels, models and batches in one folder. The command line, Python and the page all use this."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

from poolwise.errors import LabelError, ParameterError, StateError
from poolwise.labelling.changes import Changes, notice_changes
from poolwise.labelling.description import FILE, Description, check_originals, read_description, relative, resolved
from poolwise.labelling.items import Items, open_items
from poolwise.labelling.results import Added, Batch, ToLabel
from poolwise.labelling.settings import (
    changed,
    check_settings,
    project_folder,
    store_place,
    validated,
    without_password,
)
from poolwise.labelling.store import Current, Event, ModelRecord, Proposal, Store
from poolwise.labelling.store.events import Fold
from poolwise.progress import Report, silent
from poolwise.storage import FolderLock, make_folder

if TYPE_CHECKING:
    from poolwise.arrays import Array
    from poolwise.labelling.features import Features
    from poolwise.labelling.model import Model
    from poolwise.labelling.predicted import Predicted
    from poolwise.labelling.status import Status
    from poolwise.labelling.training import PlannedRound


class Project:
    """Data that people label, with their answers and the models trained on them.

    `open` creates a project or continues one. When a call returns, everything is on the disk. Several processes may
    have a project open at once.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("texts.csv").write_text("text\\ngood film\\nbad film\\na good one\\nso bad\\n")
        >>> with Project.open("texts.csv", classes=["pos", "neg"], encoder="tfidf") as project:
        ...     batch = project.next(2)
        ...     print(len(batch), project.add({batch.ids[0]: "pos"}))
        2 1 new label
    """

    def __init__(self, folder: Path, description: Description, items: Items, store: Store) -> None:
        self.folder, self.description, self.items, self.store = folder, description, items, store
        self.changes = Changes()
        self._features: Features | None = None

    @classmethod
    def create(
        cls,
        data: str | os.PathLike[str],
        *,
        project: str | os.PathLike[str] | None = None,
        classes: Sequence[str] = (),
        text: str | None = None,
        file: str | None = None,
        id: str | None = None,
        originals: str | os.PathLike[str] | None = None,
        separator: str | None = None,
        encoding: str | None = None,
        **settings: Any,
    ) -> Self:
        """Create a project.

        Args:
            data: a folder of images, a table of texts, or features (`.npy`).
            project: its folder; beside the data by default, with `.poolwise` added to the name.
            classes: the names of the classes; more can be added at any time.
            text: the column of texts; found by itself if it is not named.
            file: the column of image files, for a table of images.
            id: the column of ids; found by itself if it is not named. Without one, ids are row numbers or file names.
            originals: the data that features were made from, in the same order, to show to people.
            separator: the character between the fields of a CSV file.
            encoding: how a text file is encoded.
            settings: others of `Description`: `encoder`, `model`, `method`, `batch_size`, `held_out`, `twice`, `seed`,
                `database`.
        """
        path, folder = Path(data), project_folder(data, project)
        if (folder / FILE).exists():
            raise StateError(f"{folder}: there is a project already. Open it, or remove it first.")
        settings = {name: value for name, value in settings.items() if value is not None}
        check_settings(settings)
        kept = Path(originals) if originals is not None else None
        items = open_items(path, text=text, file=file, id=id, originals=kept, separator=separator, encoding=encoding)
        if items.originals is not None:
            check_originals(items.originals, folder)
        values = dict(
            data=relative(path, folder),
            originals=None if items.originals is None else relative(items.originals, folder),
            kind=items.kind,
            text=items.text,
            file=items.file,
            id=items.id,
            separator=separator,
            encoding=encoding,
            **{**settings, "database": without_password(settings.get("database"))},
        )
        description = validated(values)
        make_folder(folder)
        store = Store.open(settings.get("database") or folder / "labels.db", description.uid)
        opened = cls(folder, description, items, store)
        try:
            opened.changes = notice_changes(items, store, str(path))
            opened.add_classes(classes)
            description.save(folder)  # last: without it there is no project yet
        except BaseException:
            store.close()
            raise
        return opened

    @classmethod
    def open(
        cls,
        data: str | os.PathLike[str],
        *,
        project: str | os.PathLike[str] | None = None,
        classes: Sequence[str] = (),
        create: bool = True,
        database: str | None = None,
        model: str | None = None,
        any_model: bool = False,
        **settings: Any,
    ) -> Self:
        """Continue a project, or create it.

        Args:
            data: the data, or the folder of the project.
            project: the folder of the project, if it is not beside the data.
            classes: classes that it must have; those that it does not have yet are added.
            create: whether to create a project where there is none.
            database: the URL of a PostgreSQL database; needed again if it has a password.
            model: `"package.module:function"` of your own model. It is code, and the project may come from somebody
                else, so it must be named each time.
            any_model: whether a model of your own need not be named, since nothing will be trained.
            settings: those of `create`. Columns cannot be changed later; other settings can.
        """
        folder = project_folder(data, project)
        if not (folder / FILE).exists():
            if not create and not os.path.exists(data):
                raise StateError(f"{data}: there is no such file, folder or project.")
            if not create:
                raise StateError(f"{data}: has no project yet. Begin with `poolwise next {data}`.")
            if model is not None:
                settings["model"] = model
            return cls.create(data, project=project, classes=classes, database=database, **settings)
        description = changed(read_description(folder), settings, model, folder, any_model)
        named = Path(data).absolute() != folder.absolute()  # by the caller, who may name any file
        path = Path(data) if named else resolved(description.data, folder)
        kept = None if description.originals is None else resolved(description.originals, folder)
        items = open_items(
            path,
            text=description.text,
            file=description.file,
            id=description.id,
            originals=kept,
            separator=description.separator,
            encoding=description.encoding,
        )
        store = Store.open(store_place(description, database, folder), description.uid)
        opened = cls(folder, description, items, store)
        try:
            opened.changes = notice_changes(items, store, str(path))
            opened.add_classes(classes)
        except BaseException:
            store.close()
            raise
        return opened

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Project({str(self.folder)!r}: {len(self):,} items of kind {self.description.kind})"

    # Classes and labels

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in the order of their creation."""
        return self.store.classes()

    def add_classes(self, names: Sequence[str], *, person: str = "", origin: str = "") -> list[str]:
        """Add classes, and return those that are new.

        Args:
            names: the names of the classes.
            person: who adds them.
            origin: where they come from.
        """
        if isinstance(names, str):
            raise ParameterError(f"classes must be a list of names, not {names!r}.")
        wanted = list(dict.fromkeys(name.strip() for name in names))
        known = set(self.store.classes()) if wanted else set()
        new = [name for name in wanted if name not in known]
        if new:
            self.store.append(*(Event("class", label=name, person=person, origin=origin) for name in new))
        return new

    def rename_class(self, old: str, new: str, *, person: str = "", origin: str = "") -> None:
        """Rename a class. If there is a class of the new name already, the two become one.

        Args:
            old: its present name.
            new: its new name.
            person: who renames it.
            origin: where the change comes from.
        """

        def check(fold: Fold) -> None:
            if old not in fold.classes:
                raise LabelError(f"there is no class {old!r}. The classes are: {', '.join(fold.classes)}.")

        event = Event("rename-class", old, new.strip(), person=person, origin=origin)
        self.store.append(event, check=check)

    def record(
        self,
        item: str,
        label: str | None = None,
        *,
        kind: str = "label",
        person: str = "",
        origin: str = "",
        request_id: str | None = None,
    ) -> Event:
        """Store one answer of one person.

        Args:
            item: the id of the item.
            label: the class, for a label.
            kind: `"label"`, `"correct"`, `"skip"`, `"unsure"`, `"unlabelable"` or `"clear"`, see `Event`.
            person: who answered.
            origin: where it comes from, such as `"page"`.
            request_id: a name for the request, so that one that is sent twice is stored once.
        Returns:
            The event, as it is stored.
        """
        if item not in self.items.position:
            raise LabelError(f"there is no item {item!r} in the data.")
        if kind in ("class", "rename-class"):
            raise LabelError("classes are changed with add_classes and rename_class.")

        def check(fold: Fold) -> None:
            if label is not None and label not in fold.classes:
                raise LabelError(f"there is no class {label!r}. The classes are: {', '.join(fold.classes)}.")

        event = Event(kind, item, label, person, origin, request_id=request_id)
        return self.store.append(event, check=check)[0]

    def add(
        self,
        labels: "Mapping[str, str | None] | str | os.PathLike[str]",
        *,
        replace: bool = False,
        new_classes: bool = False,
        person: str = "",
        origin: str = "",
        id: str | None = None,
        label: str | None = None,
        encoding: str | None = None,
    ) -> Added:
        """Take labels by id. On an error, none is taken.

        Args:
            labels: a dictionary from ids to labels, None or empty where there is none; or a file (`.csv`, `.jsonl` or
                `.parquet`) with a column of ids and one of labels; or a `.json` file that Label Studio exported.
                `"(skip)"`, `"(don't know)"` and `"(cannot be labelled)"` are answers too.
            replace: whether labels may differ from those that exist.
            new_classes: whether labels may be classes that the project does not have.
            person: who gave them.
            origin: where they come from; the file by default.
            id: the column of ids of a file; `"id"` by default.
            label: the column of labels of a file; `"label"` by default.
            encoding: how a file is encoded; UTF-8 by default.
        """
        from poolwise.labelling.adding import plan
        from poolwise.labelling.tables import read_labels

        where = "labels"
        if isinstance(labels, str | os.PathLike) and Path(labels).suffix.lower() == ".json":
            from poolwise.labelling.label_studio.files import add_export

            uid = self.description.uid
            return add_export(Path(labels), self.items, self.store, uid, new_classes=new_classes, person=person)
        if isinstance(labels, str | os.PathLike):
            where, origin = str(labels), origin or Path(labels).name
            rows = self.items.ids if self.is_data(Path(labels)) else None
            labels = read_labels(Path(labels), id, label, encoding=encoding, rows=rows)
        given = {str(name): value for name, value in labels.items()}
        added = Added()

        def decide(fold: Fold) -> list[Event]:
            nonlocal added
            added, events = plan(
                given, self.items, fold, where, replace=replace, new_classes=new_classes, person=person
            )
            return [dataclasses.replace(event, person=person, origin=origin) for event in events]

        self.store.decide(decide)
        return added

    def is_data(self, path: Path) -> bool:
        """Whether a file is the data itself, so that its rows are the items.

        Args:
            path: the file.
        """
        data = (self.folder / self.description.data).resolve()
        return path.resolve() == data or (
            self.items.originals is not None and path.resolve() == self.items.originals.resolve()
        )

    # Batches and models

    def next(self, count: int | None = None, *, report: Report = silent) -> Batch:
        """The items to label next: the same until labels come, then chosen by a model that is trained on them too.

        Args:
            count: how many items; by default the batch size of the project.
            report: told about progress.
        """
        count = self.description.batch_size if count is None else count
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ParameterError(f"count must be a whole number of at least 1, not {count!r}.")
        with self._working():
            last = next(iter(self.store.batches(last=1)), None)
            proposal = last if last is not None and self._still_good(last, count) else None
            if proposal is None:
                _, proposal = self._round(report).run(count)
            if proposal is None:
                raise StateError("everything is labelled: there is nothing left to ask for.")
        models = {record.number: record for record in self.store.models(last=5)}
        items = [
            ToLabel(pick.item, self.items.shown(pick.item), pick.score, pick.why)
            for pick in proposal.picks
            if pick.item in self.items.position
        ]
        model = None if proposal.model is None else models.get(proposal.model)
        encoder = proposal.encoder.rpartition(" (")[0] or proposal.encoder  # without its fingerprint
        return Batch(items, proposal.number, proposal.method, model, list(proposal.notes), encoder)

    def train(self, *, report: Report = silent) -> ModelRecord | None:
        """Train a model on the labels that there are now; None if there are too few.

        Args:
            report: told about progress.
        """
        with self._working():
            record, _ = self._round(report).run(0)
        return record

    def prepare(self, count: int | None = None, *, report: Report = silent) -> Proposal | None:
        """Train on the labels that there are now, and choose the next batch, even if the last one is not done.

        A background process does this while people label.

        Args:
            count: how many items; by default the batch size of the project.
            report: told about progress.
        Returns:
            The new batch; None if nothing is left to label.
        """
        with self._working():
            _, proposal = self._round(report).run(self.description.batch_size if count is None else count)
        return proposal

    def predicted(self) -> "Predicted | None":
        """The newest model's predictions for every item; None if there is no model."""
        from poolwise.labelling.predicted import load_predicted

        last = next(iter(self.store.models(last=1)), None)
        return None if last is None else load_predicted(last, self.folder / "models")

    def status(self) -> "Status":
        """How far the project is: labels by class and person, the newest batch, the learning curve."""
        from poolwise.labelling.measuring import measured_again
        from poolwise.labelling.status import make_status

        fold = self.store.fold()
        models = measured_again(self.store.models(), self.folder / "models", fold, self.store.check_items())
        last = models[-1].after_event if models else 0
        newer = sum(event.kind in ("label", "correct") for event in self.store.events(last))
        return make_status(self.items, fold, next(iter(self.store.batches(last=1)), None), models, newer)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write the current labels to a file or folder, and return how many there are.

        Args:
            path: a `.csv`, `.jsonl` or `.parquet` table, tasks for Label Studio (`.json`), or a folder, which gets one
                folder per class.
        """
        from poolwise.labelling.exports import export

        folder = str(path).endswith(("/", os.sep))
        return export(Path(path), self.items, self.store.current(), self.description.uid, self.classes, folder=folder)

    def apply(
        self, path: str | os.PathLike[str], data: "Items | None" = None, *, report: Report = silent
    ) -> "Predicted":
        """Predict every item with a model trained on all labels, and write the predictions to a table.

        Args:
            path: a `.csv`, `.jsonl` or `.parquet` file.
            data: other items of the same kind; those of the project by default.
            report: told about progress.
        """
        from poolwise.labelling.applying import write_predictions
        from poolwise.labelling.tables import check_ending

        check_ending(Path(path))
        predicted = self._applied(data, report)
        write_predictions(Path(path), predicted, self.store.current() if data is None else {})
        return predicted

    def _applied(self, data: "Items | None", report: Report) -> "Predicted":
        with self._working():
            models, found = self.store.models(last=1), self.predicted()
            same = data is None and found is not None and list(found.ids) == list(self.items.ids)
            if found is not None and same and not self._events_on_items(models[0].after_event):
                return found
            work = self._round(report)
            if not work.labels.enough:
                raise StateError("there is no model yet: label items of at least two classes first.")
            if data is not None:
                return work.predict(self._model(list(work.labels.classes), report, data)[0].examples, data.ids)
            work.run(0)
            newest = self.predicted()
            assert newest is not None
            return newest

    def _still_good(self, proposal: Proposal, count: int) -> bool:
        """Whether a batch can be handed out again: nothing was said about any item since it was made."""
        if count != proposal.settings.get("asked") or any(item not in self.items.position for item in proposal.ids):
            return False
        return not self._events_on_items(proposal.after_event)

    def _events_on_items(self, after: int) -> bool:
        """Whether anything was said, or a class renamed, since an event."""
        return any(event.item is not None for event in self.store.events(after))

    def _round(self, report: Report) -> "PlannedRound":
        from poolwise.labelling.training import PlannedRound, read_labels

        about = self.description
        fold, checks = self.store.fold(), self.store.check_items()
        classes = fold.classes if len(fold.classes) > 1 else [*fold.classes, *("(other)", "(none)")][:2]
        model, usable, encoder = self._model(classes, report)
        labels = read_labels(fold, self.items, usable, checks)
        return PlannedRound(
            self.store, self.items, labels, model, encoder, self.folder / "models", about.seed, about.method,
            about.held_out, report,
        )  # fmt: skip

    def _model(
        self, classes: Sequence[str], report: Report, others: "Items | None" = None
    ) -> "tuple[Model, Array, str]":
        """A new model with the items as it takes them, which of these can be used, and what made their features."""
        from poolwise.labelling.features import chosen_encoder, make_features
        from poolwise.labelling.model import default_model, own_model

        about, items = self.description, self.items if others is None else others
        if about.model is not None:
            return own_model(about.model, items, classes), ~items.empty(), about.model
        if others is not None or self._features is None:
            chosen = chosen_encoder(about.kind, about.encoder)
            features = make_features(self.items, chosen, self.folder / "cache", report, others=others)
            if others is not None:
                return default_model(features, classes), features.usable, features.name
            self._features = features
        made = self._features
        return default_model(made, classes), made.usable, f"{made.name} ({made.fingerprint})"

    @contextmanager
    def _working(self) -> Iterator[None]:
        """One process at a time trains and chooses; others wait and then find it done."""
        models = self.folder / "models"
        make_folder(models)
        with FolderLock(models, wait=True):
            yield

    # People

    def queue(self, person: str) -> list[str]:
        """The items that a person could label now: those of the newest batches, the most useful first."""
        current = self.store.current()
        found: dict[str, None] = {}
        for proposal in reversed(self.store.batches(last=2)):
            for item in proposal.ids:
                if item in self.items.position and self._wanted(item, person, current.get(item)):
                    found[item] = None
        return list(found)

    def lease(self, person: str, count: int, seconds: float = 300.0, now: float | None = None) -> list[str]:
        """Give a person items to work on. No one else gets them, except for the share that two people label.

        Args:
            person: who.
            count: how many items they want to have.
            seconds: for how long; then the items can go to somebody else.
            now: the time, in seconds since 1970; by default now.
        Returns:
            The ids of the items.
        """
        return self.store.lease(person, count, seconds, self.queue(person), most=self.people_for, now=now)

    def people_for(self, item: str) -> int:
        """How many people should label an item: one, or two for the share of items that is labelled twice."""
        twice = self.description.twice
        return 1 + (twice > 0 and crc32(f"{self.description.seed} {item}".encode()) < twice * 2**32)

    def _wanted(self, item: str, person: str, current: Current | None) -> bool:
        if current is None:
            return True
        labels = sum(answer.kind == "label" for answer in current.answers)
        return not current.unlabelable and current.by(person) is None and labels < self.people_for(item)
