"""The configuration of an experiment: one TOML file that says everything about its runs."""

import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    model_validator,
)

from poolwise import budget
from poolwise.data.tokens import MAX_LENGTH
from poolwise.learning.features import check_features
from poolwise.learning.settings import first_method
from poolwise.models.transformer import CHECKPOINT
from poolwise.posteriors import registry as posteriors
from poolwise.selection import registry
from poolwise.training_settings import Training, renamed_settings

# More seeds or threads than anybody uses; a number above is a slip that would only fill the memory.
_MOST_SEEDS, _MOST_THREADS = 10_000, 1_024
_LARGEST_SEED = 2**63 - 1
INITIAL_PER_CLASS = 2
"""Labels of each class at the start, where a configuration does not say."""

# Characters of a wrong value that an error repeats.
_SHOWN = 60


def short_text(value: object, text: Callable[[object], str] = repr) -> str:
    """A value for an error message, cut if it is long."""
    try:
        shown = text(value)
    except (ValueError, RecursionError):
        return "a number of thousands of digits" if isinstance(value, int) else f"a deep {type(value).__name__}"
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"


class Section(BaseModel):
    """A table of the file. Unknown settings, NaN and infinity are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


MOST = 1 << 31
"""More examples, copies or pixels than any experiment has."""

Count = Annotated[int, Field(gt=0, le=MOST)]


class DataConfig(Section):
    """Where examples come from.

    Attributes:
        name: a data set of the table (`poolwise datasets`).
        path: data of your own instead, see `poolwise.data.open_data`; every example needs a label.
        text: for `path`: the column of texts, `"text"` by default.
        file: for `path`: the column of image files, `"file"` by default.
        label: for `path`: the column of labels, `"label"` by default.
        id: for `path`: the column that names the examples.
        separator: for `path`: the character between the fields of a CSV file; found where that is certain.
        encoding: for `path`: the encoding of a table, such as `"cp1252"`; UTF-8 by default.
        columns: for `path`: the names of the columns of a table without a header row.
        classes: for `path`: the classes in order; those that occur, sorted, by default.
        channels: for `path`: 1 for grey images, 3 for colour; grey by default if every image is.
        reader: for `path`: the function that reads the file, as `"package.module:function"`; by default the file's
            ending decides.
        options: for `path`: a table of other options for the reader.
        root: folder in which to look for the data set.
        check: whether the number of examples must be the official one.
        hub: whether to fetch the data set from the Hugging Face hub if it is not found.
        size: images are averaged down to this many pixels each way, which makes networks faster. Images of different
            sizes, for `path`, are resized to it.
        repeats: how many noisy copies of every example are in the pool.
        noise: standard deviation of the noise on each copy.
        pool: how many examples the pool is made of, before repeating; all by default. Drawn anew for every seed.
        validation: how many examples are kept for early stopping; they are not in the pool.
        test: how many test examples to evaluate on; all by default.
        test_share: for `path`: share of the examples that are kept for testing.
        labelled_only: for `path`: whether to leave out examples without a label, which are an error otherwise.
        encoder: for texts: a checkpoint that encodes them, once; networks are then trained on the embeddings. For
            images: `"patches"`, fixed features that need no pretrained network, see `poolwise.data.patches`, or
            `"efficientnet-lite0"`, a network that was trained on ImageNet with labels. Embeddings are kept on the disk.
        encoder_length: for texts: how many tokens of a text the encoder reads; 256 by default. Fewer are faster.
        imbalance: makes the pool long-tailed (Cui et al. 2019): of C classes, class c keeps a share of
            `imbalance ** (-c / (C - 1))` of its examples, drawn at random. Test and validation data stay unchanged.
    """

    name: str | None = None
    path: str | None = None
    text: str | None = None
    file: str | None = None
    label: str | None = None
    id: str | None = None
    separator: str | None = None
    encoding: str | None = None
    columns: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    channels: Literal[1, 3] | None = None
    reader: str | None = None
    options: dict[str, Any] | None = None
    root: str | None = None
    check: bool = True
    hub: bool = False
    size: Count | None = None
    repeats: Count = 1
    noise: float = Field(0.1, ge=0, allow_inf_nan=False)
    pool: Count | None = None
    validation: int = Field(0, ge=0, le=MOST)
    test: Count | None = None
    test_share: float = Field(0.2, gt=0, lt=1)
    labelled_only: bool = False
    encoder: str | None = None
    encoder_length: Count | None = None
    imbalance: float = Field(1.0, ge=1, le=1e6)

    _own: ClassVar[tuple[str, ...]] = (
        *("text", "file", "label", "id", "separator", "encoding", "columns", "classes", "channels", "reader"),
        "options",
    )

    @model_validator(mode="after")
    def _one_source(self) -> "DataConfig":
        if (self.name is None) == (self.path is None):
            raise ValueError("give either name (a data set of `poolwise datasets`) or path (data of your own)")
        own = next((name for name in self._own if getattr(self, name) is not None), None)
        if self.path is None and own is not None:
            raise ValueError(f"{own} is for path (data of your own), not for a data set by name")
        return self

    @property
    def opening(self) -> dict[str, Any]:
        """What to pass to `open_data`."""
        given = {name: getattr(self, name) for name in self._own if name != "options"}
        return {**{name: value for name, value in given.items() if value is not None}, **(self.options or {})}

    def __hash__(self) -> int:
        return hash(self.model_dump_json())


class ModelConfig(BaseModel):
    """The network, for the posteriors made of networks; other keys are its own parameters."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str = "batchbald-cnn"
    glorot: bool = True

    @property
    def parameters(self) -> dict[str, Any]:
        """The network's own parameters."""
        return {name: tuple(v) if isinstance(v, list) else v for name, v in (self.model_extra or {}).items()}

    @property
    def tokens(self) -> tuple[str, int] | None:
        """For a transformer: the checkpoint whose tokens it takes, and how many of them a text has at most."""
        if self.name != "transformer":
            return None
        return self.parameters.get("checkpoint", CHECKPOINT), self.parameters.get("max_length", MAX_LENGTH)


class PosteriorConfig(BaseModel):
    """Where posterior samples come from; other keys are the posterior's own parameters.

    Attributes:
        kind: a posterior of `poolwise.posteriors.kinds()`, or the address of one, `"package.module:Class"`.
        members: how many networks, or classifiers of a committee.
        samples: how many samples, of each network if there are several.
        warm_start: whether a round's training continues from the weights of the round before.
        classifier: of a committee: `"logistic-regression"` or `"random-forest"`.

    A posterior that has no parameter of one of these four names leaves it unused.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: str = "deep-ensemble"
    members: PositiveInt = 5
    samples: PositiveInt = 20
    warm_start: bool = False
    classifier: Literal["logistic-regression", "random-forest"] = "logistic-regression"

    @property
    def parameters(self) -> dict[str, Any]:
        """The posterior's own parameters."""
        known = posteriors.find(self.kind).parameters
        return {name: value for name, value in self.model_dump().items() if name in known and name != "kind"}

    @model_validator(mode="after")
    def _known(self) -> "PosteriorConfig":
        kind = posteriors.find(self.kind)
        kind.check(self.model_extra or {})
        for name in type(self).model_fields:  # what is left out is as the posterior itself has it
            if name in kind.parameters and name not in self.model_fields_set:
                object.__setattr__(self, name, kind.parameters[name].default)
        return self


def _known_features(value: str | None) -> str | None:
    check_features(value)
    return value


def _known_first(value: str | None) -> str | None:
    if value is not None:
        first_method(value)
    return value


class MethodConfig(BaseModel):
    """A selection method. Other keys are the method's own parameters, and `candidates`.

    Attributes:
        name: the method.
        label: what it is called in folders and reports; by default the name and the parameters.
        features: which features it gets, in place of those of `[acquisition]`.
        first: which method selects its first batch, in place of that of `[acquisition]`, for runs without labels at
            the start.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    label: str = ""
    features: Annotated[str | None, AfterValidator(_known_features)] = None
    first: Annotated[str | None, AfterValidator(_known_first)] = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The method's own parameters, and `candidates`."""
        return dict(self.model_extra or {})

    @property
    def folder(self) -> str:
        """The label as the name of a folder."""
        return re.sub(r"[^A-Za-z0-9.=-]+|^\.+", "_", self.label)

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        if not isinstance(value, str | dict):
            raise ValueError("a method is a name, or a table with a name and parameters")
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _known(self) -> "MethodConfig":
        own = {name: value for name, value in self.parameters.items() if name != "candidates"}
        registry.find(self.name).check(own)
        candidates = self.parameters.get("candidates", "100%")
        if isinstance(candidates, bool) or not isinstance(candidates, str | int | list):
            raise ValueError(
                f'candidates must be a share like "10%", a number or a list of positions, not {short_text(candidates)}'
            )
        if not self.label:
            chosen = {name: getattr(self, name) for name in ("features", "first") if getattr(self, name) is not None}
            given = {**self.parameters, **chosen}
            text = " ".join([self.name, *(f"{name}={short_text(value, str)}" for name, value in given.items())])
            object.__setattr__(self, "label", text)
        return self


class AcquisitionConfig(Section):
    """Which labels are asked for.

    Attributes:
        methods: names, or tables with a name and the method's parameters.
        initial_per_class: labels of each class at the start.
        initial: instead, labels at the start, drawn at random.
        first: instead, no labels at the start. This method selects the first batch: `"random"`, or one that needs
            nothing but features, such as `"coreset"`.
        features: which features methods get that need embeddings: `"network"`, `"fixed"` or the place of a function,
            `"package.module:function"`; by default those that the method prefers.
        batch_size: labels per round.
        labels: when to stop: labels in all, including those from the start.
    """

    methods: Annotated[tuple[MethodConfig, ...], Field(min_length=1)] = (MethodConfig(name=registry.DEFAULT),)
    initial_per_class: PositiveInt | None = None
    initial: PositiveInt | None = None
    first: Annotated[str | None, AfterValidator(_known_first)] = None
    features: Annotated[str | None, AfterValidator(_known_features)] = None
    batch_size: PositiveInt = 10
    labels: PositiveInt = 100

    @model_validator(mode="after")
    def _consistent(self) -> "AcquisitionConfig":
        if self.initial_per_class is not None and self.initial is not None:
            raise ValueError("give initial_per_class or initial, not both")
        if self.first is not None and (self.initial_per_class or self.initial):
            raise ValueError("with first, a run starts without labels: drop initial_per_class and initial")
        lost = next((method.label for method in self.methods if method.first is not None), None)
        if self.first is None and lost is not None:
            raise ValueError(f"the method {lost!r} has a first method of its own, which needs acquisition.first too")
        folders = [method.folder for method in self.methods]
        twice = [method.label for method in self.methods if folders.count(method.folder) > 1]
        if twice:
            raise ValueError(f"the method {min(twice)!r} is listed twice; give each its own label")
        return self


def _seeds(value: Any) -> Any:
    """A number of seeds stands for 0, 1, 2, ..."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if value > _MOST_SEEDS:
        raise ValueError(f"at most {_MOST_SEEDS:,} seeds can be run")
    return list(range(value))


def _memory(value: Any) -> Any:
    """A number of bytes may be a number; whatever it is must be one that can be used."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    try:
        budget.parse(text)
    except OverflowError as error:
        raise ValueError('must be a number of bytes, or a text such as "500MB" or "1GB"') from error
    return text


Seed = Annotated[int, Field(ge=0, le=_LARGEST_SEED)]


def _present_names(value: Any) -> Any:
    """Settings of training under their present names."""
    return renamed_settings(value) if isinstance(value, dict) else value


class Config(Section):
    """An experiment: which data, posterior, methods and seeds. There is one run per method and seed.

    Attributes:
        name: what it is called; its runs are kept under this name.
        seeds: the seeds, or how many there are.
        data: the data, `[data]` in the file.
        model: the network, `[model]`.
        posterior: the posterior, `[posterior]`.
        training: how networks are trained, `[training]`.
        acquisition: methods, batch size and number of labels, `[acquisition]`.
        test_samples: measure the test accuracy with the first `test_samples` posterior samples only; by default with
            all of them.
        threads: PyTorch threads per run. Another number rounds sums differently, so it is part of the experiment.
        memory: working memory per run. No result depends on it.

    Example:
        >>> from poolwise.experiments import Config
        >>> config = Config.model_validate({"name": "mine", "data": {"name": "digits"}, "seeds": 5})
        >>> config.seeds, config.acquisition.batch_size
        ((0, 1, 2, 3, 4), 10)
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(_seeds), Field(min_length=1, max_length=_MOST_SEEDS)] = (0, 1, 2)
    test_samples: PositiveInt | None = None
    threads: Annotated[PositiveInt, Field(le=_MOST_THREADS)] = 1
    memory: Annotated[str, BeforeValidator(_memory)] = "1GB"
    data: DataConfig
    model: ModelConfig = ModelConfig()
    posterior: PosteriorConfig = PosteriorConfig()
    training: Annotated[Training, BeforeValidator(_present_names)] = Training()
    acquisition: AcquisitionConfig = AcquisitionConfig()

    @model_validator(mode="after")
    def _distinct_seeds(self) -> "Config":
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds must differ from each other")
        return self

    @model_validator(mode="after")
    def _texts_once(self) -> "Config":
        if self.data.encoder is not None and self.model.tokens is not None:
            raise ValueError(
                "data.encoder turns texts into embeddings, and the model transformer reads texts: drop one"
            )
        return self
