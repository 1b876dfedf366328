"""Shards that another program wrote."""

from pathlib import Path
from typing import get_args

from poolwise.errors import FileError, ParameterError, ShapeError
from poolwise.predictions.forms import PredictionKind, PredictionLayout
from poolwise.predictions.layout_check import warn_of_layout
from poolwise.predictions.manifest import DTYPES, NAME, PART, Manifest, Shard, checksum, read_header


def adopt(folder: str | Path, kind: PredictionKind, layout: PredictionLayout | None = None) -> None:
    """Write a manifest for shards that another program wrote (`part-00000.npy`, `part-00001.npy`, ...).

    All shards must have the same type, K and C; they may differ in length. The files are read once, to compute their
    checksums, and are not changed.

    Args:
        folder: the folder that has them.
        kind: what the numbers are: `"log-probs"`, `"probs"` or `"logits"`.
        layout: order of the axes in each file, `"NKC"` by default.

    Example:
        >>> import numpy as np, pathlib, tempfile, poolwise as pw
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> np.save(folder / "part-00000.npy", np.full((4, 3, 2), 0.5, np.float32))
        >>> np.save(folder / "part-00001.npy", np.full((2, 3, 2), 0.5, np.float32))
        >>> pw.predictions.adopt(folder, "probs")
        >>> pw.Predictions.open(folder)
        Predictions(N=6, K=3, C=2, 2 shards of float32 probs)
    """
    folder, order = Path(folder), layout or "NKC"
    for name, value, options in (
        ("kind", kind, get_args(PredictionKind)),
        ("layout", order, get_args(PredictionLayout)),
    ):
        if value not in options:
            raise ParameterError(f"{name} must be one of {', '.join(options)}, not {value!r}.")
    if (folder / NAME).exists():
        raise FileError(f"{folder} has a {NAME} already. Remove it first, if it is wrong.")
    paths = _shard_paths(folder)
    headers = []
    for path in paths:
        try:
            with path.open("rb") as file:
                headers.append(read_header(file))
        except (OSError, ValueError) as error:
            raise FileError(f"{path}: not an .npy file ({error}).") from error
    shape, _, dtype = headers[0]
    if len(shape) != 3 or dtype.name not in DTYPES:
        raise ShapeError(f"{paths[0]}: shards must be float16, float32 or float64 {list(order)}, not {dtype} {shape}.")
    sizes = dict(zip(order, shape, strict=True))
    place = order.index("N")
    shards = [Shard(found[0][place] if len(found[0]) == 3 else 0) for found in headers]
    rows = sum(shard.rows for shard in shards)
    manifest = Manifest(kind, order, dtype.name, rows, sizes["K"], sizes["C"], None, shards)
    for number, path in enumerate(paths):
        if not shards[number].rows:
            raise ShapeError(f"{path}: has no points. Remove it, and number the files after it again.")
        manifest.find(folder, number, f"All must be alike and in C order: write it again like {paths[0].name}.")
        shards[number].sha256 = checksum(path)
    warn_of_layout((rows, sizes["K"], sizes["C"]), layout)
    manifest.write(folder)


def _shard_paths(folder: Path) -> list[Path]:
    """The shards of a folder in order, without a gap."""
    paths = sorted(folder.glob("part-*.npy"))
    names = [PART.format(number) for number in range(len(paths))]
    if not paths or [path.name for path in paths] != names:
        missing = next((name for name in names if not (folder / name).exists()), PART.format(0))
        raise FileError(
            f"{folder} must have {PART.format(0)}, {PART.format(1)}, ... without a gap; {missing} is missing."
        )
    return paths
