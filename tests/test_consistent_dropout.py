"""MC dropout: one mask a sample for all examples, against full passes, whatever a network does."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cases import thorough
from small_networks import convolutional, inputs, made, mlp, normed, picture, same_picture, values
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import poolwise as pw
from poolwise import errors
from poolwise.models.dropout import Call, controlled, dropout_layers
from poolwise.parallel import one_thread_an_operation
from poolwise.posteriors import consistent, networks
from poolwise.posteriors.consistent import ConsistentDropout, Masks
from poolwise.seeding import child_seed


def full_passes(module, x, samples, seed=0):
    """K passes through the whole module with the masks of `mc_dropout`, nothing reused, a copy of the inputs each."""
    masks, outputs, sample = Masks(child_seed(seed, "masks", 0)), [], 0
    modes = {part: part.training for part in module.modules()}
    module.eval()
    with controlled(module, lambda call, rows: masks.draw(call, sample)), one_thread_an_operation():
        for sample in range(samples):  # noqa: B007 - the masks read it
            outputs.append(module(x.clone()).log_softmax(1))
    for part, mode in modes.items():
        part.training = mode
    return torch.stack(outputs, 1)


def close(result, expected):
    """The same probabilities to 1e-6, and the same log-probabilities to as much of what float32 can tell apart."""
    torch.testing.assert_close(result.exp(), expected.exp(), rtol=0, atol=1e-6)
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6)


def agrees(module, x, samples=5, seed=3):
    torch.testing.assert_close(
        values(pw.mc_dropout(module, x, samples, seed)), full_passes(module, x, samples, seed), rtol=0, atol=2e-6
    )


# Sample k is the same for every example


@pytest.mark.parametrize(
    ("make", "shape"), [(mlp, (6,)), (normed, (6,)), (convolutional, (1, 10, 10))], ids=["mlp", "normed", "conv"]
)
def test_predictions_depend_on_nothing_but_the_example_and_the_sample(make, shape, monkeypatch, global_state):
    network, x = made(make), inputs(53, *shape)
    expected = full_passes(network, x, 6, 1)
    for rows in (1, 2, 7, 16, 52, 53, 1000):
        monkeypatch.setattr(networks, "_ROWS", rows)
        close(values(pw.mc_dropout(network, x, 6, 1)), expected)
    order = torch.randperm(53, generator=torch.Generator().manual_seed(0))
    close(values(pw.mc_dropout(network, x[order], 6, 1)), expected[order])
    for subset in ([0], [52], [3, 3, 50], list(range(0, 53, 5))):
        close(values(pw.mc_dropout(network, x[subset], 6, 1)), expected[subset])
    close(values(pw.mc_dropout(network, x, 4, 1)), expected[:, :4])


def test_threads_do_not_matter_to_the_last_bit(monkeypatch):
    network, x = made(convolutional), inputs(64, 1, 10, 10)
    monkeypatch.setattr(networks, "_ROWS", 5)
    results = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        results.append(values(pw.mc_dropout(network, x, 7, embeddings=True)))
        assert torch.get_num_threads() == threads
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.thorough
def test_new_threads_do_not_split_operations():
    program = """
import sys
import torch
from torch import nn
import poolwise as pw
from poolwise.posteriors import networks
networks._ROWS = 5
sys.setswitchinterval(1e-6)  # so that threads meet in every place
torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(100, 20), nn.Dropout(0.5), nn.ReLU(), nn.Linear(20, 3))
x = torch.randn(640, 1, 10, 10)
def predicted(threads):
    torch.set_num_threads(threads)
    found = pw.mc_dropout(network, x, 3, embeddings=True)
    return found.embeddings, found.numpy()
expected = predicted(1)
for _ in range(20):
    for found, wanted in zip(predicted(4), expected):
        assert (found == wanted).all()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "OMP_NUM_THREADS": "4"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_samples_layers_and_seeds_differ():
    network = made(lambda: nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5), nn.Linear(30, 3)))
    result = values(pw.mc_dropout(network, inputs(4, 30), 10))
    assert len(torch.unique(result[0], dim=0)) == 10
    assert not torch.equal(result, values(pw.mc_dropout(network, inputs(4, 30), 10, seed=1)))
    assert torch.equal(result, values(pw.mc_dropout(network, inputs(4, 30), 10, seed=0)))
    seen = []
    with ConsistentDropout(network, 0) as dropout:
        handles = [layer.register_forward_hook(lambda *hook: seen.append(hook[2])) for layer in network[:2]]
        list(dropout.samples(torch.ones(2, 30), 1))
        for handle in handles:
            handle.remove()
    assert torch.equal(seen[0][0], seen[0][1])  # one mask for both examples
    assert not torch.equal(seen[0] * 2, seen[1])  # and another one in the second layer


class Kernels(TorchDispatchMode):
    """Notes on how many rows a kernel of PyTorch ran: what was computed, not what was asked for."""

    def __init__(self, kernel):
        super().__init__()
        self.kernel, self.rows = kernel, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is self.kernel:
            self.rows.append(len(args[0]))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("samples", [1, 3, 50])
def test_everything_before_the_first_dropout_is_computed_once(samples, monkeypatch):
    network = made(lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 8), nn.Tanh()))
    monkeypatch.setattr(networks, "_ROWS", 10)
    torch.set_num_threads(1)  # a mode holds for one thread
    for kernel, times in ((torch.ops.aten.relu.default, 1), (torch.ops.aten.tanh.default, samples)):
        with Kernels(kernel) as kernels:
            pw.mc_dropout(network, inputs(40), samples)
        # A try on four rows for the size of a chunk, one to tell logits from probabilities, then the chunks.
        assert kernels.rows == [4, 10, *[10] * 4 * times]


def test_shorter_padding_gets_the_beginning_of_the_longer_masks():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.drop1d, self.head = nn.Dropout(0.5), nn.Dropout1d(0.5), nn.Linear(4, 3)

        def forward(self, x):  # [n, positions, features]
            return self.head(self.drop1d(self.drop(x)).sum(1))

    network, x = made(Positions), inputs(10, 7, 4)
    padded = torch.cat([x, torch.zeros(10, 5, 4)], 1)
    torch.testing.assert_close(
        values(pw.mc_dropout(network, x, 8)), values(pw.mc_dropout(network, padded, 8)), rtol=0, atol=1e-6
    )


def test_many_samples_keep_few_masks_and_small_chunks(monkeypatch):
    monkeypatch.setattr(consistent, "_MASKS", 100 * 64)
    network, x = made(mlp), inputs(30)
    result = values(pw.mc_dropout(network, x, 400, 2))
    torch.testing.assert_close(result, full_passes(network, x, 400, 2), rtol=0, atol=2e-6)
    masks = Masks(0)
    for sample in range(400):
        masks.draw(Call("a", 0, (16,), 0.5), sample)
    assert masks._bytes <= 100 * 64
    sizes = []
    monkeypatch.setattr(networks.Sampler, "samples", spied(networks.Sampler.samples, sizes))
    pw.mc_dropout(network, inputs(60), 300, memory=300_000)
    assert 300 * 3 * 4 * max(sizes) <= 300_000 / 4  # K · C · float32 of a chunk


def spied(function, sizes):
    def spy(self, x):
        sizes.append(len(x))
        return function(self, x)

    return spy


# Every kind of layer, against PyTorch's own


def spread(layer, x, count=2000):
    """Mean and variance over samples of what a layer makes of x, from PyTorch in training mode and from Poolwise."""
    torch.manual_seed(0)
    layer.train()
    theirs = torch.stack([layer(x.clone()) for _ in range(count)])
    layer.eval()
    network = nn.Sequential(layer, nn.Flatten())
    with ConsistentDropout(network, 0) as dropout:
        ours = torch.stack(list(dropout.samples(x, count))).view(count, *x.shape)
    return theirs, ours


@pytest.mark.parametrize("rate", [0.2, *thorough(0.7)])
@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (nn.Dropout, (2, 3, 4)),
        (nn.AlphaDropout, (2, 3, 4)),
        (nn.Dropout1d, (2, 3, 4)),
        (nn.Dropout2d, (2, 3, 2, 2)),
        (nn.Dropout3d, (2, 3, 2, 1, 2)),
        (nn.FeatureAlphaDropout, (2, 3, 2, 2)),
    ],
)
def test_each_kind_of_dropout_has_the_distribution_of_pytorch(kind, shape, rate):
    x = inputs(2, *shape[1:]) + 0.5
    theirs, ours = spread(kind(rate), x)
    # The values a unit can take are PyTorch's own.
    for index in np.ndindex(*shape):
        mine, its = (torch.unique((part[(slice(None), *index)] * 1e4).round()) for part in (ours, theirs))
        torch.testing.assert_close(mine, its, rtol=0, atol=1.5)
    # And it takes them as often: five standard errors of the difference of two means.
    error = (theirs.var(0) / len(theirs) + ours.var(0) / len(ours)).sqrt()
    assert ((theirs.mean(0) - ours.mean(0)).abs() < 5 * error + 1e-6).all()
    torch.testing.assert_close(theirs.std(0), ours.std(0), rtol=0.1, atol=1e-5)
    # The examples of a sample always go together, and the units of a channel in the layers for channels.
    kept = ((ours - theirs.flatten().mode().values).abs() > 1e-5).flatten(3)
    assert torch.equal(kept[:, 0], kept[:, 1])
    assert bool((kept == kept[..., :1]).all()) == (kind not in (nn.Dropout, nn.AlphaDropout))
    assert not (kept == kept[:, :, :1]).all()


@pytest.mark.parametrize(
    "kind", [nn.Dropout, nn.AlphaDropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout]
)
def test_a_rate_of_one_drops_all_and_a_rate_of_zero_is_no_dropout_layer(kind):
    x = inputs(3, *{nn.Dropout1d: (4, 4), nn.Dropout2d: (4, 2, 2)}.get(kind, (2, 2, 2, 2)))
    expected = kind(1.0).train()(x)
    with ConsistentDropout(nn.Sequential(kind(1.0), nn.Flatten()), 0) as dropout:
        for sample in dropout.samples(x, 3):
            assert torch.equal(sample, expected.flatten(1))
    with pytest.raises(errors.ParameterError, match="no dropout layer with a rate above 0"):
        pw.mc_dropout(nn.Sequential(kind(0.0), nn.Flatten(), nn.Linear(16, 3)), x)
    network = nn.Sequential(nn.Dropout(0.0), nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    assert list(dropout_layers(network)) == ["2"]
    agrees(network, inputs(5))


def test_a_layer_called_twice_drops_differently_each_time():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.head = nn.Linear(12, 3)

        def forward(self, x):
            return self.head(torch.cat([self.drop(x), self.drop(input=x)], 1))

    network = made(Twice)
    agrees(network, inputs(9))
    seen = []
    network.head.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with ConsistentDropout(network, 0) as dropout:
        list(dropout.samples(torch.ones(2, 6), 1))
    assert not torch.equal(seen[0][:, :6], seen[0][:, 6:])


def test_a_dropout_layer_of_ones_own_that_always_drops(global_state):
    class Always(nn.Dropout):
        def forward(self, x):
            return F.dropout(x, self.p, training=True)

    network = made(lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), Always(0.5), nn.Linear(8, 3)))
    plain = made(lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)))
    close(values(pw.mc_dropout(network, inputs(), 4)), values(pw.mc_dropout(plain, inputs(), 4)))


def shared_relu():
    relu = nn.ReLU()
    return nn.Sequential(nn.Linear(6, 8), relu, nn.Dropout(0.5), nn.Linear(8, 8), relu, nn.Linear(8, 3))


def shared_dropout():
    drop = nn.Dropout(0.5)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), drop, nn.Linear(8, 8), nn.ReLU(), drop, nn.Linear(8, 3))


def shared_linear():
    layer = nn.Linear(8, 8)
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), layer, nn.ReLU(), layer, nn.Linear(8, 3))


def hooked():
    """What a hook on the network itself does counts, as it does in a pass of PyTorch's."""
    network = mlp()
    network.register_forward_hook(lambda _, __, output: 3 * output)
    network.register_forward_pre_hook(lambda _, given: (given[0] + 1,))
    return network


@pytest.mark.parametrize("make", [shared_relu, shared_dropout, shared_linear, hooked])
def test_layers_that_stand_in_a_row_more_than_once_and_hooks_on_the_row(make):
    agrees(made(make), inputs(20))


# What cannot be controlled is refused


class Functional(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.layer, self.drop, self.head, self.function = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3), function

    def forward(self, x):
        return self.head(self.function(self.drop(self.layer(x)), self.training))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, training: F.dropout(x, 0.3, training),
        lambda x, training: F.dropout(x),
        lambda x, training: F.dropout(x, training=True),
        lambda x, training: torch.dropout(x, 0.5, training),
        lambda x, training: F.alpha_dropout(x, training=training),
        lambda x, training: F.dropout1d(x[:, :, None], 0.1, training)[..., 0],
        lambda x, training: F.feature_alpha_dropout(x, 0.1, training),
        lambda x, training: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.2)[0],
        lambda x, training: F.scaled_dot_product_attention(x[None], x[None], x[None], None, 0.2)[0],
        lambda x, training: x + torch.randn_like(x),
        lambda x, training: x * torch.rand(8),
        lambda x, training: x * torch.empty_like(x).bernoulli_(0.5),
    ],
)
@pytest.mark.parametrize("place", ["before", "after"])
def test_functional_dropout_and_other_randomness_are_refused(function, place, global_state):
    class Before(Functional):
        def forward(self, x):
            return self.head(self.drop(self.function(self.layer(x), self.training)))

    network = made(lambda: (Functional if place == "after" else Before)(function))
    before = picture(network)
    with pytest.raises(errors.ParameterError, match=r"as a function|inside a function|not the same twice"):
        pw.mc_dropout(network, inputs(5))
    same_picture(picture(network), before)


def test_functional_dropout_with_the_rate_zero_is_no_dropout():
    agrees(made(lambda: Functional(lambda x, training: F.dropout(x, p=0.0, training=training))), inputs())
    agrees(made(lambda: Functional(lambda x, training: F.dropout(x, 0.0))), inputs())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.LSTM(4, 4, 2, dropout=0.2), "LSTM with dropout=0.2"),
        (lambda: nn.GRU(4, 4, 2, dropout=0.2), "GRU with dropout=0.2"),
        (lambda: nn.MultiheadAttention(4, 2, dropout=0.1), "MultiheadAttention with dropout=0.1"),
        (lambda: nn.TransformerEncoderLayer(4, 2, 8), "MultiheadAttention with dropout=0.1"),
    ],
)
def test_dropout_inside_other_layers_is_refused(make, message):
    with pytest.raises(errors.ParameterError, match=message):
        pw.mc_dropout(nn.Sequential(make(), nn.Dropout(0.5), nn.Linear(4, 2)), inputs(5, 3, 4))


def test_a_module_without_dropout_or_that_never_calls_it_is_refused():
    with pytest.raises(errors.ParameterError, match="has no dropout layer"):
        pw.mc_dropout(nn.Linear(6, 3), inputs())

    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.head = nn.Dropout(0.5), nn.Linear(6, 3)

        def forward(self, x):
            return self.head(x)

    with pytest.raises(errors.ParameterError, match="calls none of its dropout layers"):
        pw.mc_dropout(Idle(), inputs())


@pytest.mark.parametrize("n", [2, 3, 4, 11])
@pytest.mark.parametrize(
    "forward",
    [
        lambda net, x: net.head(net.drop(x.transpose(0, 1)).transpose(0, 1).mean(1)),  # positions first
        lambda net, x: net.head(net.drop(x.flatten(0, 1)).view(x.shape).mean(1)),  # positions as examples
        lambda net, x: net.head(net.drop(x.mean(1).sum(0, keepdim=True)).expand(len(x), -1)),
    ],
    ids=["positions first", "positions as examples", "one row for all"],
)
def test_dropout_whose_first_axis_is_not_the_batch_is_refused(forward, n):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.head = nn.Dropout(0.5), nn.Linear(4, 3)

        def forward(self, x):
            return forward(self, x)

    network = Net()
    before = picture(network)
    with pytest.raises(errors.ParameterError, match="first axis must count the examples"):
        pw.mc_dropout(network, inputs(n, 5, 4))
    same_picture(picture(network), before)


@pytest.mark.parametrize(
    "output",
    [lambda x: x[:, :, None], lambda x: x[:1], lambda x: (), lambda x: (None, x), lambda x: {"a": x, "b": x}],
)
def test_outputs_that_are_not_logits_are_refused(output):
    class Net(nn.Sequential):
        def forward(self, x):
            return output(super().forward(x))

    network = Net(nn.Dropout(0.5), nn.Linear(6, 3))
    for call in (lambda: pw.mc_dropout(network, inputs(5)), lambda: pw.ensemble([network], inputs(5))):
        with pytest.raises(errors.ShapeError, match=r"must return a tensor \[examples, classes\]"):
            call()


def test_a_module_that_decides_at_random_before_its_dropout_is_refused():
    class Moody(nn.Module):
        def __init__(self, more):
            super().__init__()
            self.drop, self.head, self.more, self.passes = nn.Dropout(0.5), nn.Linear(6, 3), more, 0

        def forward(self, x):
            self.passes += 1
            for _ in range(self.passes if self.more else 10 - self.passes):
                x = x + 1
            return self.head(self.drop(x))

    for more in (True, False):
        with pytest.raises(errors.ParameterError, match="does not compute the same"):
            pw.mc_dropout(Moody(more), inputs(5), 5)


# Whatever a forward pass does


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.drop, self.last, self.head = nn.Dropout(0.4), nn.AlphaDropout(0.2), nn.Linear(8, 3)

    def forward(self, x):
        h = F.relu(self.first(x))
        h = h + self.drop(F.relu(self.second(h)))
        return self.head(h + self.last(F.relu(self.third(h))))


class Skip(Residual):
    """Uses what came before the first dropout, and its inputs, again at the end."""

    def forward(self, x):
        early = self.first(x)
        h = self.drop(torch.relu(early))
        return self.head(self.second(h) + early + x.sum(1, keepdim=True))


class AddsInPlace(Residual):
    """Writes over a result from before the first dropout, after it."""

    def forward(self, x):
        early = F.relu(self.first(x))
        early += self.drop(self.second(early))
        return self.head(early)


class WritesToInputs(Residual):
    """Normalises its inputs in place, before the first dropout."""

    def forward(self, x):
        x -= 0.5
        x.mul_(2)
        h = F.relu(self.first(x))
        return self.head(h + self.drop(self.second(h))) + x[:, :3]


class WritesToInputsTwice(Residual):
    """The same, and something after the first dropout writes over what came before."""

    def forward(self, x):
        x -= 0.5
        h = F.relu(self.first(x))
        h += self.drop(self.second(h))
        return self.head(h) + x[:, :3]


class WritesToInputsLate(Residual):
    """Writes over its inputs after the first dropout."""

    def forward(self, x):
        h = self.drop(self.first(x))
        x += 1
        return self.head(h) + x[:, :3]


class DropsInputs(Residual):
    def forward(self, x):
        return self.head(F.relu(self.first(self.drop(x))))


class Views(Residual):
    """Writes through a view of a result from before the first dropout."""

    def forward(self, x):
        early = self.first(x)
        part = early[:, :4]
        h = self.drop(early)
        part.zero_()
        return self.head(h + early)


class Branches(Residual):
    """Decides by numbers, keeps things, makes new tensors."""

    def forward(self, x):
        h = self.first(x)
        scale = torch.arange(8, dtype=x.dtype) / 8
        mask = torch.zeros(len(x), 8).masked_fill_(h > 0, 1.0)
        h = h * scale * mask if float(h.abs().max()) > 0 else h
        parts = h.chunk(2, dim=1)
        return self.head(self.drop(torch.cat(parts[::-1], 1)))


def inplace_relus():
    return nn.Sequential(
        nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.ReLU(inplace=True), nn.Linear(8, 8),
        nn.ReLU(inplace=True), nn.Dropout(0.5, inplace=True), nn.Linear(8, 3),
    )  # fmt: skip


def relu_first():
    return nn.Sequential(nn.ReLU(inplace=True), nn.Linear(6, 8), nn.Dropout(0.5, inplace=True), nn.Linear(8, 3))


def recurrent():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.drop, self.head = nn.LSTM(3, 5, 2, batch_first=True), nn.Dropout(0.5), nn.Linear(5, 3)

        def forward(self, x):
            return self.head(self.drop(self.lstm(x.view(len(x), 2, 3))[0][:, -1]))

    return Net()


@pytest.mark.parametrize(
    "make",
    [
        Residual, Skip, AddsInPlace, WritesToInputs, WritesToInputsTwice, WritesToInputsLate, DropsInputs, Views,
        Branches, inplace_relus, relu_first, recurrent,
    ],
)  # fmt: skip
def test_passes_that_reuse_what_they_can_equal_full_passes(make, monkeypatch):
    network, x = made(make), inputs(30)
    kept = x.clone()
    agrees(network, x)
    monkeypatch.setattr(networks, "_ROWS", 4)
    agrees(network, x)
    assert torch.equal(x, kept)  # whatever a module writes over, it is not the caller's data


@pytest.mark.parametrize("make", [WritesToInputs, WritesToInputsTwice, relu_first, mlp])
def test_networks_of_an_ensemble_do_not_see_what_others_wrote_to_the_inputs(make):
    x, members = inputs(20), [made(make, seed) for seed in range(3)]
    with torch.no_grad():
        expected = torch.stack([member.eval()(x.clone()).log_softmax(1) for member in members], 1)
    torch.testing.assert_close(values(pw.ensemble(members, x)), expected, rtol=0, atol=1e-6)
    result = pw.ensemble(members, x, embeddings=True)
    torch.testing.assert_close(values(result), expected, rtol=0, atol=1e-6)
    last = result.embeddings[:, -8:] if make is not mlp else result.embeddings[:, -16:]
    head = next(m for m in reversed(list(members[-1].modules())) if isinstance(m, nn.Linear))
    if make in (relu_first, mlp):
        torch.testing.assert_close(head(torch.from_numpy(last)).log_softmax(1), expected[:, -1], rtol=0, atol=1e-5)


def test_transformer_layers_really_drop():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
            self.layer.self_attn.dropout = 0.0
            self.encoder = nn.TransformerEncoder(self.layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            return self.head(self.encoder(self.layer(x)).mean(1))

    network, x = made(Net), inputs(12, 5, 8)
    agrees(network, x)
    result = values(pw.mc_dropout(network, x, 6))
    assert (result[:, 0] - result[:, 1]).abs().max() > 0.01
    silent = values(pw.ensemble([network], x))[:, 0]
    assert (result - silent[:, None]).abs().amax((0, 2)).min() > 0.01
    layers = list(dropout_layers(network))
    called = []
    handles = [
        part.register_forward_hook(lambda *_, name=name: called.append(name))
        for name, part in network.named_modules()
        if name in layers
    ]
    pw.mc_dropout(network, x, 1)
    assert set(called) == set(layers)  # no layer is passed over by PyTorch's fast path
    for handle in handles:
        handle.remove()


def test_inside_inference_mode():
    network, x = made(AddsInPlace), inputs(20)
    expected = values(pw.mc_dropout(network, x, 4))
    with torch.inference_mode():
        assert torch.equal(values(pw.mc_dropout(network, x, 4)), expected)
        assert torch.equal(values(pw.mc_dropout(network, x.clone(), 4)), expected)
        assert torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()


# The module is as it was


@pytest.mark.parametrize("make", [normed, convolutional])
@pytest.mark.parametrize("mode", ["train", "eval", "mixed"])
def test_the_module_is_as_before(make, mode, global_state):
    network = made(make)
    network.train(mode != "eval")
    if mode == "mixed":
        network[1].eval()
        network[-2].eval()
    network[0].register_forward_hook(lambda *_: None)
    before, x = picture(network), inputs(20, *((6,) if make is normed else (1, 10, 10)))
    network[0].weight.grad = grad = torch.zeros_like(network[0].weight)
    before = picture(network)
    pw.mc_dropout(network, x, 5, embeddings=True)
    pw.ensemble([network, network], x, embeddings=True)
    after = picture(network)
    same_picture((*before[:4], []), (*after[:4], []))
    assert network[0].weight.grad is grad
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_the_module_is_as_before_after_an_exception(monkeypatch, tmp_path, global_state):
    class Fails(Residual):
        left = 7

        def forward(self, x):
            self.left -= 1
            if self.left < 0:
                raise RuntimeError("the user's own")
            return super().forward(x)

    monkeypatch.setattr(networks, "_ROWS", 4)
    network = made(Fails)
    network.last.eval()
    for left in range(0, 24, 4):
        network.left = left
        before = picture(network)
        with pytest.raises(RuntimeError, match="the user's own"):
            pw.mc_dropout(network, inputs(40), 3, embeddings=True, out=tmp_path / "out.npy", memory=1)
        same_picture(picture(network), before)
    gc.collect()
    assert list(tmp_path.iterdir()) == []  # nothing half done is left behind


def test_threads_are_put_back_when_a_prediction_cannot_be_stored(monkeypatch):
    torch.set_num_threads(2)
    monkeypatch.setattr(networks, "_ROWS", 4)
    monkeypatch.setattr(networks, "PredictionBuffer", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        pw.mc_dropout(made(mlp), inputs(40), 3)
    assert torch.get_num_threads() == 2
    assert caught.value is not None
