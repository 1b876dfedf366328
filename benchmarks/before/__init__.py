"""The LBB engine of version 0.1, frozen: the contender that "faster than before" is measured against.

See `python -m benchmarks.lbb`. Nothing here is maintained. Only imports were changed. `lbb` and `power_lbb` are the
methods with their defaults.
"""

from benchmarks.before.power_sampling import sample_by_power
from benchmarks.before.redundancy import PairwiseRedundancy
from poolwise.selection.saturation import information_tolerance
from poolwise.selection.task import Picks, Task


def lbb(task: Task) -> Picks:
    """Large BatchBALD."""
    objective = PairwiseRedundancy(task, "normalised", "unordered")
    return objective.pick("lazy", information_tolerance(task.predictions.shape[1]))


def power_lbb(task: Task) -> Picks:
    """Power Large BatchBALD."""
    return sample_by_power(
        PairwiseRedundancy(task, "normalised", "unordered"),
        task.batch_size,
        1.0,
        task.generator("race"),
        tolerance=information_tolerance(task.predictions.shape[1]),
        report=task.report,
    )
