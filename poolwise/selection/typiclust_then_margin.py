"""TCM: TypiClust while there are few labels, margin afterwards (Doucet, Estermann, Aczel and Wattenhofer 2024)."""

from poolwise.errors import ParameterError
from poolwise.selection.margin import margin
from poolwise.selection.registry import method
from poolwise.selection.task import Picks, Task
from poolwise.selection.typiclust import typiclust


@method(
    "typiclust-then-margin",
    summary="TypiClust while there are few labels, margin afterwards.",
    formula="typiclust if |L| < per_class * C, else margin",
    paper="Doucet, Estermann, Aczel, Wattenhofer: Bridging Diversity and Uncertainty in Active Learning with "
    "Self-Supervised Pre-Training, 2024 (TCM)",
    needs=("predictions", "embeddings", "labelled_embeddings"),
    parameters={
        "per_class": "From this many labels per class on, select by margin.",
        "clusters": "As in typiclust.",
        "neighbours": "As in typiclust.",
    },
    stochastic=True,
)
def typiclust_then_margin(task: Task, *, per_class: int = 5, clusters: int = 500, neighbours: int = 20) -> Picks:
    """Select; the score of a pick is its typicality, or one minus its margin.

    The authors change after a few rounds, which depends on the size of a batch. Labels per class do not.
    """
    if min(per_class, clusters, neighbours) < 1:
        raise ParameterError("typiclust-then-margin: per_class, clusters and neighbours must each be at least 1.")
    if len(task.labelled_embeddings) < per_class * task.predictions.shape[2]:
        return typiclust(task, clusters=clusters, neighbours=neighbours)
    return margin(task)
