"""How each method looks, the same in every figure of a section: told apart by colour, by marker and by dashes."""

from collections.abc import Mapping
from dataclasses import dataclass

from poolwise.reports.comparable import BASELINE

# Okabe and Ito's colours, told apart by colour-blind readers, without black (for random) and the yellow that
# vanishes on white paper. Six colours and seven markers meet again only after 42 methods.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "-.", ":")


@dataclass(frozen=True)
class Look:
    """Colour, marker and line style, as Matplotlib names them."""

    colour: str
    marker: str
    dashes: str


RANDOM = Look("#4d4d4d", "", "--")


def choose_looks(methods: Mapping[str, str]) -> dict[str, Look]:
    """A look for every label, given the method of each; random is always dashed grey."""
    chosen = {label: RANDOM for label, method in methods.items() if method == BASELINE}
    for i, label in enumerate(sorted(methods.keys() - chosen.keys())):
        dashes = _DASHES[i // len(_COLOURS) % len(_DASHES)]
        chosen[label] = Look(_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)], dashes)
    return chosen
