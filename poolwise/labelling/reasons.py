"""In plain words: why an item was chosen, whether a batch is worth its labels, and whether more labels would help."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poolwise.arrays import Array
from poolwise.labelling.store import ModelRecord

RANDOM = "drawn at random, before there was a model"
CHECK = "drawn at random, to measure how good the model is"
WAITING = "drawn at random, while the first batch was being chosen"
BETWEEN = "the model is unsure about it; it is offered while the next batch is being chosen"
AGAIN = "you skipped it before, and nothing else is left"
START = "one of the items that together resemble most of the others, chosen before there was a model"

# Shares of the probability below which a model is said to waver, or to be unsure.
_WAVERS, _UNSURE = 0.15, 0.5

# Nats of disagreement between members that are worth a word.
_DISAGREES = 0.1


def why(probs_C: Array, disagreement: float, classes: Sequence[str]) -> str:
    """Why an item is worth a label.

    Args:
        probs_C: `[C]` the mean prediction.
        disagreement: how much the members of the model disagree, in nats.
        classes: the names of the classes.
    """
    first, second = np.argsort(-probs_C, kind="stable")[:2]
    best, next_best = float(probs_C[first]), float(probs_C[second])
    if best - next_best < _WAVERS:
        reason = f"the model wavers between {classes[first]} ({best:.0%}) and {classes[second]} ({next_best:.0%})"
    elif best < _UNSURE:
        reason = f"the model is not sure: {classes[first]} only has {best:.0%}"
    else:
        reason = f"the model says {classes[first]} ({best:.0%}); the label would settle similar items"
    return reason + (", and its members disagree" if disagreement > _DISAGREES else "")


# What is said to a person before they label: the reason, and not what the model thinks the class is.
_BEFORE = {
    "the model wavers": "the model wavers between two classes",
    "the model is not sure": "the model is not sure what it is",
    "the model says": "its label would settle similar items",
}


def before_label(reason: str) -> str:
    """A reason without the classes that the model has in mind, which would bias whoever labels.

    Example:
        >>> before_label("the model wavers between cat (40%) and dog (38%), and its members disagree")
        'the model wavers between two classes, and its members disagree'
    """
    found = next((words for beginning, words in _BEFORE.items() if reason.startswith(beginning)), None)
    if found is None:
        return reason
    disagree = ", and its members disagree"
    return found + (disagree if reason.endswith(disagree) else "")


def saturation(notes: Sequence[str], size: int) -> str | None:
    """What people should know about a batch that ran out of useful items; None if it did not.

    Args:
        notes: those of the batch.
        size: how many items it has.
    """
    text = next((note for note in notes if "saturated" in note), None)
    if text is None:
        return None
    found = re.search(r"after (\d[\d,]*)", text)
    if found is None:
        return "The model found little that is new to it: the later items of this batch are as good as any others."
    useful = int(found[1].replace(",", ""))
    return (
        f"The first {useful:,} of the {size:,} items of this batch are worth their labels. After these the model found "
        "nothing that is new to it, and the others are as good as any. Smaller batches help (--batch-size)."
    )


FEW_CHECKS = 20
"""Labels that must measure a model before its accuracy is given in per cent, and anything is concluded from it."""

# Points of accuracy: a gain that is small, and an interval that is narrow enough to tell.
_SMALL_GAIN, _NARROW = 0.015, 0.06

# The share of items on which two models in a row agree when labels no longer change much.
_STEADY = 0.97


@dataclass(frozen=True)
class Outlook:
    """Whether more labels would help.

    Attributes:
        verdict: `"early"`, `"helping"`, `"unclear"` or `"enough"`.
        words: the same as a sentence or two.
    """

    verdict: str
    words: str


def outlook(models: Sequence[ModelRecord], same: float | None) -> Outlook:
    """Whether more labels would help, from the models so far.

    Args:
        models: oldest first.
        same: the share of all items for which the last two models predict the same class.
    """
    if not models:
        return Outlook("early", "There is no model yet. The first one is trained after a few labels of two classes.")
    last = models[-1]
    if last.accuracy is None or last.checked < FEW_CHECKS:
        return Outlook(
            "early",
            f"Too early to tell: {last.checked:,} labels measure the model, and it takes at least {FEW_CHECKS}. Some "
            "items of every batch are drawn at random for this.",
        )
    earlier = [m for m in models[:-1] if m.accuracy is not None and m.labels <= 0.6 * last.labels]
    steady = same is not None and same >= _STEADY
    agree = "" if same is None else f" The last two models agree on {same:.0%} of all items."
    if not earlier:
        return Outlook("helping", f"The model is right on {last.accuracy:.0%} so far. More labels are likely to help.")
    before = earlier[-1]
    assert before.accuracy is not None
    gain, half = last.accuracy - before.accuracy, ((last.high or 1.0) - (last.low or 0.0)) / 2
    change = (
        f"With {before.labels:,} labels the model was right on {before.accuracy:.0%}, with {last.labels:,} it is right "
        f"on {last.accuracy:.0%}.{agree}"
    )
    if gain > _SMALL_GAIN and not (steady and gain < half):
        return Outlook("helping", f"More labels still help. {change}")
    if half <= _NARROW and steady:
        return Outlook("enough", f"More labels would change little: you can stop here. {change}")
    if steady:
        return Outlook(
            "enough", f"More labels probably change little. {change} The accuracy is only known to ± {half:.0%}."
        )
    return Outlook(
        "unclear", f"Not clear whether more labels help. {change} The accuracy is only known to ± {half:.0%}."
    )
