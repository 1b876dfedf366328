"""Predictions of labels that were held out: who makes them, what is refused, and what `uherding` makes of them."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pools import features, pool
from sklearn.linear_model import LogisticRegression
from small_learners import TEST, X, Y, ensemble, history, learner, mlp, started

import poolwise as pw
from poolwise import errors
from poolwise.learning.held_out import SHARE, held_out_part
from poolwise.posteriors.protocol import untrained
from poolwise.seeding import child_seed
from poolwise.selection import registry
from poolwise.selection.uherding import TEMPERATURES, calibrated

N, K, C, L, H, D = 40, 3, 4, 6, 9, 5


# Which labels


@given(st.integers(0, 10_000), st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_the_part_is_the_share_of_each_class(seed, sizes):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    part = held_out_part(labels, seed)
    assert np.array_equal(part, np.unique(part))
    assert np.array_equal(part, held_out_part(labels, seed))
    spare = sum(size - 1 for size in sizes)
    assert len(part) == min(int(SHARE * len(labels)), spare)
    taken = np.bincount(labels[part], minlength=len(sizes))
    for size, count in zip(sizes, taken, strict=True):
        assert count <= size - 1  # a class that was labelled is never unknown to the second model
    if min(sizes) >= 10:
        assert all(abs(count - SHARE * size) <= 1 + size * 0.05 for size, count in zip(sizes, taken, strict=True))


def test_every_label_is_held_out_by_some_seed():
    labels = np.repeat(np.arange(3), 5)
    assert {*np.concatenate([held_out_part(labels, seed) for seed in range(60)])} == {*range(15)}


# Who provides it


def asking():
    """A method that asks for held-out predictions, and the tasks that it was given."""
    seen = []

    def rule(task, *, calibrate: bool = True):
        seen.append(task)
        return np.arange(task.batch_size)

    needs = ("predictions", "held_out_predictions if calibrate", "held_out_labels if calibrate")
    return registry._made(rule, "asking", "Asks.", needs=needs), seen


def test_a_learner_trains_on_the_rest_of_the_labels_and_keeps_its_model():
    method, seen = asking()
    data = started(per_class=5)
    mine = learner(pool=data, method=method)
    mine.query()
    before = mine.posterior.predict(X).log_probs
    (task,) = seen
    seed = child_seed(0, "held out", 0)
    part = held_out_part(data.labels, seed)
    rest = np.setdiff1d(np.arange(15), part)
    assert (len(part), len(rest)) == (3, 12)
    other = ensemble().fit((X[data.labelled[rest]], Y[data.labelled[rest]]), seed=child_seed(seed, "held-out training"))
    expected = other.predict(X[data.labelled[part]]).log_probs
    assert np.array_equal(task.held_out_predictions.log_probs, expected)
    assert task.held_out_labels.tolist() == data.labels[part].tolist()
    alone = ensemble().fit((X[data.labelled], Y[data.labelled]), seed=child_seed(0, "training", 0))
    assert np.array_equal(before, alone.predict(X).log_probs)


def test_nothing_is_trained_twice_without_need(monkeypatch):
    fits, real = [], pw.posteriors.DeepEnsemble.fit
    monkeypatch.setattr(
        pw.posteriors.DeepEnsemble, "fit", lambda self, *args, **more: fits.append(self) or real(self, *args, **more)
    )
    for calibrate, count in ((False, 1), (True, 2)):
        fits.clear()
        learner(pool=started(4), method="uherding", calibrate=calibrate).query()
        assert len(fits) == count
    fits.clear()
    found = learner(pool=started(1), method="uherding").query()  # a label of each class: none can be held out
    assert len(fits) == 1
    assert "temperature 1: no label could be held out to calibrate it" in str(found.diagnostics)


POSTERIORS = {
    "a warm start": lambda: ensemble(warm_start=True),
    "a network": lambda: pw.posteriors.MCDropout(mlp(), 3, training=pw.Training(steps=5), warm_start=True),
    "neighbours": lambda: pw.posteriors.NearestNeighbour(ensemble(warm_start=True)),
    "a Laplace approximation": lambda: pw.posteriors.Laplace(mlp, 3, training=pw.Training(steps=5), warm_start=True),
    "SWAG": lambda: pw.posteriors.SWAG(mlp, 3, training=pw.Training(steps=5), snapshots=3, warm_start=True),
    "a committee": lambda: pw.posteriors.Committee(LogisticRegression(), 3),
    "a function": lambda: pw.posteriors.from_callable(
        lambda model, inputs: np.stack([model.predict_proba(inputs)] * 2, 1),
        fit=lambda inputs, labels, seed: LogisticRegression().fit(inputs, labels),
    ),
}


@pytest.mark.parametrize("kind", POSTERIORS)
def test_an_untrained_copy_has_learnt_nothing(kind):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        posterior = POSTERIORS[kind]()
    half = (X[::2], Y[::2])
    first = posterior.fit(half, seed=3).predict(X).log_probs
    posterior.fit((X, Y), seed=4)
    now = posterior.predict(X).log_probs
    copied = untrained(posterior)
    again = copied.fit(half, seed=3).predict(X).log_probs
    assert np.array_equal(again, first)
    assert np.array_equal(posterior.predict(X).log_probs, now)


def test_a_posterior_that_cannot_be_copied_is_named():
    class Locked(pw.posteriors.Committee):
        def __init__(self):
            super().__init__(LogisticRegression(), 3)
            self.lock = threading.Lock()

    mine = learner(posterior=Locked(), pool=started(4), method="uherding")
    with pytest.raises(errors.StateError, match=r"Locked cannot be copied .*untrained\(\).*calibrate=False"):
        mine.query()
    made = learner(posterior=lambda classes: Locked(), pool=started(4), method="uherding")
    assert len(made.query()) == 5  # a function makes a new one


@pytest.mark.parametrize("warm", [False, True])
def test_a_learner_that_is_interrupted_selects_the_same(warm, tmp_path, monkeypatch):
    def run(directory, interrupt=()):
        options = {"method": "uherding", "directory": directory, "pool": started(3), "test": TEST}
        mine = learner(posterior=ensemble(warm_start=warm), **options)
        for number in range(3):
            if number in interrupt:
                fit, labels = pw.posteriors.DeepEnsemble.fit, len(mine.pool.labelled)

                def fail(self, data, *args, fit=fit, labels=labels, **more):
                    if len(data) < labels:  # the second model
                        raise KeyboardInterrupt
                    return fit(self, data, *args, **more)

                with monkeypatch.context() as patch:
                    patch.setattr(pw.posteriors.DeepEnsemble, "fit", fail)
                    with pytest.raises(KeyboardInterrupt):
                        mine.query()
                mine.close()
                mine = pw.ActiveLearner.load(directory)
            query = mine.query()
            assert pw.ActiveLearner.load(directory, read_only=True).query().diagnostics == query.diagnostics
            mine.update(query.indices, Y[query.indices])
        return history(mine)

    whole = run(tmp_path / "a")
    assert run(tmp_path / "b", interrupt=(0, 2)) == whole
    assert all("held out" in entry["diagnostics"]["notes"][0] for entry in whole)


# What select takes


def known(**changed):
    return {
        "embeddings": features(N, D),
        "labelled_embeddings": features(L, D, seed=1),
        "held_out_predictions": pool(H, K, C, seed=2),
        "held_out_labels": np.arange(H) % C,
        **changed,
    }


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        (
            {"held_out_predictions": None},
            errors.MissingInputError,
            "pass held_out_predictions=.*--held-out-predictions",
        ),
        (
            {"held_out_labels": None},
            errors.MissingInputError,
            "Or pass calibrate=False \\(.*--param calibrate=False\\), which",
        ),
        (
            {"held_out_labels": [0, 1]},
            errors.InputError,
            "points held out .* held_out_predictions 9, held_out_labels 2",
        ),
        ({"held_out_labels": [4] * H}, errors.LabelError, r"held_out_labels must be \[H\] whole numbers from 0 to 3"),
        ({"held_out_predictions": pool(H, K, C + 1)}, errors.InputError, r"held_out_predictions must be \[H, 3, 4\]"),
        (
            {"labelled_embeddings": None},
            errors.MissingInputError,
            "uherding needs labelled_embeddings, since held_out_",
        ),
    ],
)
def test_select_says_what_is_missing_or_wrong(changed, error, says):
    with pytest.raises(error, match=says):
        pw.select(pool(N, K, C), 3, "uherding", **known(**changed))


def test_the_command_line_takes_files(tmp_path, run):
    given = known()
    for name, value in {"x": pool(N, K, C), **given}.items():
        np.save(tmp_path / f"{name}.npy", value)
    flags = [item for name in given for item in (f"--{name.replace('_', '-')}", tmp_path / f"{name}.npy")]
    result = run("select", tmp_path / "x.npy", "--method", "uherding", "-b", 5, *flags)
    expected = pw.select(pool(N, K, C), 5, "uherding", **given)
    assert [int(line.split(",")[1]) for line in result.out.splitlines()[1:]] == expected.indices.tolist()
    assert expected.diagnostics.notes[0] in result.err


# The temperature


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def least_error(probs, labels):
    """The temperature by loops: the mean prediction, its bins, and the smallest gap."""
    found = []
    for temperature in TEMPERATURES:
        bins = {}
        for point, label in zip(probs.mean(1), labels, strict=True):
            powers = [p ** (1 / temperature) for p in point]
            scaled = [p / sum(powers) for p in powers]
            sure = max(scaled)
            place = next(b for b in range(15) if sure <= (b + 1) / 15 + 1e-12)
            bins.setdefault(place, []).append((scaled.index(sure) == label, sure))
        gaps = [abs(sum(right - sure for right, sure in entries)) for entries in bins.values()]
        found.append(sum(gaps) / len(labels))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_the_temperature_has_the_least_calibration_error(seed):
    draw = np.random.default_rng(seed)
    truth = draw.dirichlet(np.ones(C), 60)
    labels = np.array([draw.choice(C, p=p) for p in truth])
    sharp = truth ** (0.4 if seed % 2 else 3.0)  # too unsure, or too sure
    probs = np.repeat((sharp / sharp.sum(1, keepdims=True))[:, None], K, 1)
    temperature, error, plain = calibrated(pw.Predictions.from_probs(probs), labels)
    expected = least_error(probs, labels)
    assert error == pytest.approx(min(expected), abs=1e-6)
    assert expected[TEMPERATURES.index(temperature)] == pytest.approx(min(expected), abs=1e-6)
    assert plain == pytest.approx(expected[TEMPERATURES.index(1.0)], abs=1e-6)
    assert (temperature < 1) == bool(seed % 2)


def test_uherding_is_the_dense_rule_at_that_temperature():
    x, given_ = pool(N, K, C), known()
    temperature = calibrated(pw.Predictions.from_log_probs(given_["held_out_predictions"]), given_["held_out_labels"])[
        0
    ]
    assert temperature != 1
    h, anchors = map(unit, (given_["embeddings"], given_["labelled_embeddings"]))
    width = min(np.linalg.norm(a - b) for i, a in enumerate(anchors) for b in anchors[:i])
    scaled = np.exp(x).mean(1) ** (1 / temperature)
    top = np.sort(scaled / scaled.sum(1, keepdims=True), 1)
    weights = 1 - (top[:, -1] - top[:, -2])
    kernel = np.exp(-((h[:, None] - h[None]) ** 2).sum(2) / width**2)
    covered = np.exp(-((anchors[:, None] - h[None]) ** 2).sum(2) / width**2).max(0)
    picks = []
    for _ in range(8):
        gains = (weights * np.maximum(kernel - covered, 0)).sum(1)
        gains[picks] = -1
        picks.append(int(np.argmax(gains)))
        covered = np.maximum(covered, kernel[picks[-1]])
    batch = pw.select(x, 8, "uherding", **given_)
    assert batch.indices.tolist() == picks
    assert batch.diagnostics.notes[0].startswith(f"temperature {temperature:.3g}: calibration error ")
    assert batch.diagnostics.notes[1] == f"bandwidth {width:.4g}"


def test_no_label_held_out_is_temperature_1():
    nobody = {"held_out_predictions": np.empty((0, K, C)), "held_out_labels": []}
    batch = pw.select(pool(N, K, C), 6, "uherding", **known(**nobody))
    plain = {name: value for name, value in known().items() if not name.startswith("held_out")}
    expected = pw.select(pool(N, K, C), 6, "uherding", calibrate=False, **plain)
    assert batch.indices.tolist() == expected.indices.tolist()
    assert batch.diagnostics.notes[0] == "temperature 1: no label could be held out to calibrate it"
