"""When a batch has nothing more to gain."""

from poolwise.information.entropies import ceiling

# A gain below this share of `ln K`, all that K posterior samples can tell, is not worth a label: with K = 20,
# a thousand such picks would have to be made to learn what the first one or two taught.
SHARE = 1e-3


def information_tolerance(K: int) -> float:
    """The gain in nats up to which a pick counts as worthless."""
    return SHARE * ceiling(K)
