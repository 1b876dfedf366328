"""Uncertainty of the averaged prediction; larger is more uncertain."""

from torch import Tensor

from poolwise.information.entropies import mean_prediction


def least_confidence(probs_N_K_C: Tensor) -> Tensor:
    """`[N]` one minus the probability of the most likely class."""
    return 1 - mean_prediction(probs_N_K_C).amax(1)


def margin(probs_N_K_C: Tensor) -> Tensor:
    """`[N]` one minus the lead of the most likely class over the second; a single class leads by everything."""
    mean_N_C = mean_prediction(probs_N_K_C)
    if mean_N_C.shape[1] == 1:
        return mean_N_C.new_zeros(len(mean_N_C))
    first_two_N_2 = mean_N_C.topk(2, dim=1).values
    return 1 - (first_two_N_2[:, 0] - first_two_N_2[:, 1])
