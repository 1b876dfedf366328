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


class BatchSizeError(InputError):
    """The batch size is not a whole number between 1 and the number of points to choose from."""


class UnknownMethodError(InputError):
    """There is no selection method of that name."""


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


class PrefilterWarning(UserWarning):
    """Points that a prefilter left out could have made the batch better."""


class SaturationWarning(UserWarning):
    """The batch ran out of information before it was full."""


class DataWarning(UserWarning):
    """Data was read in the way that was asked for, but another way is more likely to be right."""
