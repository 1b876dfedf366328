"""Values from JSON that may be damaged: each is checked before it is used."""

import json
import math
from collections.abc import Mapping
from typing import Any

# Whole numbers in records are counts, positions and seeds. A larger one is damage.
_LARGEST = 2**63

WRONG = (OSError, AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError)
"""What reading something that is not as expected can raise."""


def text_value(content: Mapping[str, Any], name: str) -> str:
    """A text by its name."""
    if not isinstance(content[name], str):
        raise TypeError(f"{name} must be a text, not {short_json(content[name])}")
    return str(content[name])


def whole_value(content: Mapping[str, Any], name: str) -> int:
    """A whole number of at least 0 by its name."""
    value = content[name]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LARGEST:
        raise TypeError(f"{name} must be a whole number, not {short_json(value)}")
    return value


def number_values(content: Any) -> dict[str, float]:
    """Numbers by name; JSON's null stands for NaN."""
    if not isinstance(content, dict):
        raise TypeError(f"expected numbers by name, found {short_json(content)}")
    wrong = [value for value in content.values() if value is not None and not isinstance(value, int | float)]
    if wrong:
        raise TypeError(f"expected a number, found {short_json(wrong[0])}")
    return {str(name): math.nan if value is None else float(value) for name, value in content.items()}


def short_json(value: object) -> str:
    """A value as JSON, cut if it is long."""
    text = json.dumps(value)
    return text if len(text) < 40 else f"{text[:39]}…"


def reason_of(error: BaseException) -> str:
    """What went wrong, in a few words."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, OverflowError):
        return "a number is too large"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
