"""What every network asks of its arguments."""

from collections.abc import Sequence
from numbers import Integral

from poolwise.errors import ParameterError, ShapeError


def sizes(input_shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of one input, without the axis that counts examples."""
    shape = tuple(input_shape) if isinstance(input_shape, Sequence) else ()
    if not shape or any(not _whole(size) or size < 1 for size in shape):
        raise ShapeError(
            f"input_shape must be the shape of one input, such as (1, 28, 28) or (512,), not {shown(input_shape)}."
        )
    return tuple(int(size) for size in shape)


def image_shape(input_shape: Sequence[int]) -> tuple[int, int, int]:
    """(channels, height, width) of one image."""
    shape = sizes(input_shape)
    if len(shape) != 3:
        raise ShapeError(
            f"input_shape must be the (channels, height, width) of one image, not {shown(shape)}. "
            "For inputs that are not images use 'mlp' or 'linear'."
        )
    channels, height, width = shape
    return channels, height, width


def count(value: object, what: str, least: int = 1, most: int | None = None) -> int:
    """A whole number from `least` to `most`.

    Args:
        value: what the caller gave.
        what: what to call it in an error.
        least: the smallest number allowed.
        most: the largest number allowed, or None for any.
    """
    if not _whole(value) or int(value) < least:  # type: ignore[call-overload]
        raise ParameterError(f"{what} must be a whole number of at least {least}, not {shown(value)}.")
    number = int(value)  # type: ignore[call-overload]
    if most is not None and number > most:
        raise ParameterError(f"{what} must be at most {most:,}, not {shown(value)}. Was it meant for something else?")
    return int(number)


def rate(dropout: float) -> float:
    """A dropout rate: what share of units is dropped, from 0 to less than 1."""
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise ParameterError(f"dropout must be a number from 0 to less than 1, not {shown(dropout)}. 0.5 is common.")
    return float(dropout)


def rates(dropout: float | Sequence[float], layers: int) -> tuple[float, ...]:
    """One dropout rate for each layer, from one for all of them or from as many as there are layers."""
    if isinstance(dropout, str) or not isinstance(dropout, Sequence):
        return (rate(dropout),) * layers
    if len(dropout) != layers:
        raise ParameterError(f"dropout must be one rate, or {layers} of them (one per layer), not {len(dropout)}.")
    return tuple(rate(one) for one in dropout)


def shown(value: object) -> str:
    """A value for an error message; Python refuses to write numbers of thousands of digits."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def _whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
