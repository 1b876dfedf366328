"""Rounds in TensorBoard (pip install tensorboard) or MLflow (pip install mlflow): what a learner reports, logged.

python examples/log_rounds.py [tensorboard | mlflow]      # then: tensorboard --logdir runs, or mlflow ui
"""

import sys

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import poolwise as pw

digits = load_digits()
inputs, labels = digits.data / 16, digits.target
learner = pw.ActiveLearner(
    pw.posteriors.Committee(LogisticRegression(max_iter=300), members=5),
    pw.Pool(inputs[:1000], classes=10),
    batch_size=20,
    seed=0,
    test=(inputs[1000:], labels[1000:]),
)


def numbers(entry):
    """What a round reports, as numbers by name."""
    found = {"labels": entry.labelled, "seconds": sum(entry.seconds.values())}
    return found | {f"test/{name}": value for name, value in (entry.metrics or {}).items()}


tool = sys.argv[1] if len(sys.argv) > 1 else "tensorboard"
if tool == "tensorboard":
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter("runs/digits") as writer:
        for entry in pw.simulate(learner, labels[:1000], budget=60):
            for name, value in numbers(entry).items():
                writer.add_scalar(name, value, entry.labelled)  # by labels, not by rounds
            print(entry.labelled, "labels logged")
else:
    import mlflow

    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    with mlflow.start_run(run_name="digits"):
        mlflow.log_params({"method": learner.method, "batch_size": 20})
        for entry in pw.simulate(learner, labels[:1000], budget=60):
            mlflow.log_metrics(numbers(entry), step=entry.labelled)
            print(entry.labelled, "labels logged")
