"""Where `[N, K, C]` predictions live: in memory or in a mapped file, read in blocks and by rows."""

from poolwise.predictions.predictions import Block, Kind, Layout, Predictions

__all__ = ["Block", "Kind", "Layout", "Predictions"]
