"""Picks as a person or another program wants them: a table, a file, or a small page in a notebook."""

import csv
import html
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poolwise import __version__
from poolwise.arrays import Array, same
from poolwise.errors import MissingInputError, ParameterError
from poolwise.selection.saturation import saturation_message
from poolwise.storage import replacing

if TYPE_CHECKING:
    import pandas as pd

    from poolwise.selection.batch import Diagnostics

# How many picks a notebook shows.
_SHOWN = 10
# Width and height of the curve, and the space around it, in pixels.
_WIDTH, _HEIGHT, _EDGE = 320, 96, 6


class PickedPoints:
    """What `Batch` and `Query` have in common: comparison, tables, files and a page for notebooks.

    Attributes:
        indices: `[B]` positions of the picks, in order.
        scores: `[B]` gain of each.
        diagnostics: what the selection knows about itself, or None.
        ids: `[B]` names of the picks, or None.
        method: how they were picked, or an empty text.
    """

    indices: Array
    scores: Array
    diagnostics: "Diagnostics | None"
    ids: Array | None = None
    method: str = ""

    def __len__(self) -> int:
        return len(self.indices)

    def __eq__(self, other: object) -> bool:
        """Whether the same points were picked in the same order, with the same gains, by the same method."""
        if not isinstance(other, PickedPoints) or type(self) is not type(other):
            return NotImplemented
        names = ("indices", "scores", "ids", "method")
        return all(same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple(self.indices.tolist()), self.method))

    def _first_names(self) -> str:
        """The ids or positions of the first picks, in a line."""
        names = self.indices if self.ids is None else self.ids
        return ", ".join(map(str, names[:_SHOWN].tolist())) + (", …" if len(self) > _SHOWN else "")

    def _score_range(self) -> str:
        """The scores of the first and the last pick, in words."""
        return f"scores {self.scores[0]:.4g} to {self.scores[-1]:.4g}" if len(self) else "none"

    def columns(self) -> dict[str, list[Any]]:
        """The picks as columns: `order`, `index`, `id` if the points have names, and `score`."""
        named = {} if self.ids is None else {"id": self.ids.tolist()}
        order, index = list(range(len(self))), self.indices.tolist()
        return {"order": order, "index": index, **named, "score": self.scores.tolist()}

    def to_frame(self) -> "pd.DataFrame":
        """The picks as a pandas data frame, one row per pick: `order`, `index`, `id` if there are names, `score`.

        Example:
            >>> import numpy as np, poolwise as pw
            >>> batch = pw.select(np.log(np.full((4, 3, 2), 0.5)), 2, "margin")
            >>> list(batch.to_frame().columns)
            ['order', 'index', 'score']
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingInputError("to_frame needs pandas. Install it with: pip install pandas") from error
        return pd.DataFrame(self.columns())

    def save(self, path: str | Path) -> None:
        """Write the picks to a file: `.csv`, `.json` (with the diagnostics) or `.parquet`.

        The file is written to the side and renamed, so it is never half written.

        Example:
            >>> import numpy as np, pathlib, tempfile, poolwise as pw
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "batch.csv"
            >>> pw.select(np.log(np.full((4, 3, 2), 0.5)), 2, "margin").save(path)
            >>> path.read_text().splitlines()[0]
            'order,index,score'
        """
        save(self, Path(path))

    def _repr_html_(self) -> str:
        return as_html(self)


def save(picks: PickedPoints, path: Path, **about: Any) -> None:
    """Write picks to a file whose ending says how.

    Args:
        picks: the picks.
        path: the file.
        about: more to say in a `.json` file, such as the seed.
    """
    check_ending(path)
    ending = path.suffix.lower()
    if ending == ".parquet":
        content = _as_parquet(picks)
    else:
        content = (as_csv(picks) if ending == ".csv" else as_json(picks, **about)).encode()
    with replacing(path) as file:
        file.write(content)


def check_ending(path: Path) -> None:
    """Raise if picks cannot be written to a file of that name."""
    if path.suffix.lower() not in (".csv", ".json", ".parquet"):
        raise ParameterError(f"the file for the picks must end in .csv, .json or .parquet, not {path.name!r}.")


def as_csv(picks: PickedPoints) -> str:
    """The picks as comma-separated values with a header."""
    columns, text = picks.columns(), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def as_json(picks: PickedPoints, **about: Any) -> str:
    """The picks and what is known about them as JSON.

    Args:
        picks: the picks.
        about: more to say, such as the seed.
    """
    columns = picks.columns()
    content = {
        "poolwise": __version__,
        **({"method": picks.method} if picks.method else {}),
        **about,
        "picks": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "diagnostics": None if picks.diagnostics is None else picks.diagnostics.as_dict(),
    }
    return json.dumps(_plain(content), indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """A value that JSON can hold: numbers that are not finite, which it cannot, become null."""
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _as_parquet(picks: PickedPoints) -> bytes:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingInputError("a .parquet file needs pyarrow. Try: pip install 'poolwise[parquet]'") from error
    columns, room = picks.columns(), io.BytesIO()
    pq.write_table(pa.table(columns), room)
    return room.getvalue()


def as_html(picks: PickedPoints) -> str:
    """The first picks, the information curve and the warning, in colours that suit light and dark pages."""
    columns, known = picks.columns(), picks.diagnostics
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(value))}</td>" for value in row) + "</tr>"
        for _, row in zip(range(_SHOWN), zip(*columns.values(), strict=True), strict=False)
    )
    more = f"<div>… and {len(picks) - _SHOWN:,} more</div>" if len(picks) > _SHOWN else ""
    title = f"{type(picks).__name__} of {len(picks):,}" + (f" by {picks.method}" if picks.method else "")
    parts = [f"<div><b>{html.escape(title)}</b></div>"]
    if known is not None and (message := saturation_message(picks.method, known, len(picks))) is not None:
        box = "border-left:3px solid #d97706;background:rgba(217,119,6,.12);padding:.4em .8em;margin:.4em 0"
        parts.append(f'<div role="note" style="{box}">{html.escape(message)}</div>')
    if known is not None and known.information is not None and len(known.information):
        parts.append(_curve(known.information, known.ceiling))
    parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}")
    if known is not None:
        lines = "<br>".join(html.escape(line) for line in str(known).splitlines())
        parts.append(f'<div style="opacity:.75;font-size:90%">{lines}</div>')
    return f'<div style="color:inherit;max-width:46em">{"".join(parts)}</div>'


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _curve(information_B: Array, ceiling: float) -> str:
    """The information after each pick as a small drawing, with the ceiling as a dashed line."""
    B, top = len(information_B), max(ceiling, float(np.nanmax(information_B)), 1e-12)
    places = np.unique(np.linspace(0, B - 1, min(B, 200)).round().astype(int))
    x = _EDGE + places / max(1, B - 1) * (_WIDTH - 2 * _EDGE)
    y = _HEIGHT - _EDGE - np.nan_to_num(information_B[places]) / top * (_HEIGHT - 2 * _EDGE)
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    limit = _HEIGHT - _EDGE - ceiling / top * (_HEIGHT - 2 * _EDGE)
    says = f"information after each pick: {information_B[-1]:.3f} of at most {ceiling:.3f} nats after {B:,} picks"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'style="max-width:100%;color:inherit"><title>{says}</title>'
        f'<line x1="{_EDGE}" x2="{_WIDTH - _EDGE}" y1="{limit:.1f}" y2="{limit:.1f}" stroke="currentColor" '
        'stroke-opacity=".5" stroke-dasharray="4 3"/>'
        f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="2"/>'
        f'<circle cx="{x[-1]:.1f}" cy="{y[-1]:.1f}" r="3" fill="currentColor"/></svg>'
        f'<div style="font-size:90%;opacity:.75">{says}; dashed: the ceiling, ln K</div>'
    )
