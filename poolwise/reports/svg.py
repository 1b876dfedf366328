"""Figures as SVG inside a page: sharp at any size, and in the colours of the page, light or dark."""

import io
import re

from matplotlib.figure import Figure

from poolwise.reports.figures import FAINT, GRID, INK, SOFT, STAGE_COLOURS
from poolwise.reports.line_styles import COLOURS, DARK_COLOURS, DARK_RANDOM_COLOUR, RANDOM_COLOUR

# Name of each colour in the page's style sheet, with its value on white and on a dark page.
THEME: dict[str, tuple[str, str]] = {
    "ink": (INK, "#e8eaed"),
    "soft": (SOFT, "#a4acb6"),
    "faint": (FAINT, "#6d7680"),
    "grid": (GRID, "#30363d"),
    "random": (RANDOM_COLOUR, DARK_RANDOM_COLOUR),
    **{f"stage-{i}": pair for i, pair in enumerate(zip(STAGE_COLOURS, ("#3d9ad6", "#2c5878", "#f0883e"), strict=True))},
    **{f"line-{i}": pair for i, pair in enumerate(zip(COLOURS, DARK_COLOURS, strict=True))},
}
_NAMES = {light: name for name, (light, _) in THEME.items()}


def inline_svg(figure: Figure, name: str, description: str) -> str:
    """A figure as an `<svg>` element for an HTML page, with the page's colours.

    Args:
        figure: the figure, drawn in the light colours of `THEME`.
        name: unique on the page: ids inside the element begin with it.
        description: what it shows, for those who cannot see it.
    """
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    head, rest = body.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    assert box is not None, "Matplotlib writes the size of a figure"
    rest = re.sub(r'\bid="', f'id="{name}-', rest)
    rest = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", rest)
    rest = re.sub(r"#[0-9a-f]{6}\b", _in_theme, rest)
    return f'<svg {box[0]} role="img" aria-label="{_quoted(description)}">{rest}'.strip()


def style_sheet(theme: int) -> str:
    """The colours as CSS variables: of the light theme (0) or the dark one (1)."""
    return " ".join(f"--{name}: {pair[theme]};" for name, pair in THEME.items())


def _in_theme(colour: re.Match[str]) -> str:
    name = _NAMES.get(colour[0])
    return colour[0] if name is None else f"var(--{name})"


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
