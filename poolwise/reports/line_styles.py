"""How the line of each method is drawn, the same in every figure of a section: by colour, marker and dashes."""

from collections.abc import Mapping
from dataclasses import dataclass

from poolwise.reports.comparable import BASELINE

# Ten colours on white and ten on a dark page, in the same order. They were chosen so that all of them, and the ink of
# random, stay apart for normal sight and for all three kinds of colour blindness; the tests measure it.
COLOURS = (
    "#0077aa", "#dd6600", "#009977", "#aa44ff", "#dd0044", "#550088", "#ff44dd", "#004400", "#0000ff", "#772266",
)  # fmt: skip
DARK_COLOURS = (
    "#44aaee", "#ff8833", "#33cc99", "#8855ff", "#ee1133", "#ccaacc", "#bb55aa", "#aaee88", "#ffcc00", "#669955",
)  # fmt: skip
RANDOM_COLOUR, DARK_RANDOM_COLOUR = "#222222", "#eeeeee"
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))

Dashes = str | tuple[int, tuple[int, ...]]


@dataclass(frozen=True)
class LineStyle:
    """Colour, marker and dashes, as Matplotlib names them."""

    colour: str
    marker: str
    dashes: Dashes


RANDOM = LineStyle(RANDOM_COLOUR, "", "--")


def choose_line_styles(methods: Mapping[str, str]) -> dict[str, LineStyle]:
    """A style for every label, given the method of each. Random is always dashed, in the colour of text.

    Colours do not repeat among ten methods. After that, colour and dashes together do not repeat among forty, nor do
    colour, marker and dashes among 280.
    """
    chosen = {label: RANDOM for label, method in methods.items() if method == BASELINE}
    for i, label in enumerate(sorted(methods.keys() - chosen.keys())):
        dashes = _DASHES[i // len(COLOURS) % len(_DASHES)]
        chosen[label] = LineStyle(COLOURS[i % len(COLOURS)], _MARKERS[i % len(_MARKERS)], dashes)
    return chosen
