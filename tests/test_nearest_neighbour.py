"""Networks that predict by their nearest labelled points."""

import math

import numpy as np
import pytest
import torch
from small_learners import TINY, X, Y, learner, mlp, started

import poolwise as pw
from poolwise import errors
from poolwise.posteriors import DeepEnsemble, MCDropout, NearestNeighbour, nearest_neighbour
from poolwise.testing import check_posterior


def oracle(x, labelled, labels, classes, neighbours, temperature):
    """The formula, slowly."""
    n, K, _ = x.shape
    result = np.zeros((n, K, classes))
    for i in range(n):
        for k in range(K):
            for c in range(classes):
                distances = sorted(math.dist(x[i, k], labelled[j, k]) for j in range(len(labels)) if labels[j] == c)[
                    :neighbours
                ]
                result[i, k, c] = math.exp(-sum(distances) / len(distances) / temperature) if distances else 0.0
            result[i, k] /= result[i, k].sum()
    return result


@pytest.mark.parametrize(("neighbours", "temperature"), [(1, 1.0), (3, 0.5), (50, 2.0)])
def test_it_is_the_formula(neighbours, temperature):
    draw = np.random.default_rng(0)
    x, labelled = draw.normal(size=(7, 3, 4)), draw.normal(size=(11, 3, 4))
    labels = draw.choice([0, 1, 3], 11)  # nothing of class 2
    found = nearest_neighbour(x, labelled, labels, 4, neighbours=neighbours, temperature=temperature)
    assert np.allclose(found, oracle(x, labelled, labels, 4, neighbours, temperature), atol=1e-12)
    assert (found[:, :, 2] == 0).all()
    alone = nearest_neighbour(x[3:4], labelled, labels, 4, neighbours=neighbours, temperature=temperature)
    assert np.array_equal(alone[0], found[3])


def test_the_posterior_uses_the_features_of_each_network():
    networks = DeepEnsemble(mlp, 3, training=TINY)
    posterior = NearestNeighbour(networks, neighbours=2, temperature=0.7).fit((X, Y), seed=1)
    embedded = networks.embed(X).reshape(60, 3, 8)
    expected = oracle(embedded[:20].astype(float), embedded.astype(float), Y, 3, 2, 0.7)
    assert np.allclose(posterior.predict(X[:20]).probs, expected, atol=1e-5)
    # Training is that of the posterior alone.
    assert np.array_equal(networks.embed(X), DeepEnsemble(mlp, 3, training=TINY).fit((X, Y), seed=1).embed(X))


def test_it_keeps_the_contract():
    assert len(check_posterior(lambda: NearestNeighbour(DeepEnsemble(wide, 2, training=TINY)))) == 15


def wide():
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))


def test_a_learner_uses_it_and_resumes(tmp_path):
    def run(folder, stops):
        for _ in range(stops):
            posterior = NearestNeighbour(DeepEnsemble(mlp, 2, training=TINY), 2)
            with learner(folder, posterior=posterior, pool=started(), method="bald", test=(X, Y)) as mine:
                for _ in range(4 // stops):
                    query = mine.query()
                    mine.update(query.indices, Y[query.indices])
        return [(entry.indices, entry.metrics) for entry in mine.rounds]

    assert run(tmp_path / "a", 1) == run(tmp_path / "b", 4)
    assert run(tmp_path / "c", 2)[-1][1]["accuracy"] > 0.5


def test_a_class_without_labels_has_no_probability():
    pool = pw.Pool((X, Y), 3)
    few = [int(np.argmax(Y == 0)), int(np.argmax(Y == 1))]
    pool.label(few, Y[few])
    mine = learner(posterior=NearestNeighbour(DeepEnsemble(mlp, 2, training=TINY)), pool=pool)
    mine.query()
    assert (mine.predict(X).probs[:, :, 2] == 0).all()


def test_one_network_is_one_sample():
    assert NearestNeighbour(MCDropout(mlp, 20, training=TINY)).fit((X, Y)).predict(X).shape == (60, 1, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: NearestNeighbour(DeepEnsemble(mlp, 2), 0), errors.ParameterError, "neighbours"),
        (lambda: NearestNeighbour(DeepEnsemble(mlp, 2), 1, 0.0), errors.ParameterError, "temperature"),
        (lambda: NearestNeighbour(DeepEnsemble(mlp, 2)).predict(X), errors.StateError, "fit"),
        (lambda: NearestNeighbour(committee()), errors.ParameterError, "Committee"),
        (lambda: nearest_neighbour(np.zeros((2, 1, 3)), np.zeros((2, 1, 4)), [0, 1], 2), errors.ShapeError, "D"),
        (lambda: nearest_neighbour(np.zeros((2, 1, 3)), np.zeros((2, 1, 3)), [0, 2], 2), errors.LabelError, "0 to 1"),
        (lambda: nearest_neighbour(np.zeros((2, 1, 3)), np.zeros((0, 1, 3)), [], 2), errors.LabelError, "at least one"),
    ],
)
def test_mistakes_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def committee():
    from sklearn.linear_model import LogisticRegression

    return pw.posteriors.Committee(LogisticRegression())


def test_it_is_a_kind_of_posterior_in_experiments():
    from poolwise.experiments import Config

    config = Config(
        name="near", data={"name": "digits"}, posterior={"kind": "nearest-neighbour", "members": 2, "neighbours": 3}
    )
    assert config.posterior.parameters["neighbours"] == 3
    assert pw.posteriors.kinds()["nearest-neighbour"].cost(config.posterior.parameters) == pw.posteriors.Cost(2, 2)
