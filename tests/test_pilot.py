"""A pilot on a user's own data."""

import csv

import numpy as np
import pytest
from test_study import run as recorded
from test_study import runs_of

from poolwise import errors
from poolwise.experiments.build import split
from poolwise.experiments.pilot import pilot_config
from poolwise.experiments.records import Setting
from poolwise.reports.pilot import answers, conclusion

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


def test_a_pilot_hides_the_labels_that_there_are(texts):
    config = pilot_config(texts, text="body", label="topic", seeds=2)
    assert [method.name for method in config.acquisition.methods] == ["random", "posterior-coverage", "margin"]
    assert config.posterior.kind == "committee"
    made = split(config.data, 0)
    assert (len(made.pool), len(made.test), made.classes) == (70, 30, 2)
    assert (made.pool.labels >= 0).all()
    assert config.acquisition.labels == 50


def test_a_pilot_needs_labels_and_classes(texts, tmp_path):
    with pytest.raises(errors.ConfigError, match="labels = 90, but 70 examples are left"):
        pilot_config(texts, text="body", label="topic", labels=90)
    few = tmp_path / "few.csv"
    few.write_text("text,label\n" + "\n".join(f"a {n},{'x' if n < 30 else ''}" for n in range(90)))
    with pytest.raises(errors.ConfigError, match="30 of its 90 examples have a label"):
        pilot_config(few)
    few.write_text("text,label\n" + "\n".join(f"a {n},x" for n in range(90)))
    with pytest.raises(errors.ConfigError, match="one class"):
        pilot_config(few)


def test_rare_classes_make_a_pilot_begin_at_random(tmp_path):
    path = tmp_path / "rare.csv"
    path.write_text("text,label\n" + "\n".join(f"a {n},{'rare' if n < 3 else 'xy'[n % 2]}" for n in range(200)))
    assert pilot_config(path).acquisition.initial == 10
    assert pilot_config(path).acquisition.initial_per_class is None


def test_the_command_answers_in_a_sentence(texts, run):
    columns = ("--text-column", "body", "--label-column", "topic")
    out = run("pilot", texts, *columns, "--seeds", "2", "--methods", "margin", "--labels", "30", "-b", "13", "-q").out
    first, last = out.strip().splitlines()
    assert first.startswith("margin: ")
    assert "random" in last


SETTING = Setting("mine", "mine.csv", "committee", 10)


def told(gain, seeds=4, wobble=0.0):
    runs = [recorded(SETTING, "random", seed, 0.6) for seed in range(seeds)]
    runs += [recorded(SETTING, "margin", seed, 0.6 + gain + wobble * (-1) ** seed) for seed in range(seeds)]
    found = answers(runs)
    return found[0].sentence(), conclusion(found)


def test_what_is_better_says_how_many_labels_it_saves():
    # Accuracies are 0.60, 0.65, 0.70 at 20, 30, 40 labels, and 0.05 above: 0.70 is reached at 30.
    sentence, last = told(0.05, wobble=1e-4)
    assert "margin: better than random (+5.00 points over the curve" in sentence
    assert "it needs about 30 labels instead of 40: 25 % fewer" in sentence
    assert last == (
        "On these data margin is better than random, and 25 % of the labels can be saved. Label with: --method margin"
    )


def test_what_cannot_be_told_is_said():
    sentence, last = told(0.01, wobble=0.05)
    assert sentence.startswith("margin: cannot tell with 4 seeds")
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
