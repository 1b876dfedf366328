"""What a learner in a directory was made with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from poolwise.data.pool import Pool
from poolwise.data.pool_names import carried_ids
from poolwise.errors import FileError, InputError, MissingInputError, StateError, UnknownMethodError
from poolwise.learning.checkpoint import STATE, objects_name, read_objects
from poolwise.learning.next_batch import read_candidates
from poolwise.learning.state import State, damaged, read_state
from poolwise.selection import registry
from poolwise.selection.registry import Method, MethodLike


def arguments(
    folder: Path, given: Mapping[str, Any], method: MethodLike | None = None, first: MethodLike | None = None
) -> dict[str, Any]:
    """The arguments of `ActiveLearner` with which the learner in a directory was made.

    Args:
        folder: the directory.
        given: posterior, data, ids, test and validation set and features; None where the saved one is to be used.
        method: the selection method, if it cannot be found by its name.
        first: likewise, the method for the first batch.
    """
    if not (folder / STATE).exists():
        raise FileError(f"{folder} has no saved learner: there is no {STATE} in it. Check the path.")
    state = read_state(folder / STATE)
    settings, contained = state.settings, (folder / objects_name(state.saved)).exists()
    objects = _gather(folder, state, given, contained)
    pool = _pool(folder, state, objects.pop("data"), objects.pop("ids"))
    found = _saved_method(folder, settings.method, method)
    if settings.first != "random":
        objects["first"] = _saved_method(folder, settings.first, first, "first")
    try:
        settings.check(found)
        read_candidates(settings.parameters.get("candidates"), pool)
    except InputError as error:
        raise damaged(folder / STATE, error) from None
    if "features" not in state.objects and objects["features"] is None:
        objects["features"] = settings.features
    kept = {name: value for name, value in vars(settings).items() if name not in ("parameters", "features", "first")}
    return {**objects, **kept, **settings.parameters, "method": found, "pool": pool, "self_contained": contained}


def _pool(folder: Path, state: State, data: Any, ids: Any) -> Pool:
    """The pool of a saved learner, before its labels are taken up."""
    if isinstance(data, Pool):
        if data.ids is None and ids is not None:
            raise MissingInputError(
                f"the learner in {folder} knows its examples by ids, and the pool that was given has none. Make it "
                "with the same ids: Pool(data, ids=[...])."
            )
        return data
    return Pool(data, state.pool.classes, ids=ids, class_names=state.pool.class_names)


def _saved_method(folder: Path, reference: str, given: MethodLike | None, name: str = "method") -> Method:
    """A method of a saved learner: the given one, if it is the same, or the one that its state names."""
    if given is not None:
        found = registry.resolve(given)
        if found.reference != reference:
            raise StateError(f"{folder} uses the {name} {reference!r}, not {found.reference!r}. Pass that one.")
        return found
    try:
        return registry.find(reference)
    except UnknownMethodError as error:
        reason = "" if error.__cause__ is None else f" ({error.__cause__})"
        raise MissingInputError(
            f"{folder / STATE} names the {name} {reference!r}, which cannot be loaded here{reason}. Pass it: "
            f"ActiveLearner.load(directory, {name}=...). Or install the package that it comes from."
        ) from error


def _gather(folder: Path, state: State, given: Mapping[str, Any], contained: bool) -> dict[str, Any]:
    """Posterior, data, test and validation set: what is given, and the rest from the directory."""
    given = {**given, "ids": _given_ids(given)}
    missing = [name for name in given if given[name] is None and name in state.objects]
    if not missing:
        return dict(given)
    if not contained:
        way, path = " and ".join(f"{name}=" for name in missing), folder / objects_name(state.saved)
        if path.name in state.files:
            raise FileError(f"{path} is missing. Restore it from a copy, or pass {way}.")
        raise MissingInputError(f"{folder} was saved without its {' and '.join(missing)}: pass {way}.")
    saved = read_objects(folder, state)
    if state.objects and not set(missing) <= saved.keys():
        raise damaged(folder / objects_name(state.saved), f"it lacks {', '.join(missing)}")
    return {name: saved[name] if name in missing else value for name, value in given.items()}


def _given_ids(given: Mapping[str, Any]) -> Any:
    """The ids that were given, or that come with the data that was given."""
    if given["ids"] is not None or given["data"] is None:
        return given["ids"]
    data = given["data"]
    return data.ids if isinstance(data, Pool) else carried_ids(data, len(data) if hasattr(data, "__len__") else 0)
