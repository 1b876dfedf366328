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


def arguments(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `ActiveLearner` with which the learner in a directory was made.

    Args:
        folder: the directory.
        given: posterior, data, test and validation set; None where the saved one is to be used.
    """
    if not (folder / STATE).exists():
        raise FileError(f"{folder} holds no learner: there is no {STATE} in it. Check the path.")
    state = read_state(folder / STATE)
    settings, contained = state.settings, (folder / objects_name(state.saved)).exists()
    objects = _gather(folder, state, given, contained)
    pool = Pool(objects.pop("data"), state.pool.classes)
    try:
        registry.find(settings.method)
    except UnknownMethodError as error:
        raise StateError(
            f"{folder / STATE} names the method {settings.method!r}, which is not known here. Import the package that "
            "it is in first."
        ) from error
    try:
        settings.check()
        read_candidates(settings.parameters.get("candidates"), pool)
    except InputError as error:
        raise damaged(folder / STATE, error) from None
    kept = {name: value for name, value in vars(settings).items() if name != "parameters"}
    return {**objects, **kept, **settings.parameters, "pool": pool, "self_contained": contained}


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
