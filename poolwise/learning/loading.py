"""What a learner in a directory was made with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from poolwise.data.pool import Pool
from poolwise.errors import FileError, InputError, MissingInputError, StateError, UnknownMethodError
from poolwise.learning.asking import read_candidates
from poolwise.learning.checkpoint import STATE, objects_name, read_objects
from poolwise.learning.state import State, damaged, read_state
from poolwise.selection import registry
from poolwise.selection.registry import Method, MethodLike


def arguments(folder: Path, given: Mapping[str, Any], method: MethodLike | None = None) -> dict[str, Any]:
    """The arguments of `ActiveLearner` with which the learner in a directory was made.

    Args:
        folder: the directory.
        given: posterior, data, test and validation set; None where the saved one is to be used.
        method: the selection method, if it cannot be found by its name.
    """
    if not (folder / STATE).exists():
        raise FileError(f"{folder} holds no learner: there is no {STATE} in it. Check the path.")
    state = read_state(folder / STATE)
    settings, contained = state.settings, (folder / objects_name(state.saved)).exists()
    objects = _gather(folder, state, given, contained)
    pool = Pool(objects.pop("data"), state.pool.classes)
    found = _saved_method(folder, settings.method, method)
    try:
        settings.check(found)
        read_candidates(settings.parameters.get("candidates"), pool)
    except InputError as error:
        raise damaged(folder / STATE, error) from None
    kept = {name: value for name, value in vars(settings).items() if name != "parameters"}
    return {**objects, **kept, **settings.parameters, "method": found, "pool": pool, "self_contained": contained}


def _saved_method(folder: Path, reference: str, given: MethodLike | None) -> Method:
    """The method of a saved learner: the given one, if it is the same, or the one that its state names."""
    if given is not None:
        found = registry.resolve(given)
        if found.reference != reference:
            raise StateError(f"{folder} uses the method {reference!r}, not {found.reference!r}. Pass that one.")
        return found
    try:
        return registry.find(reference)
    except UnknownMethodError as error:
        raise MissingInputError(
            f"{folder / STATE} names the method {reference!r}, which cannot be found here. Pass it: "
            f"ActiveLearner.load(directory, method=...). ({error})"
        ) from error


def _gather(folder: Path, state: State, given: Mapping[str, Any], contained: bool) -> dict[str, Any]:
    """Posterior, data, test and validation set: what is given, and the rest from the directory."""
    missing = [name for name in given if given[name] is None and name in state.objects]
    if not missing:
        return dict(given)
    if not contained:
        way, path = " and ".join(f"{name}=" for name in missing), folder / objects_name(state.saved)
        if path.name in state.files:
            raise FileError(f"{path} is missing. Restore it from a copy, or pass {way}.")
        raise MissingInputError(f"{folder} was saved without its {' and '.join(missing)}: pass {way}.")
    saved = read_objects(folder, state)
    return {name: saved[name] if name in missing else value for name, value in given.items()}
