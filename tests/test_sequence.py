"""Networks that are plain sequences of layers, several at once."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.func import stack_module_state

from poolwise.models.dropout import controlled
from poolwise.models.sequence import plain_sequence, run


def sequence(*layers):
    return lambda: nn.Sequential(*(layer() for layer in layers))


def linear(inputs, outputs, **options):
    return partial(nn.Linear, inputs, outputs, **options)


NETWORKS = {
    "linear": (sequence(linear(6, 3)), (6,)),
    "no bias": (sequence(linear(6, 5, bias=False), nn.ReLU, linear(5, 3, bias=False)), (6,)),
    "images": (sequence(nn.Flatten, linear(24, 5), nn.GELU, nn.Dropout, linear(5, 3)), (2, 3, 4)),
    "last axis": (sequence(linear(4, 5), nn.Tanh, nn.Dropout, nn.Flatten, linear(15, 3)), (3, 4)),
    "some axes": (sequence(partial(nn.Flatten, 1, 2), linear(4, 2), partial(nn.Flatten, -2), nn.SiLU), (2, 3, 4)),
    "dropout": (
        sequence(nn.Dropout, linear(6, 9), partial(nn.Dropout, 0.0), nn.Identity, partial(nn.Dropout, 0.2)),
        (6,),
    ),
    "nothing": (sequence(), (6,)),
    "all dropped": (sequence(linear(6, 4), partial(nn.Dropout, 1.0), linear(4, 2)), (6,)),
}


@pytest.mark.parametrize("dropping", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_they_give_what_each_gives_alone(name, dropping):
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    networks = [make() for _ in range(3)]
    inputs = torch.randn(3, 7, *shape)
    masks = [[], [], []]

    def alone(member):
        def draw(call, rows):
            if not dropping:
                return None
            masks[member].append((torch.rand(rows, *call.shape) > call.rate).float())
            return masks[member][-1]

        with controlled(networks[member], draw):
            return networks[member](inputs[member].clone())

    expected = torch.stack([alone(member) for member in range(3)])
    weights = stack_module_state(networks)[0] if name != "nothing" else {}
    outputs = run(
        plain_sequence(networks[0]), weights, inputs, [torch.stack(kept) for kept in zip(*masks, strict=True)]
    )
    torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=1e-6)
    if weights:  # the gradients, too
        outputs.square().sum().backward()
        expected.square().sum().backward()
        for key, stacked in weights.items():
            grads = [network.get_parameter(key).grad for network in networks]
            if stacked.grad is None:  # all that comes of it is dropped
                assert grads == [None, None, None]
            else:
                torch.testing.assert_close(stacked.grad, torch.stack(grads), rtol=1e-4, atol=1e-5)


def test_a_layer_without_weights_may_come_twice():
    relu, head = nn.ReLU(), nn.Linear(4, 4)
    assert list(plain_sequence(nn.Sequential(relu, head, relu))) == ["0", "1", "2"]


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Backwards(nn.Sequential):
    def forward(self, x):
        for layer in reversed(self):
            x = layer(x)
        return x


def hooked(register):
    network = nn.Sequential(nn.Linear(4, 4))
    getattr(network[0], register)(lambda *_: None)
    return network


def hooked_network():
    network = nn.Sequential(nn.Linear(4, 4))
    network.register_forward_hook(lambda *_: None)
    return network


def shared():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer)


def tied():
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    network[1].weight = network[0].weight
    return network


def replaced():
    network = nn.Sequential(nn.Linear(4, 4))
    network[0].forward = lambda x: x
    return network


OTHERS = {
    "a subclass of a layer": lambda: nn.Sequential(Doubled(4, 4)),
    "a subclass of Sequential": lambda: Backwards(nn.Linear(4, 4)),
    "a network in a network": lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 4))),
    "a hook on the network": hooked_network,
    "a layer that writes over its input": lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4)),
    "another kind of layer": lambda: nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)),
    "a layer that comes twice": shared,
    "weights that are tied": tied,
    "weights in another form": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))),
    "a replaced method": replaced,
    "forward hook": partial(hooked, "register_forward_hook"),
    "forward pre-hook": partial(hooked, "register_forward_pre_hook"),
    "backward hook": partial(hooked, "register_full_backward_hook"),
    "backward pre-hook": partial(hooked, "register_full_backward_pre_hook"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_might_do_more_is_left_alone(kind):
    assert plain_sequence(OTHERS[kind]()) is None
