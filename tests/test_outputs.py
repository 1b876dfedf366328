"""What networks return: logits, and outputs that are normalised already, which must not go through softmax again."""

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_networks import QUICK, inputs, made, values
from torch import nn

import poolwise as pw
from poolwise import errors
from poolwise.models.saved import ExportedNetwork

LABELS = torch.arange(40) % 3


class Ends(nn.Sequential):
    """Ends in a function of the outputs, called as a function."""

    def __init__(self, end, columns=3):
        super().__init__(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, columns))
        self.end = end

    def forward(self, x):
        return self.end(super().forward(x))


def layer(module, columns=3):
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, columns), module)


def both(network, **options):
    """Predictions of MC dropout, and of an ensemble."""
    return pw.mc_dropout(network, inputs(), 4, **options), pw.ensemble([network, network], inputs(), **options)


SOFTMAX = [
    lambda: layer(nn.Softmax(1)),
    lambda: layer(nn.Softmax(-1)),
    lambda: Ends(lambda x: F.softmax(x, 1)),
    lambda: Ends(lambda x: x.softmax(1)),
    lambda: Ends(lambda x: x.exp() / x.exp().sum(1, keepdim=True)),
    lambda: Ends(lambda x: {"probs": x.softmax(1)}),
]


@pytest.mark.parametrize("make", SOFTMAX)
def test_softmax_is_not_applied_twice(make):
    network = made(make)
    logits = made(lambda: layer(nn.Identity()))
    for call in (
        lambda: pw.mc_dropout(network, inputs(), 4),
        lambda: pw.ensemble([network], inputs()),
        lambda: pw.ensemble([network], inputs(1)),
        lambda: pw.ensemble([logits, network], inputs()),
        lambda: pw.mc_dropout(network, inputs(), 4, memory="1KB"),
        lambda: pw.posteriors.MCDropout(network, 4).predict(inputs()),
    ):
        with pytest.raises(
            errors.ParameterError, match=r'are probabilities already.*outputs="probs".*outputs="logits"'
        ):
            call()
    for found, expected in zip(both(network, outputs="probs"), both(logits), strict=True):
        torch.testing.assert_close(values(found), values(expected), rtol=0, atol=1e-5)
    for found in both(network, outputs="logits"):  # whoever insists gets what was asked for
        assert values(found).exp().max() < 0.58  # softmax of three numbers from 0 to 1


def compiled(network, how):
    if how == "script":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is deprecated, and people have such files
            return torch.jit.trace(network.eval(), inputs())
    dynamic = ({0: torch.export.Dim.AUTO},)
    return ExportedNetwork(torch.export.export(network.eval(), (inputs(),), dynamic_shapes=dynamic))


@pytest.mark.parametrize("how", ["script", "export"])
def test_compiled_networks_are_judged_too(how):
    for end, message in ((nn.Softmax(1), "are probabilities already"), (nn.Sigmoid(), "ends in a sigmoid")):
        network = compiled(made(lambda end=end: layer(end)), how)
        with pytest.raises(errors.ParameterError, match=message):
            pw.ensemble([network], inputs())
    assert pw.ensemble([compiled(made(lambda: layer(nn.Identity())), how)], inputs()).shape == (40, 1, 3)


def test_log_probabilities_are_taken_as_they_are():
    network, logits = made(lambda: layer(nn.LogSoftmax(1))), made(lambda: layer(nn.Identity()))
    for options in ({}, {"outputs": "log-probs"}, {"outputs": "logits"}):  # softmax leaves them unchanged
        for found, expected in zip(both(network, **options), both(logits), strict=True):
            torch.testing.assert_close(values(found), values(expected), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: layer(nn.Sigmoid()),
        lambda: Ends(torch.sigmoid),
        lambda: Ends(lambda x: x.sigmoid() * 1.0),
        lambda: layer(nn.LogSigmoid()),
    ],
)
def test_sigmoids_of_several_classes_are_no_distribution(make):
    network = made(make)
    with pytest.raises(errors.ParameterError, match=r"ends in a sigmoid.*no distribution over classes"):
        pw.mc_dropout(network, inputs(), 4)
    with pytest.raises(errors.NotNormalisedError, match='outputs="probs" was given'):
        pw.ensemble([network], inputs(), outputs="probs")
    assert pw.ensemble([network], inputs(), outputs="logits").shape == (40, 1, 3)


@pytest.mark.parametrize("shape", [lambda x: x, lambda x: x.squeeze(1)])
def test_one_column_is_the_second_of_two_classes(shape):
    logit = made(lambda: Ends(shape, 1))
    with torch.no_grad():
        second = logit.eval()(inputs()).reshape(-1).sigmoid()
    expected = torch.stack([1 - second, second], 1)
    found = values(pw.ensemble([logit], inputs()))[:, 0].exp()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    sigmoid = made(lambda: Ends(lambda x: shape(x.sigmoid()), 1))
    with pytest.raises(errors.ParameterError, match=r'probability of the second class.*outputs="probs"'):
        pw.ensemble([sigmoid], inputs())
    found = values(pw.ensemble([sigmoid], inputs(), outputs="probs"))[:, 0].exp()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    logs = made(lambda: Ends(lambda x: shape(F.logsigmoid(x)), 1))
    found = values(pw.ensemble([logs], inputs(), outputs="log-probs"))[:, 0].exp()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    with pytest.raises(errors.NotNormalisedError):
        pw.ensemble([logit], 10 * inputs(), outputs="probs")


def test_a_binary_network_can_be_trained():
    data = inputs(), (inputs()[:, 0] > 0).long()
    posterior = pw.posteriors.DeepEnsemble(
        lambda: nn.Linear(6, 1), 3, training=pw.Training(steps=150, learning_rate=0.1)
    )
    predictions = posterior.fit(data).predict(data[0])
    assert predictions.shape == (40, 3, 2)
    assert pw.metrics.evaluate(predictions, data[1])["accuracy"] > 0.9
    with pytest.raises(errors.TrainingError, match="largest label is 2"):
        posterior.fit((inputs(), LABELS))


@pytest.mark.parametrize("outputs", ["probs", "log-probs"])
def test_outputs_that_are_not_what_was_said_are_refused(outputs):
    with pytest.raises(errors.NotNormalisedError, match=f'outputs="{outputs}" was given.*leave outputs out'):
        pw.ensemble([made(lambda: layer(nn.Identity()))], inputs(), outputs=outputs)
    if outputs == "probs":
        with pytest.raises(errors.NotNormalisedError, match="over the classes, dim=1"):
            pw.ensemble([made(lambda: layer(nn.Softmax(0)))], inputs(), outputs=outputs)
    with pytest.raises(errors.ParameterError, match="outputs must be one of"):
        pw.ensemble([made(lambda: layer(nn.Identity()))], inputs(), outputs="softmax")


def test_logits_that_resemble_probabilities_are_logits():
    class Fixed(nn.Module):
        def __init__(self, rows):
            super().__init__()
            self.rows = nn.Parameter(rows)

        def forward(self, x):
            return self.rows[: len(x)].expand(len(x), -1)

    for rows in (
        torch.rand(40, 3, generator=torch.Generator().manual_seed(0)),  # between 0 and 1, and not normalised
        torch.tensor([[0.5, 0.5, 1e-3]]).repeat(40, 1),
        torch.eye(3).repeat(14, 1) * 2,
        -torch.rand(40, 3, generator=torch.Generator().manual_seed(1)),
    ):
        assert pw.ensemble([Fixed(rows)], inputs()).shape == (40, 1, 3)
    relu = made(lambda: layer(nn.ReLU()))
    assert pw.ensemble([relu], inputs() / 100).shape == (40, 1, 3)


def test_training_with_softmax_is_refused_or_done_right(global_state):
    softmax, logits = (lambda: layer(nn.Softmax(1))), (lambda: layer(nn.Identity()))
    for kind in (pw.posteriors.DeepEnsemble, pw.posteriors.DropoutEnsemble, pw.posteriors.MCDropout):
        with pytest.raises(errors.ParameterError, match="are probabilities already"):
            kind(softmax, training=QUICK).fit((inputs(), LABELS))
    with pytest.raises(errors.ParameterError, match="ends in a sigmoid"):
        pw.posteriors.DeepEnsemble(lambda: layer(nn.Sigmoid()), 2, training=QUICK).fit((inputs(), LABELS))
    found, expected = (
        pw.posteriors.MCDropout(make, 3, training=QUICK, outputs=outputs).fit((inputs(), LABELS)).predict(inputs())
        for make, outputs in ((softmax, "probs"), (logits, "auto"))
    )
    torch.testing.assert_close(values(found), values(expected), rtol=0, atol=1e-4)


def test_objects_around_the_logits():
    class Output:
        def __init__(self, logits):
            self.logits, self.hidden = logits, logits[:, :1]

    plain = both(made(lambda: Ends(lambda x: x)))
    for wrap in (
        Output,
        lambda x: {"logits": x, "hidden": x[:, :1]},
        lambda x: {"scores": x},
        lambda x: (x, x[:, :1]),
        lambda x: [x],
    ):
        for found, expected in zip(both(made(lambda wrap=wrap: Ends(wrap))), plain, strict=True):
            assert torch.equal(values(found), values(expected))
        embeddings = pw.ensemble([made(lambda wrap=wrap: Ends(wrap))], inputs(), embeddings=True).embeddings
        assert embeddings.shape == (40, 16)
    fitted = pw.posteriors.DeepEnsemble(lambda: Ends(Output), 2, training=QUICK).fit((inputs(), LABELS))
    assert np.isfinite(values(fitted.predict(inputs())).numpy()).all()
