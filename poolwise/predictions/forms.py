"""The two words that describe stored predictions: what the numbers are, and the order of the axes.

This module imports nothing heavy, so that the command line can name the choices without loading PyTorch.
"""

from typing import Literal

PredictionKind = Literal["log-probs", "probs", "logits"]
"""What the stored numbers are."""

PredictionLayout = Literal["NKC", "KNC", "NCK"]
"""The order of the axes: N points, K posterior samples, C classes."""
