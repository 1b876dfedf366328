"""Posteriors from outside: the base class, callables, the catalogue, and `check_posterior` on broken ones."""

import sys
import types

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from small_networks import QUICK, inputs, mlp, values
from torch import nn

import poolwise as pw
from poolwise import errors
from poolwise.experiments.config import Config
from poolwise.posteriors import registry
from poolwise.testing import check_posterior

LABELS = torch.arange(40) % 3
K = 4


class Linear(pw.posteriors.BasePosterior):
    """Random linear models around class means: right in everything."""

    outputs = "logits"
    settings = ("samples",)

    def __init__(self, samples: int = K):
        self.samples = samples

    def fit(self, data, validation=None, *, seed=0, report=None):
        x, y = pw.posteriors.arrays(data)
        draw = np.random.default_rng(seed)
        means = np.stack([x[y == c].mean(0) for c in range(y.max() + 1)])
        self.weights = (means + 0.3 * draw.normal(size=(self.samples, *means.shape))).astype(np.float32)
        return self

    def sample(self, inputs):
        return np.einsum("nd,kcd->nkc", inputs, self.weights)

    def features(self, inputs):
        return inputs


OURS = {
    "mc-dropout": lambda: pw.posteriors.MCDropout(mlp, K, training=QUICK),
    "deep-ensemble": lambda: pw.posteriors.DeepEnsemble(mlp, 2, training=QUICK),
    "dropout-ensemble": lambda: pw.posteriors.DropoutEnsemble(mlp, 2, 2, training=QUICK),
    "laplace": lambda: pw.posteriors.Laplace(mlp, K, training=QUICK),
    "laplace, full": lambda: pw.posteriors.Laplace(mlp, K, training=QUICK, curvature="full"),
    "committee": lambda: pw.posteriors.Committee(LogisticRegression(), 3),
    "base class": Linear,
}


@pytest.mark.parametrize("name", OURS)
def test_ours_keep_the_contract(name):
    assert len(check_posterior(OURS[name])) == 15


def test_a_posterior_itself_can_be_checked():
    assert len(check_posterior(OURS["mc-dropout"]())) == 15


class BatchMasks(Linear):
    """Draws masks for each batch, as a network in training mode does."""

    def sample(self, inputs):
        draw = np.random.default_rng(0)
        mask = draw.random((len(inputs), K, inputs.shape[1])) < 0.5
        return np.einsum("nkd,kcd->nkc", inputs[:, None] * mask, self.weights)


class ChunkMasks(Linear):
    """The same mask for all rows of a chunk, another one for the next chunk."""

    def sample(self, inputs):
        parts = np.split(inputs, range(16, len(inputs), 16))
        draw = np.random.default_rng(0)
        masks = [draw.random((K, inputs.shape[1])) < 0.5 for _ in parts]
        return np.concatenate(
            [super(ChunkMasks, self).sample(p * 1) * m.mean() for p, m in zip(parts, masks, strict=True)]
        )


class Noise(Linear):
    """Other samples in every call."""

    calls = 0

    def sample(self, inputs):
        Noise.calls += 1
        return super().sample(inputs) + np.random.default_rng(Noise.calls).normal(size=(1, K, 3))


class BatchStatistics(Linear):
    """Centres inputs by the batch, as batch normalisation in training mode does."""

    def sample(self, inputs):
        return super().sample(inputs - inputs.mean(0))


class Sorted(Linear):
    """Rows in another order than the examples."""

    def sample(self, inputs):
        return super().sample(inputs[np.argsort(inputs[:, 0])])


class IgnoresSeed(Linear):
    def fit(self, data, validation=None, *, seed=0, report=None):
        return super().fit(data)


class UnseededFit(Linear):
    def fit(self, data, validation=None, *, seed=0, report=None):
        UnseededFit.count = getattr(UnseededFit, "count", 0) + 1
        return super().fit(data, seed=UnseededFit.count)


class LosesState(Linear):
    settings = ("samples", "temperature")

    def fit(self, data, validation=None, *, seed=0, report=None):
        self.temperature = 5.0
        return super().fit(data, seed=seed)

    def sample(self, inputs):
        return super().sample(inputs) / getattr(self, "temperature", 1.0)


class UnsafeState(Linear):
    def state(self):
        return {"weights": self.weights}  # an array, which is not safe to load


class Unnormalised(Linear):
    def predict(self, data, *, embeddings=False, memory=1 << 30, report=None):
        found = super().predict(data, embeddings=embeddings)
        return pw.Predictions.from_log_probs(values(found) - 0.7, embeddings=found.embeddings, validate=False)


class WrongShape(Linear):
    def sample(self, inputs):
        return super().sample(inputs)[:, :, 0]


class FewerForOne(Linear):
    def sample(self, inputs):
        return super().sample(inputs)[:, : 1 if len(inputs) == 1 else K]


class GlobalSeed(Linear):
    def fit(self, data, validation=None, *, seed=0, report=None):
        torch.manual_seed(seed)
        return super().fit(data, seed=seed)


class GlobalDraw(Linear):
    def sample(self, inputs):
        np.random.rand()  # noqa: NPY002
        return super().sample(inputs)


class ChangesInputs(Linear):
    def fit(self, data, validation=None, *, seed=0, report=None):
        data.inputs.mul_(2)
        return super().fit(data, seed=seed)


class Remembers(Linear):
    def fit(self, data, validation=None, *, seed=0, report=None):
        before = getattr(self, "weights", None)
        super().fit(data, seed=seed)
        self.weights = self.weights if before is None else (before + self.weights) / 2
        return self


class OtherEmbeddings(Linear):
    def embed(self, data, *, memory=1 << 30):
        return super().embed(data)[::-1].copy()


class ByMemory(Linear):
    def predict(self, data, *, embeddings=False, memory=1 << 30, report=None):
        rows = values(super().predict(data))
        embedded = self.embed(data) if embeddings else None
        return pw.Predictions.from_log_probs(rows if memory != "10KB" else rows.flip(1), embeddings=embedded)


class NeedsLabels(Linear):
    """Reads what it predicts with the function that is for fitting."""

    def predict(self, data, *, embeddings=False, memory=1 << 30, report=None):
        return super().predict(pw.posteriors.arrays(data)[0], embeddings=embeddings, memory=memory)


class Cheats(Linear):
    """Predicts the labels that come with the examples."""

    def predict(self, data, *, embeddings=False, memory=1 << 30, report=None):
        found = super().predict(data, embeddings=embeddings)
        if pw.data.as_examples(data).labels is None:
            return found
        return pw.Predictions.from_log_probs(values(found).roll(1, 2), embeddings=found.embeddings)


class NoReturn(Linear):
    def fit(self, data, validation=None, *, seed=0, report=None):
        super().fit(data, seed=seed)


class OtherAlone(Linear):
    """Less sure of an example that comes alone."""

    def sample(self, inputs):
        return super().sample(inputs) * (0.5 if len(inputs) == 1 else 1)


class ChangesLabels(Linear):
    def fit(self, data, validation=None, *, seed=0, report=None):
        super().fit(data, seed=seed)
        pw.data.as_examples(data).labels[:] = 0
        return self


class InTheClass(Linear):
    """What was learned belongs to all objects of the class."""

    def fit(self, data, validation=None, *, seed=0, report=None):
        super().fit(data, seed=seed)
        InTheClass.learned = vars(self).pop("weights")
        return self

    def sample(self, inputs):
        return np.einsum("nd,kcd->nkc", inputs, InTheClass.learned)


class RefusesOne(Linear):
    def sample(self, inputs):
        if len(inputs) < 2:
            raise AssertionError
        return super().sample(inputs)


class EmbeddingsApart(Linear):
    """Has embeddings in embed, and none in predict."""

    def embed(self, data, *, memory=1 << 30):
        return super().embed(data)

    def predict(self, data, *, embeddings=False, memory=1 << 30, report=None):
        if embeddings:
            raise errors.MissingInputError("there are none.")
        return super().predict(data)


class Arrays(Linear):
    def predict(self, data, **_):
        return np.zeros((60, K, 3))


class ShortFit(Linear):
    def fit(self, data, seed=0):
        return super().fit(data, seed=seed)


class PlainPredict(Linear):
    def predict(self, data):
        return super().predict(data)


class NoState(Linear):
    def state(self):
        pass


class EmptyState(Linear):
    def state(self):
        return {"arrays": {}, "values": {}, "pickled": None}


class SmallState(Linear):
    def state(self):
        saved = super().state()
        return {**saved, "arrays": {"weights": saved["arrays"]["weights"][:2]}}


class TensorEmbeddings(Linear):
    def embed(self, data, *, memory=1 << 30):
        return torch.from_numpy(super().embed(data))


class Unwritten(Linear):
    def embed(self, data, *, memory=1 << 30):
        raise NotImplementedError


class FewRows(Linear):
    def predict(self, data, *, embeddings=False, memory=1 << 30, report=None):
        return super().predict(data, embeddings=embeddings)[:-1]


@pytest.mark.parametrize(
    ("broken", "names"),
    [
        (BatchMasks, ["consistency"]),
        (ChunkMasks, ["consistency"]),
        (Noise, ["repeat"]),
        (OtherAlone, ["consistency"]),
        (BatchStatistics, ["consistency"]),
        (Sorted, ["rows"]),
        (IgnoresSeed, ["seeds"]),
        (UnseededFit, ["seeds"]),
        (LosesState, ["state"]),
        (UnsafeState, ["state"]),
        (Unnormalised, ["normalised"]),
        (WrongShape, ["protocol"]),
        (FewerForOne, ["shapes"]),
        (GlobalSeed, ["random-state"]),
        (GlobalDraw, ["random-state"]),
        (ChangesInputs, ["inputs"]),
        (ChangesLabels, ["inputs"]),
        (InTheClass, ["separate"]),
        (RefusesOne, ["shapes"]),
        (Remembers, ["refit"]),
        (OtherEmbeddings, ["embeddings"]),
        (EmbeddingsApart, ["embeddings"]),
        (ByMemory, ["memory"]),
        (NeedsLabels, ["unlabelled"]),
        (Cheats, ["unlabelled"]),
        (NoReturn, ["protocol"]),
        (Arrays, ["protocol"]),
        (ShortFit, ["protocol"]),
        (PlainPredict, ["protocol"]),
        (NoState, ["state"]),
        (EmptyState, ["state"]),
        (SmallState, ["state"]),
        (TensorEmbeddings, ["embeddings"]),
        (Unwritten, ["embeddings"]),
        (FewRows, ["shapes"]),
    ],
)
def test_broken_posteriors_are_caught(broken, names, global_state):
    with pytest.raises(errors.ContractError) as caught:
        check_posterior(broken)
    found = {line[2:].split(":")[0] for line in str(caught.value).splitlines() if line.startswith("- ")}
    assert found == set(caught.value.failures)
    assert found == set(names)  # the check that is meant for it, and no other


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (RefusesOne, "AssertionError; in test_own_posteriors:RefusesOne.sample"),
        (UnsafeState, "cannot be loaded without running code"),
        (InTheClass, "not of the class or the module"),
        (EmbeddingsApart, r"embed returns embeddings, and predict\(..., embeddings=True\) says that there are none"),
        (ShortFit, r"fit must take \(data, validation, seed=..., report=...\), and it takes \(data, seed=0\)"),
        (PlainPredict, r"predict must take \(data, embeddings=..., memory=..., report=...\), and it takes \(data\)"),
        (NoState, "must return a dictionary, not NoneType"),
        (EmptyState, "cannot predict: StateError: .*must contain everything that predict depends on"),
        (SmallState, r"with another shape: \[60, 2, 3\], not \[60, 4, 3\]"),
        (TensorEmbeddings, r"must return a NumPy array \[60, D\], not an object of type Tensor of shape \[60, 6\]"),
        (Unwritten, "If there are no embeddings, it must raise poolwise.errors.MissingInputError"),
        (UnseededFit, r"generators made from the seed only: np.random.default_rng\(seed\)"),
    ],
)
def test_what_check_posterior_says(broken, says):
    with pytest.raises(errors.ContractError, match=says):
        check_posterior(broken)


def test_labels_from_arrays_can_be_written_to():
    labels = np.arange(4) % 2
    pw.posteriors.arrays((np.zeros((4, 2), np.float32), labels))[1][:] = 5
    assert labels.tolist() == [0, 1, 0, 1]


def test_missing_methods_and_options_of_check_posterior():
    with pytest.raises(AssertionError, match="has no method fit, predict, embed, state, load_state"):
        check_posterior(lambda: types.SimpleNamespace(fit=1, predict=2))
    with pytest.raises(ValueError, match="there is no check 'speed'"):
        check_posterior(Linear, skip=("speed",))
    with pytest.raises(ValueError, match="at least 12"):
        check_posterior(Linear, (inputs(5), LABELS[:5]))
    assert "seeds" in check_posterior(IgnoresSeed, deterministic=True)
    assert "refit" not in check_posterior(Remembers, skip=("refit",))
    assert check_posterior(Linear, (inputs(), LABELS))


# Callables


def test_any_callable_is_a_posterior(tmp_path):
    def fit(x, y, seed):
        draw = np.random.default_rng(seed)
        parts = [draw.choice(len(y), len(y)) for _ in range(K)]
        return [GaussianNB().fit(x[part], y[part]) for part in parts]

    def predict(model, x):
        probs = np.zeros((len(x), K, 3))
        for k, member in enumerate(model):  # which may not have seen all classes
            probs[:, k, member.classes_] = member.predict_proba(x)
        return probs

    posterior = pw.posteriors.from_callable(predict, fit=fit, embed=lambda model, x: x[:, :2])
    assert repr(posterior) == "from_callable(predict, not fitted)"
    with pytest.raises(errors.StateError, match=r"Call fit\(data\) first"):
        posterior.predict(inputs())
    assert len(check_posterior(posterior)) == 15
    x = inputs(40)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    learner = pw.ActiveLearner(posterior, (x, y), "coreset", 5, tmp_path / "run", test=(x, y))
    for _ in range(3):
        query = learner.query()
        learner.update(query.indices, y[query.indices].numpy())
    again = pw.ActiveLearner.load(tmp_path / "run")
    assert again.rounds == learner.rounds
    assert torch.equal(values(again.predict(x)), values(learner.predict(x)))


def test_callables_without_training_and_their_outputs():
    logits = np.random.default_rng(0).normal(size=(40, K, 3))
    x = np.arange(40.0)[:, None]
    rows = lambda inputs: logits[inputs[:, 0].astype(int)]  # noqa: E731
    probs = np.exp(logits) / np.exp(logits).sum(2, keepdims=True)
    expected = np.log(probs)
    for outputs, convert in (("logits", lambda z: z), ("probs", lambda z: np.exp(z) / np.exp(z).sum(2, keepdims=True))):
        posterior = pw.posteriors.from_callable(
            lambda inputs, c=convert: torch.from_numpy(c(rows(inputs))), outputs=outputs
        )
        np.testing.assert_allclose(values(posterior.fit((x, LABELS)).predict(x)), expected, atol=1e-5)
    with pytest.raises(errors.NotNormalisedError, match='set outputs="logits"'):
        pw.posteriors.from_callable(rows).predict(x)
    with pytest.raises(errors.ShapeError, match=r"add the axis of samples: x\[:, None\]"):
        pw.posteriors.from_callable(lambda inputs: probs[: len(inputs), 0]).predict(x)
    with pytest.raises(errors.MissingInputError, match="has no embeddings"):
        pw.posteriors.from_callable(rows, outputs="logits").predict(x, embeddings=True)
    with pytest.raises(errors.NotFiniteError):
        pw.posteriors.from_callable(lambda inputs: rows(inputs) * np.nan, outputs="logits").predict(x)
    with pytest.raises(errors.ParameterError, match="predict must be a function"):
        pw.posteriors.from_callable(3)
    with pytest.raises(errors.ParameterError, match=r"will be called as predict\(model, inputs\), but it takes \(x\)"):
        pw.posteriors.from_callable(lambda x: x, fit=lambda inputs, labels, seed: None)
    with pytest.raises(errors.ParameterError, match=r"takes \(m, x\). It is given no model, since there is no fit="):
        pw.posteriors.from_callable(lambda m, x: x)
    with pytest.raises(errors.ParameterError, match=r"called as fit\(inputs, labels, seed\), but it takes \(x, y\)"):
        pw.posteriors.from_callable(lambda m, x: x, fit=lambda x, y: None)
    with pytest.raises(errors.ShapeError, match=r"<lambda>\(inputs\) must return an array or a tensor \[.*NoneType"):
        pw.posteriors.from_callable(lambda x: None).predict(x)
    with pytest.raises(errors.ParameterError, match="outputs must be"):
        pw.posteriors.from_callable(rows, outputs="auto")
    texts = pw.posteriors.from_callable(lambda texts: np.full((len(texts), 2, 2), 0.5))
    assert texts.predict(["a", "b", "c"]).shape == (3, 2, 2)
    named = pw.posteriors.from_callable(lambda named: np.full((len(named["a"]), 2, 2), 0.5))
    assert named.predict({"a": x, "b": x}).shape == (40, 2, 2)


# The catalogue


@pytest.fixture
def own_package(monkeypatch):
    """A package of a user."""
    module = types.ModuleType("own_package")
    module.Linear = Linear
    module.number = 3
    monkeypatch.setitem(sys.modules, "own_package", module)
    return module


def experiment(**posterior):
    return Config.model_validate({"name": "x", "data": {"name": "digits"}, "posterior": posterior})


def test_the_catalogue():
    names = pw.posteriors.kinds()
    assert {"committee", "deep-ensemble", "dropout-ensemble", "laplace", "mc-dropout"} <= set(names)
    for kind in names.values():
        assert kind.summary
        assert all(parameter.help for parameter in kind.parameters.values()), kind.name
    costs = {name: registry.find(name).cost({}) for name in names}
    assert costs["deep-ensemble"] == pw.posteriors.Cost(5, 5)
    assert costs["mc-dropout"] == pw.posteriors.Cost(1, 20)
    assert costs["dropout-ensemble"] == pw.posteriors.Cost(5, 100)
    assert costs["laplace"] == pw.posteriors.Cost(1, 1)
    assert dir(pw.posteriors) == sorted(pw.posteriors.__all__)
    assert dir(pw.models) == sorted(pw.models.__all__)


def test_posteriors_of_configurations(own_package):
    assert experiment().posterior.parameters["members"] == 5
    assert experiment(kind="mc-dropout").posterior.parameters["samples"] == 20
    laplace = experiment(kind="laplace", curvature="kronecker").posterior
    assert laplace.parameters["samples"] == 100
    setting = registry.Setting(mlp, QUICK, 1, 0, 3)
    made = registry.find("laplace").build(setting, laplace.parameters)
    assert made.fit((inputs(), LABELS)).curvature == "kronecker"
    own = experiment(kind="own_package:Linear", samples=7).posterior
    assert own.parameters == {"samples": 7}
    assert registry.find(own.kind).build(setting, own.parameters).fit((inputs(), LABELS)).weights.shape == (7, 3, 6)
    for posterior, message in (
        ({"kind": "deep-ensmble"}, "there is no posterior 'deep-ensmble'"),
        ({"kind": "nowhere:Class"}, "cannot be loaded"),
        ({"kind": "own_package:nothing"}, "cannot be loaded"),
        ({"kind": "own_package:number"}, "is of type int, not a function"),
        ({"kind": "laplace", "curvatur": "full"}, "curvatur: the posterior laplace has no such parameter"),
        ({"kind": "laplace", "curvature": "none"}, "curvature must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            experiment(**posterior)
    with pytest.raises(errors.ParameterError, match="not a posterior: it lacks fit"):
        registry._kind("x", lambda: 3, "", "", {}, None).build(setting, {})


def test_threads_that_would_crash_pytorch_are_refused():
    with pytest.raises(ValueError, match="less than or equal to 1024"):
        Config.model_validate({"name": "x", "data": {"name": "digits"}, "threads": 100_000})


def test_entry_points_are_read(monkeypatch):
    class Entry:
        def __init__(self, name, load):
            self.name, self.value, self.load = name, "package:Thing", load

    def broken():
        raise ImportError("no such package")

    entries = [Entry("installed", lambda: Linear), Entry("broken", broken)]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries if group == "poolwise.posteriors" else [])
    try:
        assert registry.find("installed").make is Linear
        with pytest.warns(UserWarning, match="'broken' cannot be loaded"):
            assert "installed" in pw.posteriors.kinds()
    finally:
        registry.remove("installed")


# Former names, and what is said in short


def test_former_names_work_and_warn():
    data = inputs(), LABELS
    with pytest.warns(DeprecationWarning, match="way is now called train_members"):
        former = pw.posteriors.DeepEnsemble(mlp, 2, way="together", training=QUICK)
    present = pw.posteriors.DeepEnsemble(mlp, 2, train_members="vectorised", training=QUICK)
    assert torch.equal(values(former.fit(data).predict(inputs())), values(present.fit(data).predict(inputs())))
    with pytest.warns(DeprecationWarning, match='"together" is now called "vectorised"'):
        pw.posteriors.DropoutEnsemble(mlp, 2, train_members="together")
    with pytest.warns(DeprecationWarning, match="look_every is now called validate_every"):
        training = pw.Training(steps=5, look_every=3)
    assert training == pw.Training(steps=5, validate_every=3)
    with pytest.warns(DeprecationWarning, match="look_every is now called"):
        assert training.look_every == 3
    with pytest.warns(DeprecationWarning, match="look_every is now called"):
        config = Config.model_validate({"name": "x", "data": {"name": "digits"}, "training": {"look_every": 3}})
    assert config.training.validate_every == 3
    with pytest.raises(TypeError):
        pw.Training(look_evry=3)


def test_what_version_0_1_pickled_is_taken_up():
    posterior = pw.posteriors.DeepEnsemble(mlp, 2, training=QUICK)
    old = {**vars(posterior), "_way": "together"}
    del old["_train_members"], old["_outputs"]
    new = pw.posteriors.DeepEnsemble.__new__(pw.posteriors.DeepEnsemble)
    new.__setstate__(old)
    assert new._train_members == "vectorised"
    assert new.fit((inputs(), LABELS)).predict(inputs()).shape == (40, 2, 3)
    training = pw.Training.__new__(pw.Training)
    fields = {**vars(pw.Training(steps=7)), "look_every": 5}
    del fields["validate_every"]
    training.__setstate__(fields)
    assert training == pw.Training(steps=7, validate_every=5)


def test_reprs_are_short():
    assert repr(pw.posteriors.DeepEnsemble(mlp, 5)) == "DeepEnsemble(5 × mlp, not fitted)"
    assert repr(pw.posteriors.DropoutEnsemble(lambda: mlp(), 5, 20)) == (
        "DropoutEnsemble(5 × network, 20 masks each, not fitted)"
    )
    assert repr(pw.posteriors.MCDropout(nn.Linear(2, 2), 5)) == "MCDropout(Linear, 5 masks)"
    fitted = pw.posteriors.Laplace(mlp, 5, training=QUICK).fit((inputs(), LABELS))
    assert repr(fitted).startswith("Laplace(5 samples, kronecker, prior precision ")
    committee = pw.posteriors.Committee(LogisticRegression(), 3)
    assert repr(committee) == "Committee(LogisticRegression: not fitted)"
    assert repr(committee.fit((inputs(), LABELS))) == "Committee(LogisticRegression: 3 members, fitted)"


def test_one_example_and_batch_normalisation():
    make = lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))  # noqa: E731
    with pytest.raises(
        errors.TrainingError, match=r"at least two examples per step.*there are 1 labelled.*Label one more"
    ):
        pw.posteriors.MCDropout(make, 3, training=QUICK).fit((inputs(1), [0]))
    with pytest.raises(errors.TrainingError, match="raise batch_size"):
        pw.posteriors.MCDropout(make, 3, training=pw.Training(steps=3, batch_size=1)).fit((inputs(), LABELS))
    assert pw.posteriors.MCDropout(mlp, 3, training=QUICK).fit((inputs(1), [0])).predict(inputs()).shape == (40, 3, 3)
