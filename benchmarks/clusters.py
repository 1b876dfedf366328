"""The rules that cluster features, beside those of scikit-activeml and scikit-learn: time, memory, quality.

    python -m benchmarks.clusters            # all tables; writes docs/clusters.json and its section of the page
    python -m benchmarks.clusters --quick    # small sizes, to see that everything runs

Each measurement has a process and a single thread of its own, and gives the best processor time of several runs.
Ours and theirs alternate, so that a busy machine slows both.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import Array
from benchmarks.measure import reset_peak, status_mb
from poolwise.storage import read_json, write_json

ROOT = Path(__file__).resolve().parent.parent
CLASSES, DROPPED = 10, 3
RECORD = "clusters.json"
INTRODUCTION = (
    "Rows of length one around 50 centres, nothing labelled; one thread, processor time. Distance: the mean distance "
    "of a point to its nearest pick, smaller is better. The rules are random (the start of k-means), so picks differ. "
    "ProbCover of scikit-activeml tries ten fixed radii, ours finds the largest radius of that purity. Its DropQuery "
    "drops features before a linear head, ours takes the samples that it is given. Memory is higher where a call loads "
    "Numba. The goal is ten times as fast as scikit-activeml. TypiClust and ProbCover reach it with b = 500, DropQuery "
    "with b = 50. Two rows miss it, both with b = 50, and matrix products bound both: TypiClust needs distances inside "
    "clusters of 1,000 points, ProbCover needs all distances to find its radius, and each of them is made once. Rows "
    "were measured on a busy machine, and k-means is older than the code of today. "
    "Made by `python -m benchmarks.clusters`, "
)


def pool(N: int, D: int) -> tuple[Array, Array]:
    """`[N, D]` float32 rows of length one around 50 centres, and `[N, 3, C]` log-probabilities under dropout."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(50, D))[draw.integers(0, 50, N)] + draw.normal(size=(N, D)) * np.geomspace(1, 0.1, D)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    head = draw.normal(size=(D, CLASSES))
    logits = np.stack([np.where(draw.random((N, D)) < 0.75, 0, rows) @ head for _ in range(DROPPED)], 1) * 4
    top = logits.max(-1, keepdims=True)
    log_probs = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    return rows.astype(np.float32), log_probs.astype(np.float32)


def spread(rows: Array, picks: Array) -> float:
    """Mean distance of the points to their nearest pick."""
    squared = (rows**2).sum(1)[:, None] - 2 * rows @ rows[picks].T + (rows[picks] ** 2).sum(1)
    return float(np.sqrt(np.maximum(squared, 0)).min(1).mean())


def ours(method: str, rows: Array, log_probs: Array, size: int, **parameters: Any) -> Callable[[], Array]:
    import poolwise as pw

    predictions = pw.Predictions.from_log_probs(log_probs, embeddings=rows)
    return lambda: pw.select(predictions, size, method, information=False, **parameters).indices


def sklearn_k_means(rows: Array, log_probs: Array, size: int) -> Callable[[], Array]:
    from sklearn.cluster import KMeans

    def call() -> Array:
        return np.asarray(KMeans(size, random_state=0, n_init=1).fit(rows).transform(rows).argmin(0))

    return call


def peer_typiclust(rows: Array, log_probs: Array, size: int) -> Callable[[], Array]:
    from skactiveml.pool import TypiClust

    unlabelled = np.full(len(rows), np.nan)
    return lambda: TypiClust(random_state=0, k=20).query(rows, unlabelled, batch_size=size)


def peer_prob_cover(rows: Array, log_probs: Array, size: int) -> Callable[[], Array]:
    from skactiveml.pool import ProbCover

    unlabelled = np.full(len(rows), np.nan)
    return lambda: ProbCover(random_state=0, n_classes=CLASSES).query(rows, unlabelled, batch_size=size)


def peer_drop_query(rows: Array, log_probs: Array, size: int) -> Callable[[], Array]:
    from skactiveml.base import SkactivemlClassifier
    from skactiveml.pool import DropQuery

    head = np.random.default_rng(1).normal(size=(rows.shape[1], CLASSES))

    class Fitted(SkactivemlClassifier):  # type: ignore[misc]
        """A linear classifier that was fitted elsewhere."""

        def fit(self, X: Array, y: Array) -> "Fitted":
            return self

        def predict_proba(self, X: Array) -> Array:
            return np.eye(CLASSES)[(X @ head).argmax(1)]

        def predict(self, X: Array) -> Array:
            return np.asarray((X @ head).argmax(1))

    unlabelled, model = np.full(len(rows), np.nan), Fitted(classes=list(range(CLASSES)))
    return lambda: DropQuery(random_state=0, n_dropout_samples=DROPPED).query(
        rows, unlabelled, model, fit_clf=False, batch_size=size
    )


CONTENDERS: dict[str, Callable[[Array, Array, int], Callable[[], Array]]] = {
    **{
        f"poolwise {name}": (lambda rows, log_probs, size, name=name: ours(name, rows, log_probs, size))
        for name in ("k-means", "typiclust", "prob-cover", "drop-query")
    },
    "scikit-learn k-means": sklearn_k_means,
    "scikit-activeml typiclust": peer_typiclust,
    "scikit-activeml prob-cover": peer_prob_cover,
    "scikit-activeml drop-query": peer_drop_query,
}

# Contenders, N, D, batch size.
TASKS = (
    (("poolwise k-means", "scikit-learn k-means"), 50_000, 384, 500),
    (("poolwise k-means", "scikit-learn k-means"), 50_000, 384, 50),
    (("poolwise typiclust", "scikit-activeml typiclust"), 50_000, 384, 50),
    (("poolwise typiclust", "scikit-activeml typiclust"), 50_000, 384, 500),
    (("poolwise prob-cover", "scikit-activeml prob-cover"), 10_000, 384, 50),
    (("poolwise prob-cover", "scikit-activeml prob-cover"), 10_000, 384, 500),
    (("poolwise drop-query", "scikit-activeml drop-query"), 50_000, 384, 50),
    (("poolwise prob-cover",), 50_000, 384, 500),
    (("poolwise k-means",), 50_000, 384, 5_000),
)


def run(name: str, N: int, D: int, size: int, repeats: int) -> dict[str, Any]:
    """One measurement, in this process."""
    import torch

    torch.set_num_threads(1)
    rows, log_probs = pool(N, D)
    call = CONTENDERS[name](rows, log_probs, size)
    gc.collect()
    reset_peak()
    before, seconds = status_mb("VmRSS"), []
    for _ in range(repeats):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picks = call()
        seconds.append(time.process_time() - start)
    return {
        "seconds": min(seconds),
        "memory": status_mb("VmHWM") - before,
        "spread": spread(rows, np.unique(picks)),
        "different": len(np.unique(picks)),
        "repeats": repeats,
    }


def measured(name: str, N: int, D: int, size: int, repeats: int) -> dict[str, Any]:
    """The same in a separate process."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = os.environ | threads | {"PYTHONPATH": str(ROOT)}
    spec = json.dumps([name, N, D, size, repeats])
    command = [sys.executable, "-m", "benchmarks.clusters", "--one", spec]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1][:100]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def section(folder: Path) -> list[str]:
    """Lines of the benchmark page, or none if nothing was measured."""
    path = folder / RECORD
    if not path.exists():
        return []
    found = read_json(path)
    runs = min(result["repeats"] for result in found.values() if "repeats" in result)
    text = f"{INTRODUCTION}best of {runs} run{'s' if runs > 1 else ''}."
    return ["## Rules that cluster features", "", text, "", *table(found), ""]


def table(found: dict[str, dict[str, Any]]) -> list[str]:
    """The measurements, task by task."""
    lines = ["|  | points | batch | seconds | above input | distance | × poolwise |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for names, N, D, size in TASKS:
        results = [found.get(key(name, N, D, size), {}) for name in names]
        first = results[0].get("seconds", np.nan)
        for name, result in zip(names, results, strict=True):
            text = f"| {name} | {N:,} × {D} | {size:,} | "
            if "error" in result:
                lines.append(f"{text}{result['error']} | | | |")
            elif result:
                text += f"{result['seconds']:.2f} | {result['memory']:,.0f} MB | {result['spread']:.3f} | "
                lines.append(f"{text}{result['seconds'] / first:.1f} |")
    return lines


def key(name: str, N: int, D: int, size: int) -> str:
    return f"{name} {N}x{D} b={size}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the points, written to the screen only")
    parser.add_argument("--only", default="", help="only contenders whose name has this in it")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run(*json.loads(given.one))))
        return
    path = ROOT / "docs" / RECORD
    found: dict[str, dict[str, Any]] = read_json(path) if path.exists() else {}
    for names, N, D, size in TASKS:
        for name in names if given.only in names[0] else ():
            count, batch = (N // 10, max(5, size // 10)) if given.quick else (N, size)
            result = measured(name, count, D, batch, given.repeats)
            print(key(name, count, D, batch), result, flush=True)
            found[key(name, N, D, size)] = result
            if not given.quick:
                write_json(path, found)
    if not given.quick:
        from benchmarks.rules import rewrite

        rewrite(path.parent / "benchmarks.md", section(path.parent))
        print("\n".join(section(path.parent)))


if __name__ == "__main__":
    main()
