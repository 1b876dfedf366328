"""Networks for inputs that are features already: embeddings, or tables."""

import math
from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from poolwise.errors import ParameterError
from poolwise.models import checks


def linear(input_shape: Sequence[int], classes: int) -> nn.Sequential:
    """Logistic regression: the inputs, flattened, and `head`.

    Args:
        input_shape: shape of one input, `(D,)` for embeddings.
        classes: number of classes.

    Example:
        >>> from poolwise import models
        >>> models.linear((512,), 10).head
        Linear(in_features=512, out_features=10, bias=True)
    """
    return _network(input_shape, classes, (), 0.0)


def mlp(
    input_shape: Sequence[int], classes: int, *, hidden: Sequence[int] = (128,), dropout: float = 0.5
) -> nn.Sequential:
    """Hidden layers, each with ReLU and then dropout, and `head`.

    Args:
        input_shape: shape of one input, `(D,)` for embeddings; other shapes are flattened.
        classes: number of classes.
        hidden: units of each hidden layer.
        dropout: rate of the dropout after each hidden layer.

    Example:
        >>> from poolwise import models
        >>> [name for name, _ in models.mlp((4,), 3, hidden=(8,)).named_children()]
        ['flatten', 'hidden1', 'relu1', 'dropout1', 'head']
    """
    if isinstance(hidden, str) or not isinstance(hidden, Sequence) or not hidden:
        raise ParameterError(
            f"hidden must be one size per layer, such as (256, 128), not {hidden!r}. See also 'linear'."
        )
    return _network(input_shape, classes, hidden, dropout)


def _network(input_shape: Sequence[int], classes: int, hidden: Sequence[int], dropout: float) -> nn.Sequential:
    width = math.prod(checks.sizes(input_shape))
    checks.count(classes, "classes")
    checks.rate(dropout)
    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    for number, units in enumerate(hidden, 1):
        layers[f"hidden{number}"] = nn.Linear(width, checks.count(units, "each size in hidden"))
        layers[f"relu{number}"] = nn.ReLU()
        layers[f"dropout{number}"] = nn.Dropout(dropout)
        width = int(units)
    layers["head"] = nn.Linear(width, classes)
    return nn.Sequential(layers)
