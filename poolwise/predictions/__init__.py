"""Where `[N, K, C]` predictions live: in memory, in files or in folders of shards, read in blocks and by rows."""

from poolwise.predictions.adopting import adopt
from poolwise.predictions.blocks import Block, Kind
from poolwise.predictions.predictions import Predictions
from poolwise.predictions.sources import Layout
from poolwise.predictions.writing import ShardWriter

__all__ = ["Block", "Kind", "Layout", "Predictions", "ShardWriter", "adopt"]
