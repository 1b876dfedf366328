"""A selection method of your own: as a function, under a name, checked, and compared with others."""

import numpy as np

import poolwise as pw
from poolwise.testing import check_method


@pw.method("rare-class", formula="top b of p̄_i(target) · (1 - max_c p̄_i(c))")
def rare_class(task, *, target: int = 0):
    """Uncertain points that may belong to one class.

    Args:
        target: the number of the class you need more of.
    """

    def score(block):
        mean = block.probs.mean(1)
        return mean[:, target] * (1 - mean.amax(1))

    return task.scores(score)


# The tests that the built-in methods pass. One rule is not meant to hold here: that all classes count alike.
check_method("rare-class", skip=["class_order"])

rng = np.random.default_rng(0)
logits = 2 * rng.normal(size=(1000, 1, 5)) + rng.normal(size=(1000, 10, 5))
logits[:, :, 3] -= 3  # class 3 is rare
predictions = pw.Predictions.from_logits(logits)
mean = np.exp(predictions.rows(np.arange(1000)).log_probs.numpy()).mean(1)
for method, parameters in {"random": {}, "margin": {}, "rare-class": {"target": 3}}.items():
    picks = pw.select(predictions, 30, method, **parameters).indices
    print(f"{method:12} expects {mean[picks, 3].sum():.1f} examples of class 3 among 30")
