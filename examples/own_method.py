"""A selection method of your own: as a function, under a name, checked, and compared with others."""

import numpy as np

import poolwise as pw
from poolwise.testing import check_method


@pw.method("rare-class", formula="top b of p̄(class) · (1 - margin)")
def rare_class(task, *, target: int = 0):
    """Undecided points that may belong to one class.

    Args:
        target: the number of the class you need more of.
    """

    def score(block):
        mean = block.probs.mean(1)
        first, second = mean.topk(2, 1).values.T
        return mean[:, target] * (1 - (first - second))

    return task.scores(score)


check_method("rare-class")  # the tests that the built-in methods pass

rng = np.random.default_rng(0)
logits = 2 * rng.normal(size=(1000, 1, 5)) + rng.normal(size=(1000, 10, 5))
logits[:, :, 3] -= 3  # class 3 is rare
predictions = pw.Predictions.from_logits(logits)
mean = np.exp(predictions.rows(np.arange(1000)).log_probs.numpy()).mean(1)
for method, parameters in {"random": {}, "margin": {}, "rare-class": {"target": 3}}.items():
    picks = pw.select(predictions, 30, method, **parameters).indices
    print(f"{method:12} expects {mean[picks, 3].sum():.1f} examples of class 3 among 30")
