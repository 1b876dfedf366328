"""The pools that are measured: slices of real predictions where there are any, synthetic ones elsewhere.

Each pool is written once as `.npy` files, so that every contender of a task reads the same bytes. The real
files are those of `make_predictions.py`.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

REAL = {"ensemble": "fashion-ensemble.npy", "mc-dropout": "fashion-mc-dropout.npy"}
# Softmax of logits that are drawn: how far they spread between rows (all members alike), and between members.
LOGITS = {"shared": (2.0, 1.0), "peaked": (8.0, 3.0), "flat": (0.3, 0.1), "independent": (0.0, 1.0)}
KINDS = ("synthetic", *LOGITS, "linear", "repeated")
# A block of rows has its own random stream, so that a pool's beginning does not depend on its size.
ROWS_AT_ONCE = 20_000


@dataclass(frozen=True)
class Pool:
    """One input: `[n, k, c]` log-probabilities and, when `features` is set, embeddings.

    `source` is what is wanted: "ensemble" or "mc-dropout" (real where possible), "synthetic", "one-hot" (half
    the rows certain, as a saturated softmax gives), "embedded" (a linear layer on the embeddings), or one of `KINDS`.
    """

    n: int
    k: int
    c: int
    source: str = "ensemble"
    dtype: str = "float32"
    features: int = 0
    labelled: int = 0

    @property
    def shape(self) -> str:
        """The size in words, as tables show it."""
        size = f"{self.n:,}×{self.k}×{self.c}"
        return f"{size}, {self.features} features" if self.features else size


def origin(pool: Pool, real: Path) -> str:
    """Where the pool's numbers come from: "ensemble", "mc-dropout", or a synthetic kind."""
    if pool.source in REAL and pool.c == 10:
        path = real / REAL[pool.source]
        if path.exists():
            n, k, c = np.load(path, mmap_mode="r").shape
            if pool.n <= n and pool.k <= k and pool.c == c:
                return pool.source
    return pool.source if pool.source in ("one-hot", "embedded", *KINDS) else "synthetic"


def describe(kind: str) -> str:
    """The origin in words."""
    return {
        "ensemble": "real (Fashion-MNIST, ensemble)",
        "mc-dropout": "real (Fashion-MNIST, MC dropout)",
        "synthetic": "synthetic",
        "one-hot": "synthetic, half the rows one-hot",
        "embedded": "synthetic embeddings, linear layer",
        "shared": "random logits, spread 2 between rows and 1 between members",
        "peaked": "random logits, spread 8 between rows and 3 between members",
        "flat": "random logits, spread 0.3 between rows and 0.1 between members",
        "independent": "random logits, spread 1 between members only",
        "linear": "random linear members on 16 random features",
        "repeated": "200 rows of random logits, each many times",
    }[kind]


def materialise(pool: Pool, folder: Path, real: Path) -> dict[str, str]:
    """Write the pool's files if they are not there yet; returns their paths by name."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = origin(pool, real)
    stem = f"{kind}-{pool.n}x{pool.k}x{pool.c}-{pool.dtype}"
    if kind == "embedded":
        stem += f"-{pool.features}-{pool.labelled}"
        names = ("log_probs", "embeddings", "labelled")
        paths = {name: folder / f"{stem}-{name}.npy" for name in names}
        if not all(path.exists() for path in paths.values()):
            for name, array in zip(names, _embedded(pool), strict=True):
                np.save(paths[name], array)
        return {name: str(path) for name, path in paths.items()}
    path = folder / f"{stem}.npy"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        out = np.lib.format.open_memmap(unfinished, "w+", np.dtype(pool.dtype), (pool.n, pool.k, pool.c))
        if kind in REAL:
            out[:] = np.load(real / REAL[kind], mmap_mode="r")[: pool.n, : pool.k]
        else:
            _fill(out, kind)
        out.flush()
        del out
        unfinished.rename(path)
    return {"log_probs": str(path)}


def log_softmax(logits: NDArray[np.floating]) -> NDArray[np.floating]:
    """Normalise over the last axis."""
    logits = logits - logits.max(-1, keepdims=True)
    normalised: NDArray[np.floating] = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return normalised


def _fill(out: NDArray[np.floating], kind: str) -> None:
    n, k, c = out.shape
    for start in range(0, n, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, n)
        block = (drawn(kind, k, c, start) if kind in KINDS[1:] else synthetic(k, c, start))[: stop - start]
        if kind == "one-hot":
            certain = slice(0, None, 2)
            best = block[certain].argmax(-1, keepdims=True)
            block[certain] = -np.inf
            np.put_along_axis(block[certain], best, 0.0, -1)
        out[start:stop] = block


def synthetic(k: int, c: int, start: int) -> NDArray[np.floating]:
    """Rows `start` to `start + ROWS_AT_ONCE` of predictions that resemble an ensemble's.

    Most rows are confident, few informative, and rows are related: member k is a linear layer `W + noise_k` on shared
    features, so members disagree about *directions* and two rows share what they tell about the member. A row lies
    between two class centres, at a random distance from zero. With ten classes and K = 20 the quantiles of BALD come
    near those of the real file: median 0.02 (real 0.04), 90 % 0.16 (0.17), 99 % 0.41 (0.30); median entropy of the mean
    prediction 0.29 (0.35).
    """
    rng = np.random.default_rng([k, c])
    d = 16 if c <= 20 else 24
    layer = rng.standard_normal((d, c)) / np.sqrt(d)
    members = layer + 0.25 * rng.standard_normal((k, d, c)) / np.sqrt(d)
    centres = (layer / np.linalg.norm(layer, axis=0)).T
    rng = np.random.default_rng([k, c, start])
    first, second = rng.integers(c, size=(2, ROWS_AT_ONCE))
    between = rng.beta(0.5, 1.5, size=(ROWS_AT_ONCE, 1))
    rows = (1 - between) * centres[first] + between * centres[second]
    rows += 0.7 * rng.standard_normal(rows.shape) / np.sqrt(d)
    rows *= 17 * rng.gamma(2.0, 0.5, size=(ROWS_AT_ONCE, 1))
    return log_softmax(np.einsum("nd,kdc->nkc", rows, members, optimize=True))


def drawn(kind: str, k: int, c: int, start: int) -> NDArray[np.floating]:
    """Rows `start` to `start + ROWS_AT_ONCE` of predictions without the structure of `synthetic`, by kind."""
    rng = np.random.default_rng([k, c, start, KINDS.index(kind)])

    def normal(*shape: int) -> NDArray[np.float32]:
        return rng.standard_normal(shape, dtype=np.float32)

    if kind == "linear":
        members = np.random.default_rng([k, c]).standard_normal((k + 1, 16, c), dtype=np.float32)
        rows, members = normal(ROWS_AT_ONCE, 16), (members[:1] + 0.5 * members[1:]) * np.float32(0.75)
        return log_softmax(np.einsum("nd,kdc->nkc", rows, members, optimize=True))
    if kind == "repeated":
        distinct = np.random.default_rng([k, c]).standard_normal((200, k + 1, c), dtype=np.float32)
        return log_softmax(2 * distinct[:, :1] + distinct[:, 1:])[rng.integers(200, size=ROWS_AT_ONCE)]
    between_rows, between_members = LOGITS[kind]
    logits = between_members * normal(ROWS_AT_ONCE, k, c)
    return log_softmax(logits + between_rows * normal(ROWS_AT_ONCE, 1, c))


def _embedded(pool: Pool) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Log-probabilities `[n, 1, c]`, embeddings `[n, features]`, embeddings of labelled points."""
    rng = np.random.default_rng([pool.n, pool.features])
    centres = rng.standard_normal((pool.c, pool.features))
    rows = pool.n + pool.labelled
    classes = rng.integers(pool.c, size=rows)
    # rectified, as a network's last hidden layer is
    noise = rng.standard_normal((rows, pool.features))
    features = np.maximum(centres[classes] + 2 * noise, 0).astype(np.float32)
    logits = features[: pool.n] @ (centres.T * (15 / pool.features)).astype(np.float32)
    log_probs = log_softmax(logits * rng.gamma(2.0, 0.5, size=(pool.n, 1)))[:, None].astype(np.float32)
    return log_probs, features[: pool.n], features[pool.n :]
