"""Small networks with dropout for the tests of posteriors, and data for them."""

import numpy as np
import torch
from torch import nn

from poolwise import models
from poolwise.training import Training

QUICK = Training(steps=12, batch_size=8, learning_rate=0.01)


def made(make, seed=0):
    """A network with every layer's weights drawn, and running statistics that are not those of a new one."""
    network = models.build(make, seed)
    draw = torch.Generator().manual_seed(seed)
    for layer in network.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.running_mean.normal_(generator=draw)
            layer.running_var.uniform_(0.5, 2, generator=draw)
    return network


def mlp():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))


def sized(input_shape, classes, *, hidden=16):
    return nn.Sequential(nn.Linear(*input_shape, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def normed():
    return nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 12), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(12, 3),
    )  # fmt: skip


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout2d(0.4), nn.Conv2d(4, 6, 3), nn.MaxPool2d(2),
        nn.Dropout2d(0.4), nn.Flatten(), nn.Linear(54, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3),
    )  # fmt: skip


def inputs(n=40, *shape, seed=0):
    return torch.randn(n, *(shape or (6,)), generator=torch.Generator().manual_seed(seed))


def values(predictions):
    return predictions.rows(np.arange(len(predictions))).log_probs


def picture(module):
    """All that a user could see of a module."""
    return (
        [(name, type(part), part.training) for name, part in module.named_modules()],
        [(len(part._forward_hooks), len(part._forward_pre_hooks)) for part in module.modules()],
        [(name, value.clone()) for name, value in module.state_dict().items()],
        [sorted(vars(part)) for part in module.modules()],
        [parameter.grad for parameter in module.parameters()],
    )


def same_picture(first, second):
    assert first[0] == second[0]
    assert first[1] == second[1]
    assert [name for name, _ in first[2]] == [name for name, _ in second[2]]
    assert all(torch.equal(a, b) for (_, a), (_, b) in zip(first[2], second[2], strict=True))
    assert first[3:] == second[3:]
