"""`[N, K, C]` predictions in memory, in files or in folders of shards, read in blocks and by rows."""

from typing import TYPE_CHECKING

from poolwise.lazy import lazy_names

if TYPE_CHECKING:
    from poolwise.predictions.adopting import adopt
    from poolwise.predictions.blocks import Block
    from poolwise.predictions.forms import PredictionKind, PredictionLayout
    from poolwise.predictions.predictions import Predictions
    from poolwise.predictions.writing import ShardWriter

__all__ = ["Block", "PredictionKind", "PredictionLayout", "Predictions", "ShardWriter", "adopt"]

# Where each public name lives. A name is loaded when it is first used, so that `forms` does not load PyTorch.
_HOMES = {
    "Block": ".blocks",
    "PredictionKind": ".forms",
    "PredictionLayout": ".forms",
    "Predictions": ".predictions",
    "ShardWriter": ".writing",
    "adopt": ".adopting",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES, {"Kind": "PredictionKind", "Layout": "PredictionLayout"})
