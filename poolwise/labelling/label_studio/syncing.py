"""One round with Label Studio: take what people said, and send the next batch when little is left to do.

Nothing depends on how the last round ended. What was taken is known from the store, and what was sent from the server.
The one file that is kept, `label-studio/tasks.json`, only tells which tasks were deleted since the last check, and
which batch was being sent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from poolwise.errors import FileError, ParameterError, StateError
from poolwise.labelling.label_studio.answers import DELETED, Reader, Taken, Task, own_tasks, take
from poolwise.labelling.label_studio.connection import About, LabelStudioError
from poolwise.labelling.label_studio.forms import Form, as_xml, make_form, read_form
from poolwise.labelling.label_studio.tasks import kind_of, make_tasks
from poolwise.labelling.project import Project
from poolwise.labelling.results import Batch
from poolwise.progress import Report, silent
from poolwise.storage import FolderLock, make_folder, read_json, write_json

# The most seconds between two checks, while a server does not answer.
_LONGEST_PAUSE = 300.0

# The next batch is sent when this share of a batch, or less, is still open.
_LOW = 0.2


class Server(Protocol):
    """What is needed of a server; `Connection` is one."""

    place: str

    def find(self, wanted: str) -> About:
        """A project by its number or title."""

    def create(self, title: str, config: str) -> About:
        """Make a project."""

    def set_config(self, project: int, config: str) -> None:
        """Change a labelling configuration."""

    def tasks(self, project: int) -> list[dict[str, Any]]:
        """All tasks of a project, with their annotations."""

    def people(self) -> dict[int, str]:
        """The names of users."""

    def send(self, project: int, tasks: Sequence[Mapping[str, Any]]) -> None:
        """Import tasks."""

    def use_scores(self, project: int) -> None:
        """Order tasks by our scores."""

    def delete(self, task: int) -> None:
        """Delete a task."""


@dataclass
class Done:
    """What one round did.

    Attributes:
        taken: what became of annotations.
        sent: how many tasks were sent.
        open: tasks on the server that nobody has answered.
        batch: the batch that was sent, None if none was.
        removed: tasks that were there twice, and were removed.
        finished: whether everything is labelled.
        notes: what a person should know.
    """

    taken: Taken
    sent: int = 0
    open: int = 0
    batch: Batch | None = None
    removed: int = 0
    finished: bool = False
    notes: list[str] = field(default_factory=list)


class Sync:
    """A project of Poolwise and a project of Label Studio.

    Args:
        project: the project here.
        server: the server.
        there: the project on the server.
        count: how many items a batch has; by default the batch size of the project.
        low: the next batch is sent when this many tasks or fewer are open; a fifth of a batch by default.
        new_classes: whether annotations may have classes that the project does not have.
        images_at: the address of the folder of the images; None sends them along.
    """

    def __init__(
        self,
        project: Project,
        server: Server,
        there: About,
        *,
        count: int | None = None,
        low: int | None = None,
        new_classes: bool = False,
        images_at: str | None = None,
    ) -> None:
        self._project, self._server, self.there = project, server, there
        self._count = project.description.batch_size if count is None else count
        if self._count < 1:
            raise ParameterError(f"count must be a whole number of at least 1, not {count!r}.")
        self.low = int(self._count * _LOW) if low is None else low
        self._new_classes, self._images_at = new_classes, images_at
        self.origin = f"label-studio {server.place}/{there.id}"[:200]
        self._folder = project.folder / "label-studio"
        self._people: dict[int, str] = {}

    def step(self, *, report: Report = silent) -> Done:
        """Take what is new, and send a batch if it is time for one."""
        make_folder(self._folder)
        with FolderLock(self._folder):
            form, notes = self._form()
            tasks, foreign = own_tasks(
                self._server.tasks(self.there.id), self._project.description.uid, self._project.items
            )
            taken = self._take(tasks, form)
            taken.foreign = foreign
            done = Done(taken, notes=notes + taken.notes())
            tasks, done.removed = self._without_doubles(tasks)
            self._remember({task.id: task.item for task in tasks}, self._note().get("sending"))
            self._send(tasks, done, form, report)
            return done

    def _form(self) -> tuple[Form, list[str]]:
        """What the project on the server asks for, with the classes of ours; and what speaks against it."""
        about = self.there = self._server.find(str(self.there.id))
        form = read_form(about.config)
        kind = kind_of(self._project.items)
        if form.kind != kind:
            raise ParameterError(
                f"the project {about.title!r} of Label Studio shows {form.kind}s, and the data are {kind}s. "
                "Name another project, or make one with --create."
            )
        if not self._project.classes:
            self._project.add_classes([name for name in form.classes if name.strip()], origin=self.origin)
        missing = [name for name in self._project.classes if name not in form.classes]
        notes = []
        if missing and about.config.split() == as_xml(form).split():  # nobody changed what we made
            form = make_form(kind, [*form.classes, *missing])
            self._server.set_config(about.id, as_xml(form))
        elif missing:
            notes.append(
                f"the project {about.title!r} of Label Studio does not offer {', '.join(map(repr, missing[:5]))}. Add "
                "it in its settings, under Labeling Interface."
            )
        if about.sampling.startswith("Uniform"):
            notes.append(
                f"the project {about.title!r} of Label Studio hands out tasks at random. For our order, choose "
                "uncertainty or sequential sampling in its settings, under Annotation."
            )
        return form, notes

    def _take(self, tasks: Sequence[Task], form: Form) -> Taken:
        users = {entry.get("completed_by") for task in tasks for entry in task.annotations}
        if any(isinstance(user, int) and user not in self._people for user in users):
            self._people = self._server.people()
        there = {task.id for task in tasks}
        gone = {number: item for number, item in self._known().items() if number not in there}
        if gone:  # a task that was deleted while pages were read could hide one of the next page: check again
            there = {int(task.get("id") or 0) for task in self._server.tasks(self.there.id)}
            gone = {number: item for number, item in gone.items() if number not in there}
        reader = Reader(self.origin, form.control, self._people, new_classes=self._new_classes)
        return take(self._project.store, reader, tasks, gone)

    def _without_doubles(self, tasks: Sequence[Task]) -> tuple[list[Task], int]:
        """Remove tasks of items that were sent twice and that nobody has touched.

        That happens if a process is killed while it sends, and the next one checks before the server is done.
        """
        kept: dict[str, Task] = {}
        removed = 0
        for task in sorted(tasks, key=lambda task: (not task.annotations, task.id)):
            if task.item not in kept or task.annotations or not task.complete:
                kept.setdefault(task.item, task)
            else:
                self._server.delete(task.id)
                removed += 1
        return [task for task in tasks if kept[task.item] is task or task.annotations or not task.complete], removed

    def _send(self, tasks: Sequence[Task], done: Done, form: Form, report: Report) -> None:
        project = self._project
        current = project.store.current()
        there = {task.item for task in tasks}
        done.open = sum(item not in current for item in there)
        last = next(iter(project.store.batches(last=1)), None)
        unfinished = last is not None and self._note().get("sending") == last.number
        if done.open > self.low and not unfinished:
            return
        try:
            batch = project.next(self._count, report=report)
        except StateError:
            done.finished = not done.open
            return
        left = {name for name, known in current.items() if any(_deleted(a, self.origin) for a in known.answers)}
        entries = [entry for entry in batch.items if entry.id not in there and entry.id not in left]
        if not entries:
            self._remember({task.id: task.item for task in tasks})
            done.finished = not done.open
            if done.finished:
                done.notes.append(
                    f"what is left, {len(batch):,} items, was skipped or deleted in Label Studio. Label it "
                    "there, on the page (poolwise label) or in a file (poolwise next)."
                )
            return
        uid, items = project.description.uid, project.items
        whole = make_tasks(batch.items, items, uid, form, project.predicted(), self._images_at)
        wanted = {entry.id for entry in entries}
        known = {task.id: task.item for task in tasks}
        self._remember(known, sending=batch.number)
        self._server.send(self.there.id, [task for task in whole if task["meta"]["item"] in wanted])
        self._server.use_scores(self.there.id)
        self._remember(known)
        done.batch, done.sent, done.open = batch, len(entries), done.open + len(entries)

    # Which tasks were there at the last check

    @property
    def _file(self) -> Path:
        return self._folder / "tasks.json"

    def _note(self) -> dict[str, Any]:
        found = self._read().get(self.origin)
        return found if isinstance(found, dict) else {}

    def _known(self) -> dict[int, str]:
        tasks = self._note().get("tasks")
        found = tasks if isinstance(tasks, dict) else {}
        return {int(number): str(item) for number, item in found.items() if number.isdecimal()}

    def _remember(self, tasks: Mapping[int, str], sending: int | None = None) -> None:
        note = {"tasks": {str(number): item for number, item in tasks.items()}, "sending": sending}
        if self._note() != note:
            write_json(self._file, {**self._read(), self.origin: note})

    def _read(self) -> dict[str, Any]:
        if not self._file.exists():
            return {}
        try:
            found = read_json(self._file)
        except FileError:
            return {}  # then no task counts as deleted
        return found if isinstance(found, dict) else {}


def _deleted(answer: Any, origin: str) -> bool:
    return bool(answer.person == DELETED and answer.origin == origin)


def make_project(project: Project, server: Server, title: str) -> About:
    """Make a project of Label Studio with the classes of a project."""
    classes = project.classes
    if len(classes) < 2:
        raise ParameterError(
            f"a new project of Label Studio needs at least two classes, and there are {len(classes)}. Name them with "
            "classes=cat,dog."
        )
    return server.create(title, as_xml(make_form(kind_of(project.items), classes)))


def watch(
    sync: Sync,
    interval: float,
    wait: Callable[[float], object],
    said: Callable[[Done], None],
    failed: Callable[[str], None],
    *,
    report: Report = silent,
) -> None:
    """Synchronise again and again, until everything is labelled. If the server does not answer, wait for it.

    Args:
        sync: what to do each time.
        interval: seconds between two checks.
        wait: called with a number of seconds; may return earlier if there is news.
        said: called with what was done.
        failed: called with a sentence when the server does not answer, once until it does.
        report: told about progress.
    """
    pause = interval
    while True:
        try:
            done = sync.step(report=report)
        except LabelStudioError as error:
            if not error.passing:
                raise
            if pause == interval:
                failed(str(error))
            pause = min(max(pause * 2, 1.0), max(_LONGEST_PAUSE, interval))
        else:
            pause = interval
            said(done)
            if done.finished:
                return
        wait(pause)
