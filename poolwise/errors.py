"""Every exception and warning that Poolwise raises on purpose.

Each message says what was expected, what came, and what to do. All input errors are also `ValueError`s, so code that
does not know Poolwise can catch them.
"""


class PoolwiseError(Exception):
    """Base class of all errors raised by Poolwise.

    Example:
        >>> import poolwise as pw
        >>> try:
        ...     pw.select([[[0.0]]], batch_size=5)
        ... except pw.errors.PoolwiseError as error:
        ...     print(type(error).__name__)
        BatchSizeError
    """


class InputError(PoolwiseError, ValueError):
    """Something that the caller passed in cannot be used. It is a `ValueError` too.

    Example:
        >>> issubclass(InputError, ValueError)
        True
    """


class ShapeError(InputError):
    """An array has the wrong rank or size.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> pw.select(np.zeros((3, 2)), batch_size=1)
        Traceback (most recent call last):
        ...
        poolwise.errors.ShapeError: ...
    """


class EmptyPoolError(InputError):
    """There is nothing to select from.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> pw.select(np.zeros((0, 2, 3)), batch_size=1)
        Traceback (most recent call last):
        ...
        poolwise.errors.EmptyPoolError: ...
    """


class NotFiniteError(InputError):
    """Predictions or embeddings contain NaN or an infinity that has no meaning.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> pw.Predictions.from_probs(np.full((3, 2, 2), np.nan))
        Traceback (most recent call last):
        ...
        poolwise.errors.NotFiniteError: ...
    """


class NotNormalisedError(InputError):
    """Probabilities do not sum to one over the classes, or are negative.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> pw.Predictions.from_probs(np.full((3, 2, 2), 0.7))
        Traceback (most recent call last):
        ...
        poolwise.errors.NotNormalisedError: ...
    """


class PositionError(InputError, IndexError):
    """A position is outside the pool, or a mask is not as long as the pool.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> pw.Predictions.from_probs(np.full((3, 2, 2), 0.5))[[7]]
        Traceback (most recent call last):
        ...
        poolwise.errors.PositionError: ...
    """


class NotEnoughMemoryError(PoolwiseError, MemoryError):
    """An array was asked for that does not fit the memory of this machine.

    Example:
        >>> issubclass(NotEnoughMemoryError, MemoryError)
        True
    """


class BatchSizeError(InputError):
    """The batch size is not a whole number between 1 and the number of points to choose from.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> pw.select(np.log(np.full((3, 2, 2), 0.5)), batch_size=4)
        Traceback (most recent call last):
        ...
        poolwise.errors.BatchSizeError: ...
    """


class UnknownMethodError(InputError):
    """There is no selection method of that name.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> pw.select(np.log(np.full((3, 2, 2), 0.5)), 1, "guess")
        Traceback (most recent call last):
        ...
        poolwise.errors.UnknownMethodError: ...
    """


class MethodError(PoolwiseError):
    """A selection method returned something that is not a valid batch.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> pw.select(np.log(np.full((3, 2, 2), 0.5)), 2, lambda task: [0, 0])
        Traceback (most recent call last):
        ...
        poolwise.errors.MethodError: ...
    """


class ContractError(PoolwiseError, AssertionError):
    """A method or posterior breaks a rule that all of them must keep: see `poolwise.testing`.

    Attributes:
        failures: what is wrong, by the name of the check.

    Example:
        >>> import poolwise as pw
        >>> try:
        ...     pw.testing.check_method(lambda task: range(task.batch_size))  # always the first ones
        ... except pw.errors.ContractError as error:
        ...     print(list(error.failures))
        ['pool_order']
    """

    def __init__(self, message: str, failures: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.failures = failures or {}


class ParameterError(InputError):
    """A parameter is unknown to the method, or has a value that it cannot use.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> pw.select(np.log(np.full((3, 2, 2), 0.5)), 1, "power-lbb", alpha="large")
        Traceback (most recent call last):
        ...
        poolwise.errors.ParameterError: ...
    """


class MissingInputError(InputError):
    """A method needs something that was not given, such as embeddings.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> pw.select(np.log(np.full((3, 2, 2), 0.5)), 1, "coreset")
        Traceback (most recent call last):
        ...
        poolwise.errors.MissingInputError: ...
    """


class LabelError(InputError):
    """A label, or the example it is meant for, is unknown, given twice or not asked for.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> pw.Pool(np.zeros((4, 2)), classes=3).label([0], [7])
        Traceback (most recent call last):
        ...
        poolwise.errors.LabelError: ...
    """


class TrainingError(PoolwiseError):
    """Training did not produce a usable network.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> posterior = pw.posteriors.DeepEnsemble(lambda: pw.models.linear((2,), classes=2), members=1)
        >>> posterior.fit((np.eye(2), [0, 5]))
        Traceback (most recent call last):
        ...
        poolwise.errors.TrainingError: ...
    """


class StateError(PoolwiseError):
    """What was asked for is not possible now, such as predictions before training.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> pw.posteriors.DeepEnsemble(lambda: pw.models.linear((2,), 2)).predict(np.eye(2))
        Traceback (most recent call last):
        ...
        poolwise.errors.StateError: ...
    """


class ConfigError(InputError):
    """The description of an experiment cannot be used.

    Example:
        >>> from pathlib import Path
        >>> from poolwise.experiments import read_config
        >>> _ = Path("wrong.toml").write_text("sedes = 3")
        >>> read_config(Path("wrong.toml"))
        Traceback (most recent call last):
        ...
        poolwise.errors.ConfigError: ...
    """


class FileError(InputError):
    """A file is missing, damaged, or not of a kind that can be read safely.

    Example:
        >>> import poolwise as pw
        >>> pw.Predictions.open("nowhere.npy")
        Traceback (most recent call last):
        ...
        poolwise.errors.FileError: ...
    """


class LockedError(StateError, FileError):
    """A folder is being written by another process, or by another object of this process.

    Example:
        >>> issubclass(LockedError, StateError), issubclass(LockedError, FileError)
        (True, True)
    """


class DataMismatchError(InputError):
    """The data differs from that of the saved learner.

    Example:
        >>> import numpy as np
        >>> import poolwise as pw
        >>> from sklearn.naive_bayes import GaussianNB
        >>> posterior, inputs = pw.posteriors.Committee(GaussianNB(), 2), np.arange(12.0).reshape(6, 2)
        >>> pw.ActiveLearner(posterior, pw.Pool(inputs, classes=2), directory="mine").close()
        >>> pw.ActiveLearner.load("mine", data=inputs[::-1])
        Traceback (most recent call last):
        ...
        poolwise.errors.DataMismatchError: ...
    """


class ClusterError(PoolwiseError):
    """Machines of a cluster do not answer, lack something, or have lost data.

    Example:
        >>> try:
        ...     raise ClusterError("no answer from 10.0.0.1:6379")
        ... except PoolwiseError as error:
        ...     print(error)
        no answer from 10.0.0.1:6379
    """


class UserCodeError(PoolwiseError):
    """Code that is not part of Poolwise raised an exception: a method, posterior, network or reader of your own.

    Example:
        >>> try:
        ...     raise UserCodeError("ZeroDivisionError: division by zero; in rules:mine, rules.py, line 3")
        ... except PoolwiseError as error:
        ...     print(error)
        ZeroDivisionError: division by zero; in rules:mine, rules.py, line 3
    """


class CostWarning(UserWarning):
    """The selection will take long, and something that was asked for is the reason.

    Example:
        >>> import warnings
        >>> import poolwise as pw
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", pw.CostWarning)  # to be stopped before the work begins
    """


class LayoutWarning(UserWarning):
    """The axes of the predictions are probably in another order than `layout` says.

    Example:
        >>> import warnings
        >>> import numpy as np
        >>> import poolwise as pw
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     predictions = pw.Predictions.from_probs(np.full((5, 3000, 2), 0.5))  # samples first
        >>> caught[0].category.__name__
        'LayoutWarning'
    """


class PluginWarning(UserWarning):
    """A method that an installed package offers cannot be used.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", PluginWarning)  # to be stopped by a package that is broken
        ...     import poolwise
    """


class PrefilterWarning(UserWarning):
    """Points that a prefilter left out could have made the batch better.

    Example:
        >>> import warnings
        >>> import numpy as np
        >>> import poolwise as pw
        >>> predictions = pw.Predictions.from_logits(np.random.default_rng(0).normal(size=(50, 4, 3)))
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", pw.PrefilterWarning)
        ...     batch = pw.select(predictions, 5, "lbb", candidates="sample:10")
        >>> batch.diagnostics.prefilter.left_out
        40
    """


class SaturationWarning(UserWarning):
    """The batch ran out of information before it was full.

    Example:
        >>> import warnings
        >>> import numpy as np
        >>> import poolwise as pw
        >>> same = np.log(np.full((5, 4, 3), 1 / 3))  # four samples that agree: no label tells anything
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     batch = pw.select(same, 2, "bald")
        >>> caught[0].category.__name__, batch.diagnostics.saturated_at
        ('SaturationWarning', 0)
    """


class FeaturesWarning(UserWarning):
    """There were no features to select the first batch by, so it was drawn at random.

    Example:
        >>> import warnings
        >>> import poolwise as pw
        >>> from sklearn.naive_bayes import MultinomialNB
        >>> texts = pw.Pool(["good", "bad", "fine"], classes=2)
        >>> learner = pw.ActiveLearner(pw.posteriors.Committee(MultinomialNB()), texts, first="coreset")
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     query = learner.query(2)
        >>> caught[0].category.__name__, query.origin
        ('FeaturesWarning', 'random')
    """


class DataWarning(UserWarning):
    """Data was read in the way that was asked for, but another way is more likely to be right.

    Example:
        >>> import warnings
        >>> from pathlib import Path
        >>> import poolwise as pw
        >>> _ = Path("texts.csv").write_text("text\\ncafé", encoding="utf-8")
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     data = pw.data.open_data("texts.csv", encoding="cp1252")
        >>> caught[0].category.__name__
        'DataWarning'
    """
