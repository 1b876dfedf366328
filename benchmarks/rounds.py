"""Where the time of one round goes: train, predict, select, on Fashion-MNIST as in the paper.

    POOLWISE_DATA=... .venv/bin/python -m benchmarks.rounds [--quick]

An ensemble of five BatchBALD CNNs is trained on 120 labels and predicts the other 59,880 images, from which 100 are
selected; then one network with 100 dropout masks does. Writes docs/round.json, which `make bench` (or
`python -m benchmarks.run --report`) puts on the page of benchmarks.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import poolwise as pw
from benchmarks.machine import describe
from benchmarks.training import best, cnn, naive
from poolwise.data import load
from poolwise.data.examples import TensorExamples
from poolwise.posteriors import DeepEnsemble, MCDropout
from poolwise.posteriors.posterior import Posterior
from poolwise.storage import read_json, write_json
from poolwise.training import Training

RECORD = "round.json"
METHODS = ("lbb", "power-lbb", "posterior-coverage", "bald", "badge")
BATCH, LABELS, TARGET_SHARE, TARGET_RATIO = 100, 120, 0.05, 3.0
_DOCS = Path(__file__).resolve().parents[1] / "docs"


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came of it."""
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def round_of(posterior: Posterior, labelled: TensorExamples, pool: TensorExamples) -> dict[str, Any]:
    """Seconds of each stage; selection by several methods from the same predictions, best of three."""
    train, _ = timed(lambda: posterior.fit(labelled, seed=0))
    predict, predictions = timed(lambda: posterior.predict(pool, embeddings=True))
    select = {}
    for method in METHODS:
        select[method] = best(lambda method=method: pw.select(predictions, BATCH, method, seed=0))  # type: ignore[misc]
    return {"train": train, "predict": predict, "select": select}


def masks(pool: TensorExamples, count: int) -> dict[str, float]:
    """Seconds to predict some images: a loop of 100 full passes, and ours with 100 masks."""
    part = pool.take(np.arange(count))
    posterior = MCDropout(cnn, 100, training=Training(steps=20))
    posterior.fit(part.take(np.arange(LABELS)), seed=0)
    loop, _ = timed(lambda: naive(posterior.networks[0], part.batch(np.arange(count)), 100))
    ours, _ = timed(lambda: posterior.predict(part))
    return {"images": count, "loop": loop, "ours": ours}


def section(folder: Path) -> list[str]:
    """Lines of the page, or none if nothing was measured."""
    path = folder / RECORD
    if not path.exists():
        return []
    found = read_json(path)
    lines = [
        "## A whole round",
        "",
        f"{found['pool']:,} images of Fashion-MNIST, BatchBALD CNN, {found['steps']} steps on {LABELS} labels, batches "
        f"of {BATCH}, all threads; made by `python -m benchmarks.rounds` on {found['machine']['processor']}, "
        f"{found['machine']['cores']} cores. The share is that of selection in the whole round.",
        "",
        "| posterior | train | predict | select by | seconds | share |",
        "| --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for name, stages in found["rounds"].items():
        for method, seconds in stages["select"].items():
            whole = stages["train"] + stages["predict"] + seconds
            lines.append(
                f"| {name} | {stages['train']:.1f} s | {stages['predict']:.1f} s | `{method}` | {seconds:.2f} | "
                f"{seconds / whole:.1%} |"
            )
    ratio = found["masks"]["loop"] / found["masks"]["ours"]
    lines += [
        "",
        f"Prediction with 100 dropout masks: {found['masks']['ours']:.1f} s for {found['masks']['images']:,} images, "
        f"1/{ratio:.1f} of a loop of 100 full passes ({found['masks']['loop']:.1f} s).",
        "",
        f"Targets: selection below {TARGET_SHARE:.0%} of a round of the ensemble for lbb and power-lbb: "
        f"{'reached' if _share_reached(found) else '**missed**'}; masks at least {TARGET_RATIO:.0f}× the loop: "
        f"{'reached' if ratio >= TARGET_RATIO else '**missed**'}.",
        "",
    ]
    return lines


def _share_reached(found: dict[str, Any]) -> bool:
    stages = found["rounds"]["ensemble of 5"]
    rest = stages["train"] + stages["predict"]
    return all(stages["select"][m] / (rest + stages["select"][m]) < TARGET_SHARE for m in ("lbb", "power-lbb"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2,000 images and 10 steps, written to the screen only")
    quick = parser.parse_args().quick
    steps, size = (10, 2_000) if quick else (150, 60_000)
    train = load("fashion-mnist").train
    assert isinstance(train, TensorExamples)
    order = np.random.default_rng(0).permutation(len(train))[:size]
    labelled, pool = train.take(np.sort(order[:LABELS])), train.take(np.sort(order[LABELS:]))
    training = Training(steps=steps)
    posteriors = {
        "ensemble of 5": DeepEnsemble(cnn, 5, training=training),
        "dropout, K = 100": MCDropout(cnn, 100, training=training),
    }
    record = {
        "machine": describe(),
        "pool": len(pool),
        "steps": steps,
        "rounds": {name: round_of(posterior, labelled, pool) for name, posterior in posteriors.items()},
        "masks": masks(pool, 500 if quick else 3_000),
    }
    if quick:
        print(record)
    else:
        write_json(_DOCS / RECORD, record)
        print("\n".join(section(_DOCS)))


if __name__ == "__main__":
    main()
