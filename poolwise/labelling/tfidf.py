"""Texts as features without a download: word counts, weighted, and reduced to a few hundred numbers.

Weights are TF-IDF (Spärck Jones 1972), the reduction is latent semantic analysis (Deerwester et al. 1990). Both are
learnt once from the texts of a project, and then stay, so that texts appended later get features that fit.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils.extmath import randomized_svd

from poolwise.arrays import Array
from poolwise.progress import Report, silent

# Numbers per text, words that are kept, and texts that they are learnt from.
_WIDTH, _WORDS, _SAMPLE = 200, 30_000, 50_000

# Texts per block.
_BLOCK = 4_096

# Fewer words per text than this: a language that is written without spaces. Its character pairs are counted instead.
_FEW_WORDS = 1.5


@dataclass(frozen=True)
class Tfidf:
    """What was learnt.

    Attributes:
        analyser: `"word"` or `"char_wb"`.
        words: what is counted.
        idf: `[V]` the weight of each.
        components: `[D, V]` the reduction.
    """

    analyser: str
    words: Sequence[str]
    idf: Array
    components: Array

    @property
    def width(self) -> int:
        """D, the size of the features."""
        return len(self.components)

    @property
    def fingerprint(self) -> str:
        """A name for all that features depend on besides the text."""
        found = hashlib.sha256(self.analyser.encode())
        for part in (json.dumps(list(self.words)).encode(), self.idf.tobytes(), self.components.tobytes()):
            found.update(part)
        return found.hexdigest()[:32]

    def __call__(self, texts: Sequence[str], report: Report = silent) -> Array:
        """`[n, D]` float32 features, each row of length 1, or 0 if it has no known word."""
        counter = _counter(self.analyser, vocabulary={word: place for place, word in enumerate(self.words)})
        features = np.zeros((len(texts), self.width), np.float32)
        for start in range(0, len(texts), _BLOCK):
            part = list(texts[start : start + _BLOCK])
            features[start : start + _BLOCK] = _weighted(counter.transform(part), self.idf) @ self.components.T
            report("counting words", start + len(part), len(texts))
        length = np.linalg.norm(features, axis=1, keepdims=True)
        return features / np.where(length > 0, length, 1)

    def save(self, file: IO[bytes]) -> None:
        """Write it, without pickle."""
        words = np.frombuffer(json.dumps(list(self.words)).encode(), np.uint8)
        analyser = np.frombuffer(self.analyser.encode(), np.uint8)
        np.savez(file, analyser=analyser, words=words, idf=self.idf, components=self.components)


def load(path: Path) -> Tfidf | None:
    """What was saved; None if there is nothing, or nothing that can be used."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            analyser = stored["analyser"].tobytes().decode()
            words = json.load(io.BytesIO(stored["words"].tobytes()))
            found = Tfidf(analyser, [str(word) for word in words], stored["idf"], stored["components"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    fits = found.components.ndim == 2 and found.components.shape[1] == len(found.words) == len(found.idf)
    return found if fits and analyser in ("word", "char_wb") else None


def fit(texts: Sequence[str], report: Report = silent) -> Tfidf:
    """Learn words, weights and the reduction from texts."""
    step = max(1, len(texts) // _SAMPLE)
    sample = [text for text in texts[::step] if text.strip()] or [" "]
    least = 2 if len(sample) >= 1_000 else 1
    analyser = "word"
    counter = _counter(analyser, max_features=_WORDS, min_df=least)
    split = counter.build_analyzer()
    if np.mean([len(split(text)) for text in sample[:2_000]]) < _FEW_WORDS:
        analyser = "char_wb"
        counter = _counter(analyser, max_features=_WORDS, min_df=least)
    try:
        counts = counter.fit_transform(sample)
    except ValueError:  # not one word
        return Tfidf(analyser, ["\0"], np.ones(1), np.ones((1, 1), np.float32))
    report("learning the words", 1, 2)
    idf = np.log((1 + len(sample)) / (1 + np.bincount(counts.indices, minlength=counts.shape[1]))) + 1
    width = min(_WIDTH, *(size - 1 for size in counts.shape))
    weighted = _weighted(counts, idf)
    if width < 1:
        components = np.eye(counts.shape[1], dtype=np.float32)
    else:
        components = randomized_svd(weighted, width, n_iter=4, random_state=0)[2].astype(np.float32)
    report("learning the words", 2, 2)
    return Tfidf(analyser, list(counter.get_feature_names_out()), idf, components)


def _counter(analyser: str, **settings: object) -> CountVectorizer:
    span = (1, 1) if analyser == "word" else (1, 3)
    return CountVectorizer(analyzer=analyser, ngram_range=span, strip_accents="unicode", dtype=np.float32, **settings)


def _weighted(counts: sparse.csr_matrix, idf: Array) -> sparse.csr_matrix:
    """Logarithms of counts times weights, each row of length 1."""
    values = counts.tocsr(copy=True)
    values.data = ((1 + np.log(values.data)) * idf[values.indices]).astype(np.float32)
    lengths = np.sqrt(np.asarray(values.multiply(values).sum(1)).ravel())
    scale = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return sparse.diags(scale.astype(np.float32)) @ values
