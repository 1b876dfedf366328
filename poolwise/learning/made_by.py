"""What made a batch: the encoder of the data, the model and the method."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from poolwise.data.examples import EncodedBy


@dataclass(frozen=True)
class MadeBy:
    """What made a batch.

    Attributes:
        method: the `reference` of the method that selected it; `"random"` for a batch that was drawn.
        posterior: the kind of posterior, such as `"DeepEnsemble"`; None for a batch without a model.
        model: the number of the trained model, from 1; 0 for none.
        classes: how many classes there were.
        encoder: the encoder that made the data's inputs, or None.
        encoder_fingerprint: the hash of that encoder, where it is known.
        features: the features that the learner was told to use (`features=`), in words, or None.

    Example:
        >>> MadeBy("margin", "DeepEnsemble", 3, 10).as_dict()["model"]
        3
    """

    method: str
    posterior: str | None = None
    model: int = 0
    classes: int = 0
    encoder: str | None = None
    encoder_fingerprint: str | None = None
    features: str | None = None

    @classmethod
    def of(
        cls, method: str, posterior: object, model: int, classes: int, encoder: EncodedBy | None, features: str | None
    ) -> Self:
        """The record of a batch; without a model, `posterior` is None."""
        kind = None if posterior is None else type(posterior).__name__
        name, fingerprint = (None, None) if encoder is None else encoder
        return cls(method, kind, model, classes, name, fingerprint, features)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any] | None) -> Self | None:
        """The record that `as_dict` was made of; None of None."""
        return None if values is None else cls(**values)
