"""Where the exact batch of `posterior-coverage` first differs from that of version 0.1, and by how much.

    POOLWISE_DATA=... python -m benchmarks.coverage_difference [--quick] [--only fashion|synthetic]

The gains of the two points are computed by the formula, in double precision, from the features of version 0.1 and of
today, which are rounded to float32, and from features that are not.
"""

import numpy as np
import torch
from torch import Tensor

import poolwise as pw
from benchmarks import coverage_before
from benchmarks.coverage_sample import asked
from poolwise.selection.posterior_coverage import _correlations


def features(x: Tensor) -> dict[str, Tensor]:
    """`[N, F]` centred predictions of length one, as three programs see them."""
    predictions, everything = pw.Predictions.from_log_probs(x), np.arange(len(x))
    rounded, exact = (probs - probs.mean(1, keepdim=True) for probs in (x.exp().float(), x.double().exp()))
    today = _correlations(predictions, everything, 1 << 60).part(0, len(x))
    return {"version 0.1": unit(rounded), "today": today.double(), "not rounded": unit(exact)}


def unit(centred_N_K_C: Tensor) -> Tensor:
    """Rows of length one, in double precision; zero where the samples agree."""
    rows = centred_N_K_C.flatten(1)
    lengths = rows.norm(dim=1, keepdim=True)
    return torch.where(lengths > 1e-6, rows / lengths.clamp_min(1e-6), 0.0).double()


def coverage(rows: Tensor, picks: np.ndarray) -> Tensor:
    """`[N]` how far each point is covered."""
    covered = torch.zeros(len(rows), dtype=rows.dtype)
    for start in range(0, len(picks), 256):
        some = rows[torch.from_numpy(picks[start : start + 256])]
        covered = torch.maximum(covered, (rows @ some.T).amax(1))
    return covered


def main() -> None:
    n, pools = asked(__doc__)
    for title, make in pools:
        x = make(n)
        before = pw.select(x, n // 10, coverage_before.before, information=False).indices
        now = pw.select(x, n // 10, "posterior-coverage", sample="all", information=False).indices
        differ = np.flatnonzero(before != now)
        print(f"{title}, {n // 10:,} of {n:,}: {len(differ):,} picks differ in their place")
        if not len(differ):
            continue
        first, weights = int(differ[0]), torch.from_numpy(pw.scores.margin(pw.Predictions.from_log_probs(x))).double()
        for label, rows in features(x).items():
            covered = coverage(rows, now[:first])
            gains = [float((rows @ rows[i] - covered).clamp_min(0) @ weights) for i in (before[first], now[first])]
            print(f"  pick {first + 1}, features {label}: gain of v0.1's {gains[0]:.9f}, of today's {gains[1]:.9f}")
        total = [float(coverage(rows, picks) @ weights) for picks in (before, now)]
        print(f"  coverage by all picks: v0.1 {total[0]:.5f}, today {total[1]:.5f}")


if __name__ == "__main__":
    main()
