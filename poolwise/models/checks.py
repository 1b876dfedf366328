"""What every network asks of its arguments."""

from collections.abc import Sequence
from numbers import Integral

from poolwise.errors import ParameterError, ShapeError


def sizes(input_shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of one input, without the axis that counts examples."""
    shape = tuple(input_shape) if isinstance(input_shape, Sequence) else ()
    if not shape or any(not _whole(size) or size < 1 for size in shape):
        raise ShapeError(
            f"input_shape must be the shape of one input, such as (1, 28, 28) or (512,), not {input_shape!r}."
        )
    return tuple(int(size) for size in shape)


def image_shape(input_shape: Sequence[int]) -> tuple[int, int, int]:
    """(channels, height, width) of one image."""
    shape = sizes(input_shape)
    if len(shape) != 3:
        raise ShapeError(
            f"input_shape must be the (channels, height, width) of one image, not {shape}. "
            "For inputs that are not images use 'mlp' or 'linear'."
        )
    channels, height, width = shape
    return channels, height, width


def count(value: int, what: str, least: int = 1) -> int:
    """A whole number of at least `least`."""
    if not _whole(value) or value < least:
        raise ParameterError(f"{what} must be a whole number of at least {least}, not {value!r}.")
    return int(value)


def rate(dropout: float) -> float:
    """A dropout rate: what share of units is dropped, from 0 to less than 1."""
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise ParameterError(f"dropout must be a number from 0 to less than 1, not {dropout!r}. 0.5 is common.")
    return float(dropout)


def rates(dropout: float | Sequence[float], layers: int) -> tuple[float, ...]:
    """One dropout rate for each layer, from one for all of them or from as many as there are layers."""
    if isinstance(dropout, str) or not isinstance(dropout, Sequence):
        return (rate(dropout),) * layers
    if len(dropout) != layers:
        raise ParameterError(f"dropout must be one rate, or {layers} of them (one per layer), not {len(dropout)}.")
    return tuple(rate(one) for one in dropout)


def _whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
