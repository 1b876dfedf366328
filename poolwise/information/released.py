"""The score that the program released with the paper computes, which is not the printed formula.

A point is scored once, against a reference set R: `I_i + Σ_c a_ic (ln(1 + a_ic) - ln(1 + e_ic))` with
`a_ic = Σ_{j∈R, j≠i} mean_k p_ik(c) p_jk(c)` and `e_ic = Σ_{j∈R, j≠i} p̄_i(c) p̄_j(c)`. `a` is how often the point and the
reference points agree on a class under the same posterior sample; `e` is how often they would by chance. So the second
term is a bonus for representative points, close in spirit to EPIG. Both sums need only `Σ_j p_jk(c)`, so the cost is
linear.
"""

from torch import Tensor

from poolwise.information.entropies import bald


def released_score(log_probs_n_K_C: Tensor, probs_n_K_C: Tensor, total_K_C: Tensor, member_n: Tensor) -> Tensor:
    """`[n]` float64 scores.

    Args:
        log_probs_n_K_C: `[n, K, C]` log-probabilities.
        probs_n_K_C: `[n, K, C]` probabilities.
        total_K_C: `[K, C]` probabilities summed over the reference points, float64.
        member_n: `[n]` 1.0 for a point that is itself among the reference points, to leave it out, else 0.0.
    """
    probs_n_K_C = probs_n_K_C.double()
    others_n_K_C = total_K_C - probs_n_K_C * member_n.double()[:, None, None]
    agreement_n_C = (probs_n_K_C * others_n_K_C).mean(1)
    chance_n_C = probs_n_K_C.mean(1) * others_n_K_C.mean(1)
    bonus_n_C = agreement_n_C * ((agreement_n_C - chance_n_C) / (1 + chance_n_C)).log1p()
    return bald(log_probs_n_K_C, probs_n_K_C.to(log_probs_n_K_C.dtype)).double() + bonus_n_C.sum(1)
