"""Labels for other programs: tables, folders by class, and tasks for Label Studio."""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from poolwise.errors import FileError
from poolwise.labelling.images import check_size, inside
from poolwise.labelling.items import Items
from poolwise.labelling.label_studio.forms import make_form
from poolwise.labelling.label_studio.tasks import kind_of, task
from poolwise.labelling.store import Current
from poolwise.labelling.tables import WRITTEN, write_table
from poolwise.storage import make_folder, sync_folder, write_json

# Names that Windows keeps for devices.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10))}


def export(
    path: Path,
    items: Items,
    labels: Mapping[str, Current],
    uid: str = "",
    classes: Sequence[str] = (),
    folder: bool = False,
) -> int:
    """Write the current labels; returns how many there are.

    Args:
        path: `.csv`, `.jsonl` or `.parquet` for a table, `.json` for tasks of Label Studio, a folder otherwise.
        items: the items.
        labels: what is known about them.
        uid: of the project, by which tasks of Label Studio are recognised.
        classes: the classes.
        folder: whether a path without an ending is meant as a folder.
    """
    ending = path.suffix.lower()
    if ending in WRITTEN:
        rows = list(_rows(items, labels))
        write_table(path, ["id", _shown(items), "label", "person", "time", "origin"], rows)
        return len(rows)
    if ending == ".json":
        tasks = list(_tasks(items, labels, uid, classes))
        write_json(path, tasks)
        return len(tasks)
    if not ending or folder or path.is_dir():
        return _write_folders(path, items, labels)
    raise FileError(
        f"{path}: cannot write '{path.suffix}'. Use one of {', '.join(WRITTEN)}, a folder such as labels/, or "
        "label-studio.json."
    )


def _shown(items: Items) -> str:
    return "text" if items.texts is not None else "file" if items.files is not None else "features"


def _labelled(items: Items, labels: Mapping[str, Current]) -> list[str]:
    """Ids of labelled items in the order of the data, then those that are gone from it."""
    known = [name for name, current in labels.items() if current.label is not None]
    return sorted(known, key=lambda name: (items.position.get(name, len(items)), name))


def _rows(items: Items, labels: Mapping[str, Current]) -> Iterator[list[Any]]:
    for name in _labelled(items, labels):
        current = labels[name]
        content = items.shown(name) if name in items.position else None
        origin = next(a.origin for a in current.answers if a.person == current.person and a.label == current.label)
        yield [name, content, current.label, current.person, _time(current.at), origin]


def _time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _tasks(items: Items, labels: Mapping[str, Current], uid: str, classes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Tasks with one annotation per person, for a project with choices called `label`."""
    form = make_form(kind_of(items), classes)
    for name in _labelled(items, labels):
        if name not in items.position:
            continue
        said = [{"result": form.result(str(a.label))} for a in labels[name].answers if a.kind == "label"]
        yield {**task(name, items, uid, form), "annotations": said}


def _write_folders(path: Path, items: Items, labels: Mapping[str, Current]) -> int:
    """One folder per class, with a copy of each image or a file per text. It has its name once it is complete."""
    if items.files is None and items.texts is None:
        raise FileError(f"{path}: features have neither texts nor images to put into folders. Write a table instead.")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileError(f"{path}: already exists. Name another folder, or remove it first.")
    names = [name for name in _labelled(items, labels) if name in items.position]
    part = path.absolute().with_name(f".{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    make_folder(part)
    taken: set[tuple[Path, str]] = set()
    folders: dict[str, Path] = {}
    try:
        for name in names:
            label = str(labels[name].label)
            if label not in folders:
                folders[label] = _free(part / _safe_name(label), taken)
                folders[label].mkdir()
            _write_item(items, name, folders[label], taken)
        if path.exists():
            path.rmdir()
        part.rename(path.absolute())
    except OSError as error:
        raise FileError(f"cannot write {path} ({error.strerror}).") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    sync_folder(path.absolute().parent)
    return len(names)


def _write_item(items: Items, name: str, folder: Path, taken: set[tuple[Path, str]]) -> None:
    place = items.position[name]
    if items.files is not None:
        source = items.files[place]
        if not inside(source, source.parent):  # it was a file of the data when it was opened, and is a link now
            raise FileError(f"{source}: is a link that leads out of its folder.")
        check_size(source)
        target = _free(folder / _safe_name(name), taken)
        shutil.copyfile(source, target, follow_symlinks=True)
    else:
        assert items.texts is not None
        target = _free(folder / f"{_safe_name(name)}.txt", taken)
        target.write_text(items.texts[place], encoding="utf-8", errors="replace")


def _safe_name(name: str) -> str:
    """A name for a file or folder, on any system: no separators, no dots in front, nothing that Windows keeps."""
    safe = re.sub(r'[\x00-\x1f<>:"/\\|?*]', "_", name).strip(". ")[:150] or "_"
    return f"_{safe}" if safe.partition(".")[0].lower() in _DEVICES else safe


def _free(path: Path, taken: set[tuple[Path, str]]) -> Path:
    """The path, with a number if it is taken, which it is from then on; upper and lower case count as the same."""
    number, found = 1, path
    while (found.parent, found.name.lower()) in taken:
        number += 1
        found = path.with_name(f"{path.stem}-{number}{path.suffix}")
    taken.add((found.parent, found.name.lower()))
    return found
