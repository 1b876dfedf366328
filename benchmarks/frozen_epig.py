"""EPIG as it was before it had bounds: every point is scored against every target. A contender, never changed."""

import numpy as np
import torch
from torch import Tensor

import poolwise as pw
from poolwise.seeding import stream

_BLOCK = 1 << 18
_ALMOST_MINUS_ONE = -1 + 2**-23  # float32


def select(log_probs_N_K_C: Tensor, batch_size: int, sample: int = 500, seed: int = 0) -> list[int]:
    """The picks, from float32 log-probabilities in memory."""
    pool = pw.Predictions.from_log_probs(log_probs_N_K_C, validate=False)
    N = len(pool)
    drawn = np.sort(stream(seed, "targets").choice(N, min(sample, N), replace=False))
    targets = _deviations(pool.rows(drawn).probs)
    scores_N = np.empty(N)
    with torch.no_grad():
        for rows, scores_n in pool.scan(lambda block: _scores(_deviations(block.probs), targets)):
            scores_N[rows] = scores_n.numpy()
    return [int(i) for i in np.argsort(-scores_N, kind="stable")[:batch_size]]


def _deviations(probs_n_K_C: Tensor) -> tuple[Tensor, Tensor]:
    means_n_C = probs_n_K_C.sum(1).div_(probs_n_K_C.shape[1])
    return (probs_n_K_C / means_n_C.clamp_min(torch.finfo(means_n_C.dtype).tiny)[:, None]).sub_(1), means_n_C


def _scores(points: tuple[Tensor, Tensor], targets: tuple[Tensor, Tensor]) -> Tensor:
    n, (r, _, C) = len(points[1]), targets[0].shape
    total_n = torch.zeros(n, dtype=torch.float64)
    step_r = max(1, min(r, 64))
    step_n = max(1, min(n, _BLOCK // (step_r * C * C)))
    for i in range(0, n, step_n):
        for j in range(0, r, step_r):
            some = [x[i : i + step_n] for x in points], [x[j : j + step_r] for x in targets]
            total_n[i : i + step_n] += _pairs(*some).double().sum(1)
    return total_n / r


def _pairs(a: list[Tensor], b: list[Tensor]) -> Tensor:
    n, K, C = a[0].shape
    r = len(b[0])
    rows_rC_K = b[0].transpose(1, 2).reshape(r * C, K)
    columns_K_nC = a[0].transpose(0, 1).reshape(K, n * C)
    delta = torch.mm(rows_rC_K, columns_K_nC).div_(K)
    logs = delta.clamp_min(_ALMOST_MINUS_ONE).log1p_()
    phi_r_C_nC = torch.addcmul(logs, delta, logs, out=logs).sub_(delta).view(r, C, n * C)
    over_b_r_n_C = torch.bmm(b[1][:, None, :], phi_r_C_nC).view(r, n, C)
    return over_b_r_n_C.mul_(a[1]).sum(2).clamp_min_(0.0).T
