"""What a selection over Ray moves: bytes and tasks against the size of the pool, of the batch, and the shards.

    python -m benchmarks.traffic [--sizes 4000 16000 64000 256000] [--batches 50 200 800] [--shards 1 2 5 10 20]

Prints tables, the model fitted to them, and what the model says of a billion points on a hundred machines. Bytes and
tasks are counts: they do not depend on how busy the machine is. Predictions are synthetic.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

import poolwise as pw
from poolwise import cluster

K, C = 10, 10


def predictions(N: int, seed: int = 0) -> np.ndarray:
    """`[N, K, C]` float16 log-probabilities: most points are easy, and the samples differ a little."""
    draw = np.random.default_rng(seed)
    hardness = draw.gamma(0.5, 1.0, (N, 1, 1))
    logits = np.zeros((N, K, C), np.float32)
    logits[np.arange(N), :, draw.integers(0, C, N)] += 6.0
    logits += hardness * (draw.normal(size=(N, 1, C)) + draw.normal(size=(N, K, C)))
    logits -= np.log(np.exp(logits).sum(2, keepdims=True))
    return logits.astype(np.float16)


def measure(N: int, shards: int, batch: int, method: str) -> dict[str, float]:
    held = cluster.put(predictions(N), shards)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pw.SaturationWarning)
        traffic = pw.select(held, batch, method, information=False).diagnostics.traffic
    assert traffic is not None
    picking = traffic.tasks - shards
    return {
        "N": N,
        "batch": batch,
        "shards": shards,
        "scores": traffic.scores,
        "rows": traffic.rows / batch,
        "bytes": traffic.fetched / batch,
        "tasks": picking / batch,
    }


def loopback() -> int:
    """Bytes that this machine has sent to itself."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split()[9])
    return 0


def envelope(tasks: int = 400) -> float:
    """Bytes that Ray itself sends for a task that reads one row, as far as they go over the network."""
    held = cluster.put(predictions(tasks), 1)
    held.rows(np.array([0]))
    before = loopback()
    for i in range(1, tasks):
        held.rows(np.array([i]))
    return (loopback() - before) / (tasks - 1)


def fit(table: list[dict[str, float]]) -> tuple[float, float, float]:
    """Rows of a whole selection as `a · N^p · b^q`, by least squares of the logarithms."""
    logs = np.log([[row["N"], row["batch"], row["rows"] * row["batch"]] for row in table])
    (constant, p, q), *_ = np.linalg.lstsq(np.column_stack([np.ones(len(logs)), logs[:, :2]]), logs[:, 2])
    return float(np.exp(constant)), float(p), float(q)


def show(table: list[dict[str, float]]) -> None:
    print("| N | b | shards | bytes of scores | rows a pick | bytes a pick | tasks a pick |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in table:
        print(
            f"| {row['N']:,} | {row['batch']} | {row['shards']} | {row['scores']:,} | {row['rows']:.1f} | "
            f"{row['bytes']:,.0f} | {row['tasks']:.2f} |"
        )
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4_000, 16_000, 64_000, 256_000])
    parser.add_argument("--batches", type=int, nargs="+", default=[50, 200, 800])
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 5, 10, 20])
    parser.add_argument("--method", default="lbb")
    options = parser.parse_args()
    some, middle = options.shards[len(options.shards) // 2], options.sizes[len(options.sizes) // 2]
    with cluster.connect("local", memory=300 << 20):
        sizes = [measure(N, some, batch, options.method) for N in options.sizes for batch in options.batches]
        spread = [measure(middle, shards, options.batches[0], options.method) for shards in options.shards]
        own = envelope()
    print(f"{options.method}, K = {K}, C = {C}, float16\n")
    show(sizes)
    show(spread)
    (a, p, q), stored = fit(sizes), 2 * K * C
    scores = np.mean([row["scores"] / row["N"] for row in sizes])
    print(
        f"model: {scores:.1f} · N bytes of scores; {a:.3g} · N^{p:.2f} · b^{q:.2f} rows in all, of {stored} bytes each;"
    )
    print(f"at most as many tasks a fetch as shards; Ray's own messages, {own:,.0f} bytes a task on this machine\n")
    N, nodes, B = 10**9, 100, 1000
    last = sizes[-1]
    linear = last["rows"] * last["batch"] / last["N"] * N * (B / last["batch"]) ** q
    print(f"extrapolation, not measured: N = {N:.0e} on {nodes} machines, b = {B}:")
    print(f"{scores * N / 1e9:.1f} GB of scores once, {scores * N / nodes / 1e6:.0f} MB from each machine;")
    for name, rows in (("by the model", a * N**p * B**q), ("if rows grow like N from the largest pool on", linear)):
        print(
            f"{name}: {rows / B:,.0f} rows a pick, {rows * stored / B / 1e6:.1f} MB a pick, "
            f"{rows * stored / 1e9:.1f} GB in all"
        )


if __name__ == "__main__":
    main()
