"""What methods may ask for of the labelled points: who provides it, and what is said if it is missing."""

import numpy as np
import pytest
from pools import features, pool
from sklearn.linear_model import LogisticRegression

import poolwise as pw
from docs.tooling import method_pages
from poolwise import errors
from poolwise.selection import registry

N, K, C, L, D = 30, 3, 4, 5, 6
EVERYTHING = ("predictions", "embeddings", "labelled_embeddings", "labelled_predictions", "labels")


def known(count=L):
    """Everything that can be said of labelled points."""
    return {
        "labelled_embeddings": features(count, D),
        "labelled_predictions": pool(count, K, C, seed=1),
        "labels": np.arange(count) % C,
    }


def asking(*needs):
    """A method that asks for something, and the tasks that it was given."""
    seen = []

    def rule(task, *, calibrate: bool = True):
        seen.append(task)
        return np.arange(task.batch_size)

    return pw.selection.registry._made(rule, "asking", "Asks.", needs=needs), seen


def test_a_method_is_given_what_it_asks_for():
    method, seen = asking(*EVERYTHING)
    given = known()
    pw.select(pool(N, K, C), 2, method, embeddings=features(N, D), **given)
    (task,) = seen
    assert np.array_equal(task.labels, given["labels"])
    assert np.allclose(task.labelled_embeddings, given["labelled_embeddings"])
    assert np.allclose(task.labelled_predictions.log_probs, given["labelled_predictions"])
    assert task.embeddings.shape == (N, D)


def test_exclude_and_candidates_leave_it_alone():
    method, seen = asking(*EVERYTHING)
    pw.select(pool(N, K, C), 2, method, embeddings=features(N, D), exclude=[0], candidates="50%", **known())
    assert (len(seen[0].labels), len(seen[0].labelled_predictions)) == (L, L)


@pytest.mark.parametrize("missing", ["labelled_embeddings", "labelled_predictions", "labels"])
def test_an_input_that_is_missing_is_named(missing):
    method, seen = asking(*EVERYTHING)
    given = {name: value for name, value in known().items() if name != missing}
    with pytest.raises(errors.MissingInputError, match=f"asking needs {missing}, since .* pass {missing}="):
        pw.select(pool(N, K, C), 2, method, embeddings=features(N, D), **given)
    assert not seen


def test_nothing_labelled_is_an_answer():
    method, seen = asking(*EVERYTHING)
    pw.select(pool(N, K, C), 2, method, embeddings=features(N, D))
    assert (seen[0].labels, seen[0].labelled_predictions) == (None, None)
    assert seen[0].labelled_embeddings.shape == (0, D)
    pw.select(pool(N, K, C), 2, method, embeddings=features(N, D), labels=[])


def test_a_need_may_depend_on_a_parameter():
    method, _ = asking("predictions", "labelled_predictions", "labels if calibrate")
    given = {"labelled_predictions": pool(L, K, C)}
    assert method.inputs({}) == {"predictions", "labelled_predictions", "labels"}
    assert method.inputs({"calibrate": False}) == {"predictions", "labelled_predictions"}
    pw.select(pool(N, K, C), 2, method, calibrate=False, **given)
    with pytest.raises(errors.MissingInputError, match="needs labels"):
        pw.select(pool(N, K, C), 2, method, **given)


@pytest.mark.parametrize(
    ("needs", "message"), [("labls", "not 'labls'"), ("labels if calibrat", "'calibrat', which is no parameter")]
)
def test_a_need_that_cannot_be_is_refused(needs, message):
    with pytest.raises(errors.ParameterError, match=message):
        asking(needs)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"labels": [0, 1]}, errors.InputError, "labelled_embeddings 5, labelled_predictions 5, labels 2"),
        ({"labels": [0, 1, 2, 3, 4]}, errors.LabelError, "from 0 to 3"),
        ({"labels": [0.0, 1.0, 2.0, 3.0, 1.0]}, errors.LabelError, "float64"),
        ({"labels": [[0, 1, 2, 3, 1]]}, errors.LabelError, r"\[1, 5\]"),
        ({"labels": ["a", "b", "c", "d", "e"]}, errors.LabelError, "whole numbers"),
        ({"labelled_predictions": pool(L, K, C + 1)}, errors.InputError, r"\[L, 3, 4\]"),
        ({"labelled_predictions": pool(L, K + 1, C)}, errors.InputError, r"\[L, 3, 4\]"),
    ],
)
def test_what_does_not_fit_is_refused(changed, error, message):
    with pytest.raises(error, match=message):
        pw.select(pool(N, K, C), 2, "margin", embeddings=features(N, D), **{**known(), **changed})


def test_a_learner_provides_it():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(60, D))
    y = (x[:, 0] > 0).astype(int)
    data = pw.Pool(x, classes=2)
    data.label([3, 50, 7, 9], y[[3, 50, 7, 9]])
    method, seen = asking("predictions", "labelled_predictions", "labels")
    learner = pw.ActiveLearner(pw.posteriors.Committee(LogisticRegression(), 3), data, method, batch_size=2)
    learner.query()
    (task,) = seen
    assert task.labels.tolist() == y[data.labelled].tolist()
    expected = learner.posterior.predict(x[data.labelled]).log_probs
    assert np.array_equal(task.labelled_predictions.log_probs, expected)


# The command line


@pytest.fixture
def files(tmp_path):
    """Predictions and all that can be said of labelled points, in files; and a method that needs it all."""
    given = known()
    np.save(tmp_path / "preds.npy", pool(N, K, C))
    np.save(tmp_path / "z.npy", features(N, D))
    np.save(tmp_path / "lz.npy", given["labelled_embeddings"])
    np.save(tmp_path / "lp.npy", given["labelled_predictions"])
    np.save(tmp_path / "labels.npy", given["labels"])
    (tmp_path / "labels.txt").write_text("".join(f"{label}\n" for label in given["labels"]))
    (tmp_path / "labels.csv").write_text("text,class\n" + "".join(f"a,{label}\n" for label in given["labels"]))
    return tmp_path


def by_labels(task):
    """Scores by everything that is known."""
    scores = task.scores(lambda block: 1 - block.probs.mean(1).amax(1))
    centre = task.labelled_embeddings[task.labels == 0].mean(0)
    certain = float(task.labelled_predictions.probs[task.labels == 1].max())
    return scores * certain + np.abs(task.embeddings - centre).sum(1)


by_labels._poolwise_method = registry._made(by_labels, "by-labels", needs=EVERYTHING)  # not in the catalogue
PLACE = "test_needs:by_labels"


@pytest.mark.parametrize("labels", ["labels.npy", "labels.txt", "labels.csv:class"])
def test_the_command_line_takes_files(labels, files, run):
    flags = ["--embeddings", files / "z.npy", "--labelled-embeddings", files / "lz.npy"]
    flags += ["--labelled-predictions", files / "lp.npy", "--labels", files / labels]
    out = run("select", files / "preds.npy", "--method", PLACE, "-b", 4, *flags).out
    expected = pw.select(pool(N, K, C), 4, by_labels, embeddings=features(N, D), **known())
    assert [int(line.split(",")[1]) for line in out.splitlines()[1:]] == expected.indices.tolist()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--labelled-embeddings", "lz.npy", "--labels", "labels.npy"], "--labelled-predictions FILE.npy"),
        (["--labels", "nope.csv"], "--labels takes one of"),
        (["--labels", "labels.csv"], "--labels labels.csv:text"),
        (["--labels", "labels.csv:text"], "row 1 has the label 'a'"),
        (["--labels", "z.npy"], "one list"),
        (["--labels", "labels.npy", "--labelled-predictions", "preds.npy"], "their numbers differ"),
        (["--labelled-predictions", "z.npy", "--labels", "labels.npy"], "z.npy"),
    ],
)
def test_the_command_line_says_what_is_missing_or_wrong(flags, says, files, run, monkeypatch):
    monkeypatch.chdir(files)
    result = run("select", "preds.npy", "--method", PLACE, "-b", 4, "--embeddings", "z.npy", *flags, code=2)
    assert says in result.err
    assert "Traceback" not in result.err


def test_the_listing_shows_the_preference(run):
    assert "those of the trained network" in run("methods", "coreset").out


# The contract


def test_the_contract_gives_what_a_method_needs():
    def sound(task, *, calibrate: bool = True):
        spread = task.scores(lambda block: 1 - block.probs.mean(1).amax(1))
        if calibrate and task.labels is not None:
            assert len(task.labels) == len(task.labelled_predictions)
            spread = spread + len(np.unique(task.labels)) * 1e-3
        return spread

    needs = ("predictions", "labelled_predictions", "labels if calibrate")
    checked = pw.testing.check_method(registry._made(sound, "sound", "Sound.", needs=needs), skip=["threads"])
    assert {"labelled_order", "labelled_sets"} <= {*checked}
    assert "labelled_order" not in pw.testing.check_method("margin", skip=["threads", "ties", "degenerate_pools"])


def _first_only(task):
    near = task.labelled_embeddings[:1] if len(task.labelled_embeddings) else task.embeddings[:1] * 0
    return np.linalg.norm(task.embeddings - near, axis=1)


def _needs_some(task):
    return np.linalg.norm(task.embeddings - task.labelled_embeddings.min(0), axis=1)


def _changes(task):
    if len(task.labelled_embeddings):
        task.labelled_embeddings[:] = 0
    return np.linalg.norm(task.embeddings, axis=1)


def _every_class(task):
    if task.labels is None:
        return np.linalg.norm(task.embeddings, axis=1)
    counts = np.bincount(task.labels)
    return np.linalg.norm(task.embeddings, axis=1) * np.array([counts[0], counts[1]]).min()


@pytest.mark.parametrize(
    ("rule", "function"),
    [
        ("labelled_order", _first_only),
        ("labelled_sets", _needs_some),
        ("input_untouched", _changes),
        ("labelled_sets", _every_class),
    ],
)
def test_the_contract_finds_what_is_wrong(rule, function):
    needs = ("embeddings", "labelled_embeddings", "labels")
    broken = registry._made(function, "broken", "Broken.", needs=needs)
    with pytest.raises(errors.ContractError) as found:
        pw.testing.check_method(broken, skip=["threads", "one_hot", "degenerate_pools"])
    assert rule in found.value.failures


# Parts of predictions


def test_parts_of_predictions_keep_what_is_known_of_labelled_points():
    whole = pw.Predictions.from_log_probs(
        pool(N, K, C), embeddings=features(N, D), labelled_embeddings=features(L, D, seed=1)
    )
    for part in (whole.take(np.array([3, 1])), whole[2:9], whole.with_ids([str(i) for i in range(N)])):
        assert np.array_equal(part.labelled_embeddings, whole.labelled_embeddings)
    assert np.array_equal(whole.take(np.array([3, 1])).embeddings, whole.embeddings[[3, 1]])


# The pages of methods


@pytest.mark.usefixtures("own_catalogues")
def test_pages_give_labelled_inputs_where_they_are_needed(monkeypatch):
    @pw.method("page-rule", needs=("embeddings", "labelled_embeddings if far", "labels if calibrate"))
    def page_rule(task, *, far: bool = True, calibrate: bool = False):
        """A rule."""
        assert len(task.labelled_embeddings) == 30
        return np.arange(task.batch_size)

    note = {"when": "Never."}
    monkeypatch.setattr(method_pages, "notes", lambda: {"page-rule": note})
    for labels in (False, True):
        note["parameters"] = "calibrate=True" if labels else ""
        code = method_pages.example("page-rule")
        assert ("labels=labels" in code) == labels
        exec(compile(code, "page", "exec"), {})
    assert "--labelled-embeddings" in method_pages.command("page-rule")
    assert "--labels" not in method_pages.command("page-rule")
    assert "those of the trained network" in method_pages.page("page-rule")
