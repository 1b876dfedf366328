"""Shards that another program wrote."""

from pathlib import Path
from typing import get_args

from poolwise.errors import FileError, ParameterError, ShapeError
from poolwise.predictions.blocks import Kind
from poolwise.predictions.manifest import DTYPES, NAME, PART, Manifest, Shard, checksum, read_header
from poolwise.predictions.sources import Layout


def adopt(folder: str | Path, kind: Kind, layout: Layout = "NKC") -> None:
    """Describe shards that another program wrote (`part-00000.npy`, `part-00001.npy`, ...) in a manifest.

    All shards must have one type, one K and one C; they may differ in length. The files are read once, for their
    checksums, and not changed.

    Args:
        folder: where they are.
        kind: what the numbers are.
        layout: order of the axes in each file.
    """
    folder = Path(folder)
    if kind not in get_args(Kind) or layout not in get_args(Layout):
        raise ParameterError(
            f"kind must be one of {', '.join(get_args(Kind))} and layout one of {', '.join(get_args(Layout))}, not "
            f"{kind!r} and {layout!r}."
        )
    if (folder / NAME).exists():
        raise FileError(f"{folder} has a {NAME} already. Remove it first, if it is wrong.")
    paths = sorted(folder.glob("part-*.npy"))
    names = [PART.format(number) for number in range(len(paths))]
    if not paths or [path.name for path in paths] != names:
        missing = next((name for name in names if not (folder / name).exists()), PART.format(0))
        raise FileError(
            f"{folder} must hold {PART.format(0)}, {PART.format(1)}, ... without a gap; {missing} is missing."
        )
    headers = []
    for path in paths:
        try:
            with path.open("rb") as file:
                headers.append(read_header(file))
        except (OSError, ValueError) as error:
            raise FileError(f"{path}: not an .npy file ({error}).") from error
    shape, _, dtype = headers[0]
    if len(shape) != 3 or dtype.name not in DTYPES:
        raise ShapeError(f"{paths[0]}: shards must be float16, float32 or float64 {list(layout)}, not {dtype} {shape}.")
    sizes = dict(zip(layout, shape, strict=True))
    place = layout.index("N")
    shards = [Shard(found[0][place] if len(found[0]) == 3 else 0) for found in headers]
    rows = sum(shard.rows for shard in shards)
    manifest = Manifest(kind, layout, dtype.name, rows, sizes["K"], sizes["C"], None, shards)
    for number, path in enumerate(paths):
        if not shards[number].rows:
            raise ShapeError(f"{path}: holds no points. Remove it, and number the files after it anew.")
        manifest.find(folder, number, f"All must be alike and in C order: write it again like {paths[0].name}.")
        shards[number].sha256 = checksum(path)
    manifest.write(folder)
