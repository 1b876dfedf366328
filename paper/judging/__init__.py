"""The judging of rules on data that had no part in their design: see PLAN.md."""

from collections.abc import Mapping
from typing import Literal, NamedTuple


class Data(NamedTuple):
    """What a data set is.

    Attributes:
        kind: what the examples are.
        classes: how many classes there are.
    """

    kind: Literal["texts", "images", "tables"]
    classes: int


JUDGING: Mapping[str, Data] = {
    "letter": Data("tables", 26),
    "satimage": Data("tables", 6),
    "penbased": Data("tables", 10),
    "optdigits": Data("tables", 10),
    "texture": Data("tables", 11),
    "splice": Data("tables", 3),
    "spambase": Data("tables", 2),
    "magic": Data("tables", 2),
    "ag-news": Data("texts", 4),
    "20news": Data("texts", 20),
    "mnist": Data("images", 10),
}
"""The data of the plan."""

CONFIRMATION: Mapping[str, Data] = {
    "banana": Data("tables", 2),
    "chess": Data("tables", 2),
    "marketing": Data("tables", 9),
    "mushroom": Data("tables", 2),
    "phoneme": Data("tables", 2),
    "ring": Data("tables", 2),
    "segment": Data("tables", 7),
    "twonorm": Data("tables", 2),
    "quick-draw": Data("images", 50),
    "amazon-sentiment": Data("texts", 2),
    "movie-sentiment": Data("texts", 2),
    "editorial-sentiment": Data("texts", 2),
    "tweet-sentiment": Data("texts", 2),
    "election-tweets": Data("texts", 2),
}
"""The data of the plan's last amendment."""


def tables(data: Mapping[str, Data]) -> list[str]:
    """The names of the tables."""
    return [name for name, what in data.items() if what.kind == "tables"]
