"""When a batch has nothing more to gain, and what to say about it."""

from typing import TYPE_CHECKING

from poolwise.information.entropies import ceiling

if TYPE_CHECKING:
    from poolwise.selection.batch import Diagnostics

# A gain below this share of `ln K`, all that K posterior samples can tell, is not worth a label. With K = 20, it takes
# a thousand such picks to learn what the first one or two taught.
SHARE = 1e-3

_COVERED = (
    "Every undecided point has the features of a pick or of a labelled point. What helps: a smaller batch, or features "
    "that tell these points apart."
)
_SAMPLE_COVERED = (
    "A random sample of the pool is to be covered, and every undecided point of it has the features of a pick or of a "
    "labelled point. What helps: a larger sample=, or a smaller batch."
)
# What helps methods that do not compare posterior samples.
_ADVICE = {
    **dict.fromkeys(("local-herding", "max-herding", "mutual-herding", "uherding"), _COVERED),
    "prob-cover": "Every point is within the radius of a pick or of a labelled point. What helps: a smaller radius, "
    "radius='purity' with a larger purity, or a smaller batch.",
}


def information_tolerance(K: int) -> float:
    """The gain in nats up to which a pick counts as worthless."""
    return SHARE * ceiling(K)


def saturation_message(method: str, known: "Diagnostics", batch_size: int) -> str | None:
    """What to tell a user whose batch saturated; None if it did not.

    Args:
        method: how the points were picked, or an empty text.
        known: what the selection knows about itself.
        batch_size: how many picks there are.
    """
    at, K = known.saturated_at, known.samples
    if at is None:
        return None
    rest = f" of {batch_size}" if batch_size >= at else ""
    text = (
        f"{method or 'the method'} saturated: after {at}{rest} picks no remaining point had a gain above "
        f"{known.tolerance:.2g}, so the later picks are arbitrary. "
    )
    if method in _ADVICE:
        sampled = known.standard_error is not None and _ADVICE[method] == _COVERED
        return text + (_SAMPLE_COVERED if sampled else _ADVICE[method])
    if K == 1:
        return text + (
            "One posterior sample (K = 1) carries no information about what the model does not know. What helps: "
            "method='margin', which needs no more than one sample, or more posterior samples (an ensemble, MC dropout)."
        )
    helps = "method='power-lbb', or another redundancy" if method == "lbb" else "or method='power-lbb'"
    return text + (
        f"The K = {K} posterior samples can tell at most ln {K} = {known.ceiling:.2f} nats in all. What helps: more "
        f"posterior samples, a smaller batch, {helps}."
    )
