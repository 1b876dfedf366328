"""Methods from outside the package: functions, objectives, names in files, installed packages."""

import functools
import importlib.metadata
import json
import pickle
import subprocess
import sys
import textwrap
import warnings

import cloudpickle
import numpy as np
import pytest
import torch
from pools import features, pool
from sklearn.linear_model import LogisticRegression

import poolwise as pw
from poolwise.errors import (
    MethodError,
    MissingInputError,
    ParameterError,
    PluginWarning,
    StateError,
    UnknownMethodError,
)
from poolwise.experiments import execute, read_config, runs_of
from poolwise.experiments.config import MethodConfig
from poolwise.selection import registry
from poolwise.selection.catalogue import listing

X = pool(80, 5, 4)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of somebody else: writes its module and, if wanted, its entry points, as pip would."""
    made = []

    def install(code, entry_points="", name="somebody"):
        folder = tmp_path / f"site-{name}"
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("")
        (folder / name / "rules.py").write_text(textwrap.dedent(code))
        info = folder / f"{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[poolwise.methods]\n{entry_points}\n")
        monkeypatch.syspath_prepend(str(folder))
        made.append(name)
        return folder

    yield install
    for name in made:
        for module in [module for module in sys.modules if module.split(".")[0] == name]:
            del sys.modules[module]


RULES = """
    import numpy as np
    import poolwise as pw

    @pw.method("unsure", stochastic=False)
    def unsure(task, *, power: float = 1.0):
        '''Points whose most likely class is the least likely.

        Args:
            power: an exponent,
                above 0.
        '''
        return task.scores(lambda block: (1 - block.probs.mean(1).amax(1)) ** power)

    def plain(predictions, batch_size):
        return np.argsort(-pw.scores.bald(predictions), kind="stable")[:batch_size]

    class Spread(pw.GreedyObjective):
        '''Far from the picks.'''

        def __init__(self, task, *, scale: float = 1.0):
            super().__init__(task)
            self.scale = scale

        def start(self):
            rows = self.task.predictions.rows(np.arange(len(self.task.predictions)))
            self.mean = rows.probs.mean(1).numpy()
            self.near = np.full(len(self.mean), 2.0)
            return self.scale * self.near

        def gains(self, indices):
            return self.scale * self.near[indices]

        def add(self, index):
            self.near = np.minimum(self.near, np.abs(self.mean - self.mean[index]).sum(1))
"""


# Functions


def test_a_function_of_the_task_may_return_picks_positions_or_scores():
    def scores(task):
        return task.scores(lambda block: 1 - block.probs.mean(1).amax(1))

    def tensor(task):
        return torch.from_numpy(scores(task)).requires_grad_()

    def positions(task):
        return np.argsort(-scores(task), kind="stable")[: task.batch_size].tolist()

    def picks(task):
        values = scores(task)
        chosen = np.argsort(-values, kind="stable")[: task.batch_size]
        return pw.Picks(chosen.astype(np.int32), torch.from_numpy(values[chosen]))

    expected = pw.select(X, 7, "least-confidence")
    for method in (scores, tensor, positions, picks):
        batch = pw.select(X, 7, method)
        assert batch.indices.tolist() == expected.indices.tolist()
        assert (batch.indices.dtype, batch.scores.dtype) == (np.int64, np.float64)
        assert batch.method == method.__name__
    np.testing.assert_allclose(pw.select(X, 7, scores).scores, expected.scores)
    assert pw.select(X, 7, positions).scores.tolist() == [0.0] * 7


def test_a_function_of_the_predictions_is_natural():
    expected = pw.select(X, 6, "bald")
    np.testing.assert_array_equal(pw.select(X, 6, pw.scores.bald).indices, expected.indices)
    np.testing.assert_array_equal(
        pw.select(X, 6, lambda predictions: pw.scores.bald(predictions)).scores, expected.scores
    )

    def rule(log_probs, batch_size, *, alpha=1.0):
        return np.argsort(-(pw.scores.bald(log_probs) ** alpha), kind="stable")[:batch_size]

    np.testing.assert_array_equal(pw.select(X, 6, rule, alpha=2).indices, expected.indices)
    some = np.arange(10, 60)
    np.testing.assert_array_equal(
        pw.select(X, 6, rule, candidates=some).indices, pw.select(X, 6, "bald", candidates=some).indices
    )

    def typed(what: pw.Task, alpha: float = 1.0):
        return what.scores(lambda block: block.probs.amax((1, 2)) * alpha)

    assert len(pw.select(X, 6, typed, alpha=3)) == 6
    assert len(pw.select(X, 6, functools.partial(typed, alpha=2.0))) == 6


def test_a_function_that_cannot_be_a_method_is_refused():
    with pytest.raises(ParameterError, match=r"\(task\), \(predictions\) or \(predictions, batch_size\)"):
        pw.select(X, 5, lambda predictions, other: None)
    with pytest.raises(ParameterError, match="takes"):
        pw.select(X, 5, lambda: None)
    for given in (3, None, ["bald"]):
        with pytest.raises(UnknownMethodError, match="a name, a poolwise Method or a function"):
            pw.select(X, 5, given)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ([0, 0, 1, 2, 3], "position 0 more than once"),
        ([0, 1, 2, 3, 80], "position 80, but the positions to choose from are 0 to 79"),
        ([0, 1, 2, 3, -1], "position -1"),
        ([0, 1, 2], "asked for 5 points"),
        ([[0, 1, 2, 3, 4]], "shape"),
        (np.arange(5) * 1.0, "B is 5, of 80 points. If they are positions"),
        (np.full(80, np.nan), "score nan: scores must be finite"),
        ("first", "A method returns Picks"),
        (None, "A method returns Picks"),
        ([[1], [2, 3]], "A method returns Picks"),
        (pw.Picks(np.arange(5.0), np.zeros(5)), "whole numbers"),
        (pw.Picks(np.arange(5), np.zeros(4)), "one for each of the 5"),
        (pw.Picks(np.arange(5), np.array([1, 2, np.inf, 0, 0])), "pick 2 the score inf"),
    ],
)
def test_a_wrong_result_is_refused_and_explained(result, says):
    def broken(task):
        return result

    with pytest.raises(MethodError, match=f"^broken .*{says}"):
        pw.select(X, 5, broken)


def test_parameters_are_checked_and_required_ones_asked_for():
    def rule(task, *, alpha: float, form: str = "max"):
        """Any.

        Args:
            alpha: the power.
        """
        return task.scores(lambda block: block.probs.amax((1, 2)) ** alpha)

    with pytest.raises(ParameterError, match=r"rule needs the parameter alpha: the power."):
        pw.select(X, 5, rule)
    with pytest.raises(ParameterError, match="alpha must be a number"):
        pw.select(X, 5, rule, alpha="large")
    with pytest.raises(ParameterError, match="no parameter 'beta'; its parameters: alpha, form"):
        pw.select(X, 5, rule, alpha=1.0, beta=2)


# The decorator


def test_the_decorator_needs_a_name_only_and_reads_the_rest_from_the_docstring():
    @pw.method("plain-rule")
    def rule(task, *, alpha: float = 2.0, steps: int = 3):
        """Uncertain points.

        Args:
            alpha: the power,
                above 0.
            steps: how many.
        """
        return task.scores(lambda block: 1 - block.probs.mean(1).amax(1) * alpha / steps)

    found = pw.methods()["plain-rule"]
    assert (found.name, found.summary, found.needs) == ("plain-rule", "Uncertain points.", ("predictions",))
    assert found.parameters["alpha"].help == "the power, above 0."
    assert found.parameters["steps"].annotation is int
    assert rule.__name__ == "rule"
    for method in ("plain-rule", rule, found):
        assert pw.select(X, 5, method, alpha=1.0).method == "plain-rule"
    with pytest.raises(ParameterError, match="steps must be a whole number"):
        pw.select(X, 5, rule, steps=0.5)


def test_a_sphinx_docstring_and_given_texts_describe_parameters():
    @pw.method("sphinx", parameters={"beta": "given."}, formula="x", paper="none", needs=("embeddings",))
    def rule(task, *, alpha=1, beta=2):
        """A line.

        :param float alpha: from sphinx.
        """

    found = registry.find("sphinx")
    assert (found.parameters["alpha"].help, found.parameters["beta"].help) == ("from sphinx.", "given.")
    assert (found.formula, found.paper, found.needs) == ("x", "none", ("embeddings",))


def test_names_that_cannot_be_used_are_refused():
    def rule(task):
        """A line."""

    with pytest.raises(ParameterError, match="built-in method 'lbb'"):
        pw.method("lbb")(rule)
    for name in ("", "two words", "a:b"):
        with pytest.raises(ParameterError, match="cannot be called"):
            pw.method(name)(rule)
    with pytest.raises(ParameterError, match="docstring, or pass summary"):
        pw.method("silent")(lambda task: None)
    with pytest.raises(ParameterError, match=r"write @poolwise.method\(.a-name.\)"):
        pw.method(rule)
    with pytest.raises(ParameterError, match="describes 'gamma'"):
        pw.method("texts", parameters={"gamma": "none"})(rule)
    with pytest.raises(ParameterError, match="a function or a subclass"):
        pw.method("number")(3)
    pw.method("mine")(rule)
    pw.method("mine")(rule)  # again, as in a notebook

    def other(task):
        """A line."""

    with pytest.raises(ParameterError, match=r"there is a method 'mine' already: .*rule"):
        pw.method("mine")(other)


def test_a_wrapper_of_a_registered_function_is_not_taken_for_it():
    @pw.method("wrapped")
    def rule(task):
        """A line."""
        return np.arange(task.batch_size)

    @functools.wraps(rule)
    def wrapper(task):
        return rule(task)[::-1]

    assert pw.select(X, 3, wrapper).indices.tolist() == [2, 1, 0]
    assert pw.select(X, 3, rule).indices.tolist() == [0, 1, 2]


# Greedy objectives


class Cover(pw.GreedyObjective):
    """Points that are close to many others which no pick is close to."""

    def __init__(self, task, *, width: float = 1.0):
        super().__init__(task)
        self.width = width

    def start(self):
        mean = self.task.predictions.rows(np.arange(len(self.task.predictions))).probs.double().mean(1).numpy()
        self.near = np.exp(-np.abs(mean[:, None] - mean[None]).sum(2) / self.width)
        self.covered, self.asked = np.zeros(len(mean)), 0
        return self.near.sum(1)

    def gains(self, indices):
        self.asked += len(indices)
        return np.maximum(self.near[indices] - self.covered, 0).sum(1)

    def add(self, index):
        self.covered = np.maximum(self.covered, self.near[index])


def obvious(x, size, width=1.0):
    mean = np.exp(x.astype(np.float64)).mean(1)
    near = np.exp(-np.abs(mean[:, None] - mean[None]).sum(2) / width)
    covered, picks = np.zeros(len(x)), []
    for _ in range(size):
        gains = np.maximum(near - covered, 0).sum(1)
        gains[picks] = -1
        picks.append(int(gains.argmax()))
        covered = np.maximum(covered, near[picks[-1]])
    return picks


def test_a_greedy_method_needs_three_functions():
    for way in ("lazy", "full"):
        assert pw.select(X, 20, Cover, evaluation=way).indices.tolist() == obvious(X, 20)
        assert pw.select(X, 9, Cover, evaluation=way, width=0.3).indices.tolist() == obvious(X, 9, 0.3)
    assert pw.select(X, 9, lambda task: Cover(task, width=0.3)).indices.tolist() == obvious(X, 9, 0.3)
    with pytest.raises(ParameterError, match="evaluation must be one of 'lazy', 'full'"):
        pw.select(X, 5, Cover, evaluation="quick")


@pytest.mark.thorough
def test_lazy_evaluation_asks_for_few_gains():
    task = pw.Task(pw.Predictions.from_log_probs(pool(3000, 4, 5)), 30)
    asked = []
    for way in ("lazy", "full"):
        objective = Cover(task)
        objective.pick(way)
        asked.append(objective.asked)
    assert asked[0] < asked[1] / 5


def test_gains_that_grow_are_computed_anew_at_every_pick():
    class Growing(pw.GreedyObjective):
        """The lowest index wins at first, the highest later."""

        shrinking = False

        def start(self):
            self.picks = 0
            return -np.arange(len(self.task.predictions), dtype=float)

        def gains(self, indices):
            return indices * (1.0 if self.picks else -1.0)

        def add(self, index):
            self.picks += 1

    for way in ("lazy", "full"):
        assert pw.select(X, 4, Growing, evaluation=way).indices.tolist() == [0, 79, 78, 77]


@pytest.mark.parametrize(
    ("gains", "says"),
    [
        (lambda self, indices: np.ones(3), r"gains\(indices\) must return one number for each point"),
        (lambda self, indices: np.full(len(indices), np.nan), r"gains\(indices\) returned NaN"),
    ],
)
def test_wrong_gains_are_refused_and_explained(gains, says):
    class Wrong(Cover):
        pass

    Wrong.gains = gains
    for way in ("lazy", "full"):
        with pytest.raises(MethodError, match=f"Wrong.{says}"):
            pw.select(X, 5, Wrong, evaluation=way)


def test_a_registered_objective_is_a_method_with_its_own_parameters():
    pw.method("cover", bound=lambda task, **own: np.full(len(task.predictions), 1e6))(Cover)
    assert list(pw.methods()["cover"].parameters) == ["width", "evaluation"]
    assert pw.methods()["cover"].summary.startswith("Points that are close")
    assert pw.select(X, 9, "cover", width=0.3).indices.tolist() == obvious(X, 9, 0.3)
    with pytest.warns(pw.PrefilterWarning):
        assert pw.select(X, 3, "cover", candidates="top:40").diagnostics.prefilter.left_out == 40

    class Child(Cover):
        """Not the registered one."""

    assert pw.select(X, 3, Child).method == "Child"


# From a file, from a package


def test_a_method_is_named_by_its_place(package):
    package(RULES)
    expected = pw.select(X, 6, "least-confidence").indices.tolist()
    assert pw.select(X, 6, "somebody.rules:unsure", power=2).indices.tolist() == expected
    assert pw.select(X, 6, "somebody.rules:plain").indices.tolist() == pw.select(X, 6, "bald").indices.tolist()
    assert len(pw.select(X, 6, "somebody.rules:Spread", scale=2.0)) == 6
    config = MethodConfig(name="somebody.rules:unsure", power=2.0)
    assert config.label == "somebody.rules:unsure power=2.0"
    with pytest.raises(ValueError, match="no parameter 'alpha'"):
        MethodConfig(name="somebody.rules:unsure", alpha=2.0)
    for name, says in (
        ("nobody.rules:unsure", "No module named 'nobody'.*PYTHONPATH"),
        ("somebody.rules:missing", "somebody.rules has no missing"),
        ("somebody.rules:np.pi", "is of type float, not a function"),
    ):
        with pytest.raises(UnknownMethodError, match=says):
            pw.select(X, 6, name)


def test_methods_of_installed_packages_are_found_by_name(package, run, tmp_path):
    package(RULES, "unsure = somebody.rules:unsure\nplain = somebody.rules:plain\nspread = somebody.rules:Spread")
    assert pw.select(X, 6, "unsure").indices.tolist() == pw.select(X, 6, "least-confidence").indices.tolist()
    assert pw.select(X, 6, "plain").method == "plain"
    assert {"unsure", "plain", "spread"} <= set(pw.methods())
    assert listing()["unsure"].summary.startswith("Points whose most likely")
    printed = run("methods").out
    assert all(name in printed for name in ("unsure", "plain", "spread", "power-lbb"))
    assert "an exponent, above 0." in run("methods", "unsure").out
    np.save(tmp_path / "x.npy", X)
    assert run("select", tmp_path / "x.npy", "--method", "unsure", "-b", 4, "-p", "power=2").out.count("\n") == 5
    assert run("select", tmp_path / "x.npy", "--method", "somebody.rules:plain", "-b", 4).out.count("\n") == 5
    with pytest.raises(UnknownMethodError, match=r"margin, .*plain, .*unsure"):
        pw.select(X, 5, "unsre")


@pytest.mark.parametrize(
    ("code", "points", "says"),
    [
        ("import nothing_like_this", "broken = somebody.rules:rule", "No module named 'nothing_like_this'"),
        ("raise SystemError('oh')", "broken = somebody.rules:rule", "SystemError: oh"),
        ("x = 1", "broken = somebody.rules:rule", "AttributeError"),
        ("rule = 3", "broken = somebody.rules:rule", "a function that selects, not 3"),
        ("def rule(one, two, three): ...", "broken = somebody.rules:rule", "takes"),
        (RULES, "broken = somebody.rules:unsure", "its own name is 'unsure'"),
        (RULES, "lbb = somebody.rules:plain", "built-in method of that name"),
    ],
)
def test_a_broken_plug_in_is_a_warning_that_names_it(package, run, code, points, says):
    package(code, points)
    name = points.split(" ")[0]
    with pytest.warns(PluginWarning, match=f"'{name}' of the package somebody .*{says}"):
        found = pw.methods()
    assert "margin" in found
    assert found.get("lbb", None) is registry.find("lbb")
    printed = run("methods")
    assert "margin" in printed.out
    assert f"poolwise: warning: the method '{name}' of the package somebody" in printed.err
    if name == "broken":
        with pytest.warns(PluginWarning, match=says), pytest.raises(UnknownMethodError, match="no method 'broken'"):
            pw.select(X, 5, "broken")


def test_two_packages_with_one_name_are_a_warning(package):
    package(RULES, "unsure = somebody.rules:unsure")
    package(RULES, "unsure = another.rules:unsure", name="another")
    with pytest.warns(PluginWarning, match="another package offers a method of that name"):
        assert "unsure" not in pw.methods()


def test_no_plug_in_is_imported_for_a_built_in_method(package):
    package("raise SystemError('imported')", "broken = somebody.rules:rule")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pw.select(X, 3, "bald").method == "bald"


# Saving


def test_methods_are_pickled_by_their_place(package):
    package(RULES)
    import somebody.rules

    for method in ("lbb", "somebody.rules:unsure", "somebody.rules:Spread"):
        found = registry.find(method)
        assert pickle.loads(pickle.dumps(found)).function is found.function
    local = cloudpickle.loads(cloudpickle.dumps(registry.resolve(lambda task: np.arange(task.batch_size))))
    assert pw.select(X, 3, local).indices.tolist() == [0, 1, 2]
    assert registry.resolve(somebody.rules.unsure).reference == "somebody.rules:unsure"


def learner(method, folder, **options):
    inputs = np.random.default_rng(0).normal(size=(60, 4))
    made = pw.ActiveLearner(
        pw.posteriors.Committee(LogisticRegression(), 4), pw.Pool(inputs, classes=3), method, 5, folder, **options
    )
    if not made.rounds:
        made.update(made.query().indices, np.arange(60)[made.query().indices] % 3)
    return made


def test_a_learner_with_a_method_of_your_own_is_saved_and_resumed(package, tmp_path):
    package(RULES)
    import somebody.rules

    first = learner(somebody.rules.unsure, tmp_path / "mine", power=2.0)
    expected = first.query().indices.tolist()
    assert json.loads((tmp_path / "mine" / "learner.json").read_text())["settings"]["method"] == "somebody.rules:unsure"
    del first
    assert learner("somebody.rules:unsure", tmp_path / "mine", power=2.0).query().indices.tolist() == expected
    assert pw.ActiveLearner.load(tmp_path / "mine").query().indices.tolist() == expected
    assert pw.ActiveLearner.load(tmp_path / "mine").method == "unsure"


EXPERIMENT = """
name = "mine"
seeds = 1
data = { name = "digits", pool = 120, test = 50 }
posterior = { kind = "committee", members = 2 }
acquisition = { methods = [{ name = "somebody.rules:unsure", power = 2.0 }], batch_size = 10, labels = 40 }
"""


def test_an_experiment_with_a_method_of_your_own_is_stopped_and_resumed(package, tmp_path):
    package(RULES)
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    config = read_config(tmp_path / "mine.toml")
    expected = execute(runs_of(config, tmp_path / "whole")[0])
    run_ = runs_of(config, tmp_path / "parts")[0]

    def stop(entry):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(run_, listener=stop)
    resumed = execute(run_)
    assert [entry.indices for entry in resumed] == [entry.indices for entry in expected]
    assert resumed[-1].labelled == 40


def test_a_learner_with_a_function_that_cannot_be_imported_asks_for_it(tmp_path):
    def mine(task):
        return np.arange(task.batch_size)

    first = learner(mine, tmp_path / "mine")
    expected = first.query().indices.tolist()
    del first
    with pytest.raises(MissingInputError, match=r"mine.* cannot be loaded here .*Pass it: .*method="):
        pw.ActiveLearner.load(tmp_path / "mine")
    with pytest.raises(StateError, match="not 'bald'"):
        pw.ActiveLearner.load(tmp_path / "mine", method="bald")
    assert pw.ActiveLearner.load(tmp_path / "mine", method=mine).query().indices.tolist() == expected


def test_the_learner_passes_embeddings_where_they_are_needed(tmp_path):
    seen = []

    @pw.method("by-embedding", needs=("predictions", "embeddings"))
    def rule(task):
        """Far from the labelled points."""
        seen.append((task.predictions.embeddings.shape, task.predictions.labelled_embeddings.shape))
        return np.asarray(task.predictions.embeddings[:, 0], float)

    pool_ = pw.Pool(torch.from_numpy(features(40)), classes=2)
    pool_.label(np.arange(4), [0, 1, 0, 1])
    posterior = pw.posteriors.DeepEnsemble(
        lambda: torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)),
        2,
        training=pw.Training(epochs=1),
    )
    assert len(pw.ActiveLearner(posterior, pool_, rule, 3).query()) == 3
    assert [(len(pool_rows), len(labelled)) for pool_rows, labelled in seen] == [(2, 2)]
    assert [(pool_rows[0], labelled[0]) for pool_rows, labelled in seen] == [(36, 4)]


def test_candidates_that_are_an_array_do_not_confuse_the_learner():
    assert registry.find("lbb").inputs({"candidates": np.array([1, 2, 3])}) == {"predictions"}
    assert registry.find("posterior-coverage").inputs({"kernel": "embeddings"}) == {"predictions", "embeddings"}
    inputs = np.random.default_rng(0).normal(size=(60, 4))
    pool_ = pw.Pool(inputs, classes=2)
    pool_.label([0, 1], [0, 1])
    some = np.arange(10, 30)
    made = pw.ActiveLearner(pw.posteriors.Committee(LogisticRegression(), 3), pool_, "margin", 4, candidates=some)
    assert set(made.query().indices.tolist()) <= set(some.tolist())


# The old spellings


def test_engine_is_an_old_name_of_evaluation(run, tmp_path):
    expected = pw.select(X, 6, "lbb", evaluation="full")
    with pytest.warns(DeprecationWarning, match="engine is called evaluation") as caught:
        batch = pw.select(X, 6, "lbb", engine="full")
    assert caught[0].filename == __file__
    assert batch.indices.tolist() == expected.indices.tolist()
    assert batch.diagnostics.pairs == expected.diagnostics.pairs
    with pytest.warns(DeprecationWarning, match="evaluation"):
        assert MethodConfig(name="lbb", engine="full").parameters == {"engine": "full"}
    with pytest.warns(DeprecationWarning, match="evaluation"), pytest.raises(ParameterError, match="given twice"):
        pw.select(X, 6, "lbb", engine="full", evaluation="lazy")
    with pytest.raises(ParameterError, match="no parameter 'engine'"):
        pw.select(X, 6, "bald", engine="full")
    np.save(tmp_path / "x.npy", X)
    said = run("select", tmp_path / "x.npy", "--method", "lbb", "-b", 4, "-p", "engine=full").err
    assert "warning: the parameter engine is called evaluation now" in said
    with pytest.warns(DeprecationWarning, match="evaluation"):
        assert len(learner("lbb", None, engine="full").query()) == 5


def test_resume_is_ignored_with_a_warning(tmp_path):
    with pytest.warns(DeprecationWarning, match="resume.* is ignored") as caught:
        batch = pw.select(X, 6, "lbb", resume=tmp_path / "picks")
    assert caught[0].filename == __file__
    assert batch.indices.tolist() == pw.select(X, 6, "lbb").indices.tolist()
    assert not (tmp_path / "picks").exists()


# What others see


def test_the_listing_is_light_and_says_what_the_registry_says():
    code = """
import sys
from poolwise.selection.catalogue import listing
names = list(listing())
assert "torch" not in sys.modules and "numpy" not in sys.modules, "heavy"
print(*names)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=500, check=True)
    assert done.stdout.split() == [name for name in pw.methods() if pw.methods()[name].home.startswith("poolwise.")]
    for name, entry in listing().items():
        method = pw.methods()[name]
        assert (entry.summary, entry.needs, entry.home) == (method.summary, method.needs, method.home)
        assert entry.parameters == tuple(method.parameters)


def test_public_names_are_where_people_look_for_them():
    names = {"method", "Method", "Task", "Picks", "GreedyObjective", "methods"}
    assert names | {"testing"} <= set(dir(pw))
    assert all(getattr(pw, name) is getattr(pw.selection, name) for name in names)
    assert names | {"lbb", "power_lbb", "margin"} == set(dir(pw.selection)) & (names | {"lbb", "power_lbb", "margin"})
    assert "engine" not in dir(pw.selection)
    assert pw.selection.lbb.lbb.__doc__
    assert dir(pw.testing)
    assert importlib.metadata.entry_points(group="poolwise.methods") is not None
    with pytest.raises(AttributeError, match="nothing"):
        pw.selection.nothing  # noqa: B018
