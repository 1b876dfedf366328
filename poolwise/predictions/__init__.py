"""`[N, K, C]` predictions in memory, in files or in folders of shards, read in blocks and by rows."""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poolwise.predictions.adopting import adopt
    from poolwise.predictions.blocks import Block
    from poolwise.predictions.forms import PredictionKind, PredictionLayout
    from poolwise.predictions.predictions import Predictions
    from poolwise.predictions.writing import ShardWriter

__all__ = ["Block", "PredictionKind", "PredictionLayout", "Predictions", "ShardWriter", "adopt"]

# Where each public name lives. A name is loaded when it is first used, so that `forms` does not load PyTorch.
_HOMES = {
    "Block": "blocks",
    "PredictionKind": "forms",
    "PredictionLayout": "forms",
    "Predictions": "predictions",
    "ShardWriter": "writing",
    "adopt": "adopting",
}
_OLD_NAMES = {"Kind": "PredictionKind", "Layout": "PredictionLayout"}


def __getattr__(name: str) -> Any:
    if name in _OLD_NAMES:
        new = _OLD_NAMES[name]
        warnings.warn(f"{__name__}.{name} is now called {new}.", DeprecationWarning, stacklevel=2)
        return __getattr__(new)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
