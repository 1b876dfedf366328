"""The posteriors of this package in the catalogue, as experiment files take them."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from torch import nn

from poolwise.posteriors.ensembles import DeepEnsemble, DropoutEnsemble
from poolwise.posteriors.mc_dropout import MCDropout
from poolwise.posteriors.nearest_neighbour import NearestNeighbour
from poolwise.posteriors.protocol import Posterior
from poolwise.posteriors.registry import Cost, register
from poolwise.training import Training

_HELP = {
    "members": "How many networks, or classifiers of a committee.",
    "samples": "How many dropout masks of each network.",
    "warm_start": "Whether a round's training continues from the weights of the round before.",
    "train_members": "How members are trained: sequential, processes, vectorised or auto.",
    "outputs": "What networks return: logits, probs, log-probs, or auto for logits, with a check.",
    "device": "Where networks run: auto, cpu, cuda:0, ...",
    "neighbours": "How many of the nearest labelled points of a class count.",
    "temperature": "The distance between features that divides probabilities by e.",
    "classifier": "The classifiers of a committee: logistic-regression or random-forest.",
}

register(
    "deep-ensemble",
    summary="Networks that were trained from different initial weights.",
    paper="Lakshminarayanan et al. 2017",
    parameters=_HELP,
    cost=lambda members, **_: Cost(members, members),
)(DeepEnsemble)


@register(
    "nearest-neighbour",
    summary="A deep ensemble whose networks predict by their nearest labelled points, in place of softmax.",
    paper="Wan et al. 2021",
    parameters=_HELP,
    cost=lambda members, **_: Cost(members, members),
)
def nearest_neighbour(
    make_model: Callable[[], nn.Module],
    training: Training,
    threads: int,
    *,
    members: int = 5,
    neighbours: int = 1,
    temperature: float = 1.0,
    warm_start: bool = False,
    device: str = "auto",
) -> Posterior:
    """A deep ensemble that predicts by nearest neighbours."""
    networks = DeepEnsemble(
        make_model, members, training=training, threads=threads, warm_start=warm_start, device=device
    )
    return NearestNeighbour(networks, neighbours, temperature)


register(
    "mc-dropout",
    summary="Dropout masks of one network.",
    paper="Gal & Ghahramani 2016",
    parameters=_HELP,
    cost=lambda samples, **_: Cost(1, samples),
)(partial(MCDropout, samples=20))

register(
    "dropout-ensemble",
    summary="Dropout masks of several networks.",
    parameters=_HELP,
    cost=lambda members, samples, **_: Cost(members, members * samples),
)(DropoutEnsemble)


@register(
    "committee",
    summary="Classifiers of scikit-learn, each fitted on its own bootstrap sample, or the trees of a forest.",
    paper="Seung et al. 1992",
    parameters=_HELP,
    cost=lambda **_: Cost(0, 0),
)
def committee(
    classes: int,
    texts: bool,
    *,
    members: int = 5,
    classifier: Literal["logistic-regression", "random-forest"] = "logistic-regression",
) -> Posterior:
    """A committee; texts are counted by words first."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    from poolwise.posteriors.committee import Committee

    chosen: Any = RandomForestClassifier() if classifier == "random-forest" else LogisticRegression(max_iter=1000)
    model = make_pipeline(TfidfVectorizer(sublinear_tf=True), chosen) if texts else chosen
    return Committee(model, members, classes=classes)
