"""MaxHerding: points that are near to as much of the pool as possible (Bae et al. 2024).

The coverage is that of `uherding` with every point counted alike: `Σ_j max_{i∈S∪L} k(x_i, x_j)` over the pool, with a
Gaussian kernel on features of length one. It looks at no prediction, so it can choose the first batch of all.
"""

from poolwise.selection.herding import SAMPLE_HELP, herd
from poolwise.selection.objective import EVALUATION_HELP, Evaluation
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task


@method(
    "max-herding",
    summary="Points near to as much of the pool as possible: coverage of the features, without predictions.",
    formula="greedy max of Σ_j max_{i∈S∪L} exp(-|x_i - x_j|² / σ²), x of length one",
    paper="Bae, Noh, Sutherland: Generalized Coverage for More Robust Low-Budget Active Learning, ECCV 2024",
    parameters={
        "bandwidth": "The width σ of the kernel. Two features of length one are at most 2 apart.",
        "sample": SAMPLE_HELP,
        "evaluation": EVALUATION_HELP,
    },
    needs=("embeddings", "labelled_embeddings"),
)
def max_herding(
    task: Task, *, bandwidth: float = 1.0, sample: int | None = None, evaluation: Evaluation = "lazy"
) -> Picks:
    """Select greedily; points that cover equally much are taken in the order of the pool."""
    return herd(task, "max-herding", bandwidth, None, sample, evaluation)
