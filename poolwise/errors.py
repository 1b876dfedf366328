"""Every exception and warning that Poolwise raises on purpose.

Each message says what was expected, what came, and what to do about it. All input errors are also `ValueError`s,
so code that does not know Poolwise can catch them.
"""


class PoolwiseError(Exception):
    """Base class of all errors raised by Poolwise."""


class InputError(PoolwiseError, ValueError):
    """Something that the caller passed in cannot be used."""


class ShapeError(InputError):
    """An array has the wrong rank or size."""


class EmptyPoolError(InputError):
    """There is nothing to select from."""


class NotFiniteError(InputError):
    """Predictions or embeddings contain NaN or an infinity that has no meaning."""


class NotNormalisedError(InputError):
    """Probabilities do not sum to one over the classes, or are negative."""


class PositionError(InputError, IndexError):
    """A position is outside the pool, or a mask is not as long as the pool."""


class NotEnoughMemoryError(PoolwiseError, MemoryError):
    """An array was asked for that does not fit the memory of this machine."""


class BatchSizeError(InputError):
    """The batch size is not a whole number between 1 and the number of points to choose from."""


class UnknownMethodError(InputError):
    """There is no selection method of that name."""


class MethodError(PoolwiseError):
    """A selection method returned something that is not a valid batch."""


class ContractError(PoolwiseError, AssertionError):
    """A method or posterior does not do what every one of them must: see `poolwise.testing`.

    Attributes:
        failures: what is wrong, by the name of the check.
    """

    def __init__(self, message: str, failures: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.failures = failures or {}


class ParameterError(InputError):
    """A parameter is unknown to the method, or has a value that it cannot use."""


class MissingInputError(InputError):
    """A method needs something that was not given, such as embeddings."""


class LabelError(InputError):
    """A label, or the example it is meant for, is unknown, given twice or not asked for."""


class TrainingError(PoolwiseError):
    """Training did not lead to a usable network."""


class StateError(PoolwiseError):
    """Something was asked for that is not possible now, such as predictions before training."""


class ConfigError(InputError):
    """The description of an experiment cannot be used."""


class FileError(InputError):
    """A file is missing, damaged, or not of a kind that can be read safely."""


class ClusterError(PoolwiseError):
    """The machines that share the work do not answer, lack something, or have lost what they held."""


class LayoutWarning(UserWarning):
    """The axes of predictions look as if they were in another order than `layout` says."""


class PluginWarning(UserWarning):
    """A method that an installed package offers cannot be used."""


class PrefilterWarning(UserWarning):
    """Points that a prefilter left out could have made the batch better."""


class SaturationWarning(UserWarning):
    """The batch ran out of information before it was full."""
