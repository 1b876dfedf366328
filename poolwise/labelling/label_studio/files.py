"""Label Studio by files: tasks to import there, and what it exports."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from poolwise.errors import FileError, LabelError
from poolwise.labelling.items import Items
from poolwise.labelling.label_studio.answers import Reader, is_tasks, own_tasks, take
from poolwise.labelling.label_studio.forms import as_xml, make_form
from poolwise.labelling.label_studio.tasks import kind_of, make_tasks
from poolwise.labelling.predicted import Predicted
from poolwise.labelling.results import Added, ToLabel
from poolwise.labelling.store import Store
from poolwise.storage import read_json, write_json


def write_batch(
    path: str | Path,
    batch: Sequence[ToLabel],
    items: Items,
    uid: str,
    classes: Sequence[str],
    predicted: Predicted | None,
) -> str:
    """Write a batch as tasks to import; returns the labelling configuration that they need."""
    form = make_form(kind_of(items), classes)
    write_json(Path(path), make_tasks(batch, items, uid, form, predicted))
    return as_xml(form)


def add_export(path: Path, items: Items, store: Store, uid: str, *, new_classes: bool, person: str) -> Added:
    """Take the annotations that Label Studio exported as JSON: all of them or, on an error, none.

    Args:
        path: the file.
        items: the items of the project.
        store: where answers go.
        uid: of the project.
        new_classes: whether annotations may have classes that the project does not have.
        person: who made annotations without a user.
    """
    if not path.is_file():
        raise FileError(f"{path}: there is no such file.")
    found = read_json(path, "Export it again.")
    if not is_tasks(found):
        raise FileError(
            f"{path}: expected what Label Studio exports as JSON, a list of tasks with annotations. Choose the format "
            "JSON there, not JSON-MIN."
        )
    tasks, foreign = own_tasks(found, uid, items)
    if foreign and not tasks:
        raise LabelError(f"{path}: none of its {foreign:,} tasks is of this project. Is it the file of another one?")
    reader = Reader(path.name[:200], person=person, new_classes=new_classes)
    taken = take(store, reader, [replace(task, complete=False) for task in tasks], {}, strict=True)
    new, skipped = taken.labels - taken.changed, taken.skipped
    return Added(new, taken.changed, taken.known, taken.unclear, taken.classes, skip=skipped, foreign=foreign)
