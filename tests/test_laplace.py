"""Last-layer Laplace against Hessians by automatic differentiation, and the same quantities written out."""

import math

import numpy as np
import pytest
import torch
from cases import thorough
from small_networks import QUICK, inputs, made, mlp, values
from torch import nn

import poolwise as pw
from poolwise import errors, models
from poolwise.posteriors import curvature
from poolwise.posteriors.curvature import Full, Kronecker

LABELS = torch.arange(40) % 3


def problem(n=9, D=4, C=3, seed=0):
    """Features, weights and labels."""
    draw = torch.Generator().manual_seed(seed)
    features = torch.randn(n, D, generator=draw, dtype=torch.float64)
    weights = torch.randn(C, D, generator=draw, dtype=torch.float64)
    return features, weights, torch.randint(C, (n,), generator=draw)


def hessian(features, weights, labels):
    """The Hessian of the summed cross-entropy by automatic differentiation."""
    loss = lambda flat: nn.functional.cross_entropy(  # noqa: E731
        features @ flat.view_as(weights).T, labels, reduction="sum"
    )
    return torch.autograd.functional.hessian(loss, weights.flatten())


def covariance(found, shape, precision):
    """The covariance that draws have, from the images of all unit vectors."""
    size = math.prod(shape)
    images = found.draw(torch.eye(size, dtype=torch.float64).view(size, *shape), precision).view(size, size)
    return images.T @ images


@pytest.mark.parametrize("n", [2, 3, 9, 40])  # fewer rows than weights, and more
def test_full_curvature_is_the_hessian(n):
    features, weights, labels = problem(n)
    found = Full.of(features, (features @ weights.T).softmax(1))
    expected = hessian(features, weights, labels)
    torch.testing.assert_close(
        found.vectors_P_r @ found.eigenvalues.diag() @ found.vectors_P_r.T, expected, rtol=0, atol=1e-10
    )
    for precision in (0.01, 1.0, 30.0):
        inverse = torch.linalg.inv(expected + precision * torch.eye(12, dtype=torch.float64))
        torch.testing.assert_close(covariance(found, (3, 4), precision), inverse, rtol=1e-8, atol=1e-10)


def test_kronecker_curvature_is_the_product_of_its_factors():
    features, weights, _ = problem(20)
    probs = (features @ weights.T).softmax(1)
    found = Kronecker.of(features, probs)
    classes = sum(p.diag() - torch.outer(p, p) for p in probs) / 20
    expected = torch.kron(classes, sum(torch.outer(x, x) for x in features))
    torch.testing.assert_close(found.eigenvalues.sort()[0], torch.linalg.eigvalsh(expected), rtol=0, atol=1e-10)
    inverse = torch.linalg.inv(expected + 0.3 * torch.eye(12, dtype=torch.float64))
    torch.testing.assert_close(covariance(found, (3, 4), 0.3), inverse, rtol=1e-8, atol=1e-10)


def test_kronecker_is_exact_where_all_examples_are_the_same():
    features, weights, labels = problem(1)
    features = features.expand(15, -1)
    found, labels = Kronecker.of(features, (features @ weights.T).softmax(1)), labels.expand(15)
    inverse = torch.linalg.inv(hessian(features, weights, labels) + torch.eye(12, dtype=torch.float64))
    torch.testing.assert_close(covariance(found, (3, 4), 1.0), inverse, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n", [3, 30])
def test_prior_precision_has_the_largest_marginal_likelihood(n):
    features, weights, labels = problem(n)
    matrix, norm = hessian(features, weights, labels), float(weights.square().sum())
    likelihood = -float(nn.functional.cross_entropy(features @ weights.T, labels, reduction="sum"))

    def written_out(precision):  # ln p(y|θ) + ln N(θ; 0, I/τ) + ½ ln det(2π (H + τI)⁻¹)
        prior = 6 * math.log(precision / (2 * math.pi)) - precision * norm / 2
        logdet = torch.linalg.slogdet(matrix + precision * torch.eye(12, dtype=torch.float64))[1]
        return likelihood + prior + 6 * math.log(2 * math.pi) - float(logdet) / 2

    found = Full.of(features, (features @ weights.T).softmax(1))
    best = curvature.evidence_precision(found.eigenvalues, norm)
    for precision in (best, 0.1, 5.0):
        assert curvature.log_evidence(likelihood, found.eigenvalues, norm, precision) == pytest.approx(
            written_out(precision), abs=1e-8
        )
    grid = np.exp(np.linspace(math.log(best) - 5, math.log(best) + 5, 201))
    assert max(map(written_out, grid)) <= written_out(best) + 1e-9


def layer(n=40, classes=3, features=4, seed=0):
    """Features with a column of ones, labels of a noisy linear rule, and weights that separate too well."""
    draw = torch.Generator().manual_seed(seed)
    features_n_D = torch.cat([torch.randn(n, features, generator=draw), torch.ones(n, 1)], 1).double()
    rule = torch.randn(classes, features + 1, generator=draw).double()
    labels_n = torch.distributions.Categorical(logits=features_n_D @ rule.T).probs.argmax(1)
    return features_n_D, labels_n, 8 * rule


def test_best_weights_have_the_largest_posterior_density():
    features_n_D, labels_n, start = layer()
    found = curvature.best_weights(features_n_D, labels_n, 0.7, start).clone().requires_grad_()
    logits = features_n_D @ found.T
    loss = torch.nn.functional.cross_entropy(logits, labels_n, reduction="sum") + 0.35 * found.square().sum()
    [gradient] = torch.autograd.grad(loss, found)
    assert float(gradient.abs().max()) < 1e-3
    torch.testing.assert_close(found, curvature.best_weights(features_n_D, labels_n, 0.7, 0 * start), atol=1e-4, rtol=0)


def test_the_fitted_precision_and_the_weights_under_it_agree():
    """MacKay's condition, with the Kronecker product written out: effective parameters = τ ‖θ‖²."""
    features_n_D, labels_n, start = layer(60)
    precision = curvature.fitted_precision(features_n_D, labels_n, start)
    weights = curvature.best_weights(features_n_D, labels_n, precision, start)
    probs = (features_n_D @ weights.T).softmax(1)
    classes = sum(torch.diag(p) - torch.outer(p, p) for p in probs) / len(probs)
    values = torch.linalg.eigvalsh(torch.kron(classes, features_n_D.T @ features_n_D)).clamp_min(0)
    effective = float((values / (values + precision)).sum())
    assert precision * float(weights.square().sum()) == pytest.approx(effective, rel=0.02)


def test_weights_that_are_too_sure_do_not_make_the_prior_wide():
    """Trained to probabilities of 0 and 1, where the curvature vanishes, the layer finds the prior it found before."""
    features_n_D, labels_n, start = layer(60)
    found = [curvature.fitted_precision(features_n_D, labels_n, scale * start) for scale in (0.2, 1, 10)]
    assert found == pytest.approx([found[0]] * 3, rel=0.05)
    probs = (features_n_D @ (10 * start).T).softmax(1)
    sure = curvature.Kronecker.of(features_n_D, probs).eigenvalues
    assert curvature.evidence_precision(sure, float((10 * start).square().sum())) < found[0] / 30


def test_labels_that_say_nothing_leave_samples_that_differ():
    """Each example has each label once, so the best weights are 0 and the best prior has no width."""
    features_n_D, _, start = layer(20)
    features_n_D, labels_n = features_n_D.repeat_interleave(3, 0), torch.arange(60) % 3
    precision = curvature.fitted_precision(features_n_D, labels_n, start)
    values = curvature.Kronecker.of(features_n_D, torch.full((60, 3), 1 / 3, dtype=torch.float64)).eigenvalues
    assert float((values / (values + precision)).sum()) >= 1
    assert curvature.fitted_precision(0 * features_n_D, labels_n, start) == 1e-8


def test_prior_precision_stays_in_its_range():
    assert curvature.evidence_precision(torch.zeros(3), 1.0) == 1e-8
    assert curvature.evidence_precision(torch.ones(3), 0.0) == pytest.approx(1e8)


def test_samples_are_draws_of_the_last_layer(global_state):
    data = inputs(), LABELS
    posterior = pw.posteriors.Laplace(mlp, 4000, curvature="full", training=QUICK, prior_precision=2.0).fit(
        data, seed=3
    )
    assert posterior.curvature == "full"
    network = posterior.network
    with torch.no_grad():
        features = torch.cat([network[:-1](inputs()), torch.ones(40, 1)], 1).double()
        weights = torch.cat([network[-1].weight, network[-1].bias[:, None]], 1).double()
    for k in (0, 17):
        logits = features @ posterior.weights[k].double().T
        torch.testing.assert_close(
            values(posterior.predict(inputs()))[:, k].double(), logits.log_softmax(1), rtol=0, atol=1e-5
        )
    inverse = torch.linalg.inv(hessian(features, weights, LABELS) + 2 * torch.eye(51, dtype=torch.float64))
    found = posterior.weights.double().flatten(1)
    torch.testing.assert_close(found.mean(0), weights.flatten(), rtol=0, atol=0.05)
    torch.testing.assert_close(found.T.cov(), inverse, rtol=0, atol=0.05)


def test_it_is_fitted_through_every_door(tmp_path):
    data = inputs(), LABELS
    network = made(mlp)
    fixed = pw.posteriors.Laplace(network, 50, train=False).fit(data, seed=1)
    assert fixed.network is network
    head = pw.posteriors.Laplace(lambda: models.linear((6,), 3), 50, training=QUICK).fit(data)  # on fixed features
    np.testing.assert_allclose(head.embed(inputs()), inputs().numpy())
    bare = pw.posteriors.Laplace(lambda: nn.Linear(6, 3, bias=False), 50, training=QUICK).fit(data)
    assert bare.weights.shape == (50, 3, 6)
    softmax = pw.posteriors.Laplace(nn.Sequential(network, nn.Softmax(1)), 50, train=False, outputs="probs").fit(
        data, seed=1
    )
    torch.testing.assert_close(values(softmax.predict(inputs())), values(fixed.predict(inputs())), rtol=0, atol=1e-4)
    for posterior in (fixed, head, bare):
        predictions = posterior.predict(inputs(), embeddings=True, out=tmp_path / "out.npy")
        assert predictions.shape == (40, 50, 3)
        np.testing.assert_array_equal(predictions.embeddings, posterior.embed(inputs()))
    fewer = pw.posteriors.Laplace(network, 20, train=False).fit(data, seed=1)  # the first of more are the same
    assert torch.equal(fewer.weights, fixed.weights[:20])
    moved = fixed.on("cpu")
    assert moved is not fixed
    assert torch.equal(values(moved.predict(inputs())), values(fixed.predict(inputs())))


def test_it_gets_less_sure_far_away_and_surer_with_more_labels():
    data = inputs(400), (inputs(400)[:, 0] > 0).long()
    training = pw.Training(steps=100, learning_rate=0.05)
    make = lambda: models.linear((6,), 2)  # noqa: E731
    few, many = (
        pw.posteriors.Laplace(make, 200, training=training, prior_precision=1.0).fit((data[0][:n], data[1][:n]))
        for n in (20, 400)
    )
    assert (
        pw.scores.bald(few.predict(inputs(50, seed=1))).mean()
        > 2 * pw.scores.bald(many.predict(inputs(50, seed=1))).mean()
    )


def test_the_default_and_auto_are_kronecker():
    data = inputs(), LABELS
    assert pw.posteriors.Laplace(mlp, 5, training=QUICK).fit(data).curvature == "kronecker"
    assert pw.posteriors.Laplace(mlp, 5, training=QUICK, curvature="auto").fit(data).curvature == "kronecker"


@pytest.mark.parametrize("precision", [1.0, *thorough(0.5, 4.0)])
def test_the_evidence_is_close_to_the_integral_it_approximates(precision):
    """Two weights, so that `∫ p(labels | θ) N(θ; 0, I/τ) dθ` can be summed on a grid."""
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(25, 1, generator=draw, dtype=torch.float64)
    labels = (features[:, 0] + torch.randn(25, generator=draw, dtype=torch.float64) > 0).long()
    side = torch.linspace(-8, 8, 801, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)  # [G, 2], the two rows of a [2, 1] layer
    log_probs = (features[:, 0, None, None] * grid).log_softmax(2)  # [n, G, 2]
    log_likelihood = log_probs[torch.arange(25), :, labels].sum(0)
    log_prior = math.log(precision / (2 * math.pi)) - precision / 2 * grid.square().sum(1)
    exact = float((log_likelihood + log_prior).logsumexp(0)) + 2 * math.log(float(side[1] - side[0]))
    best = int((log_likelihood + log_prior).argmax())
    weights = grid[best][:, None]
    found = Full.of(features, (features @ weights.T).softmax(1))
    approximate = curvature.log_evidence(
        float(log_likelihood[best]), found.eigenvalues, float(weights.square().sum()), precision
    )
    assert approximate == pytest.approx(exact, abs=0.05)


def test_large_layers():
    n, D, C = 300, 1000, 100
    features = torch.randn(n, D, generator=torch.Generator().manual_seed(0)) * 3
    head = nn.Linear(D, C)
    posterior = pw.posteriors.Laplace(head, 20, train=False).fit((features, torch.arange(n) % C))
    result = values(posterior.predict(features[:10]))
    assert result.shape == (10, 20, C)
    assert result.isfinite().all()
    assert result.std(1).max() > 0.1


def test_saturated_predictions_are_safe():
    features = 1000 * inputs()
    head = nn.Linear(6, 3)
    for kind in ("full", "kronecker"):
        posterior = pw.posteriors.Laplace(head, 20, train=False, curvature=kind).fit((features, LABELS))
        assert values(posterior.predict(features)).isfinite().all()
        assert posterior.prior_precision > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pw.posteriors.Laplace(mlp, 0), "samples must be"),
        (lambda: pw.posteriors.Laplace(mlp, curvature="diagonal"), "curvature must be one of"),
        (lambda: pw.posteriors.Laplace(mlp, prior_precision=0), "prior_precision must be"),
        (lambda: pw.posteriors.Laplace(mlp, train=False), "train=False is for a network"),
        (
            lambda: pw.posteriors.Laplace(nn.Sequential(nn.Linear(6, 3), nn.Tanh()), train=False).fit(
                (inputs(), LABELS)
            ),
            "are not those of its last linear layer",
        ),
        (
            lambda: pw.posteriors.Laplace(nn.Sequential(nn.Linear(6, 3), nn.Softmax(1)), train=False).fit(
                (inputs(), LABELS)
            ),
            "are not those of its last linear layer|are probabilities already",
        ),
        (lambda: pw.posteriors.Laplace(nn.Linear(6, 1), train=False).fit((inputs(), LABELS)), "one output per class"),
    ],
)
def test_what_it_cannot_do_is_said(call, message):
    with pytest.raises(errors.ParameterError, match=message):
        call()


def test_states_must_fit():
    with pytest.raises(errors.StateError, match=r"Call fit\(data\) first"):
        pw.posteriors.Laplace(made(mlp), 5).predict(inputs())
    state = pw.posteriors.Laplace(mlp, 5, training=QUICK).fit((inputs(), LABELS)).state()
    with pytest.raises(errors.ParameterError, match="has 5 samples, and this Laplace has 6"):
        pw.posteriors.Laplace(mlp, 6).load_state(state)
