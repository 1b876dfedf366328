"""The description of an experiment: one TOML file that says everything about its runs."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from poolwise.data.tokens import MAX_LENGTH
from poolwise.errors import ConfigError, FileError, ParameterError
from poolwise.models.transformer import CHECKPOINT
from poolwise.posteriors import registry as posteriors
from poolwise.selection import registry
from poolwise.training import Training, renamed_settings


class Section(BaseModel):
    """A table of the file; keys that it does not know are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataConfig(Section):
    """Where examples come from.

    Attributes:
        name: a data set of the table (`poolwise datasets`).
        path: data of your own instead, see `poolwise.data.open_data`.
        root: folder in which to look for the data set.
        check: whether the number of examples must be the official one.
        hub: whether to fetch the data set from the Hugging Face hub if it is not found.
        size: images are averaged down to so many pixels each way, which makes networks faster.
        repeats: how many noisy copies of every example are in the pool.
        noise: standard deviation of the noise on each copy.
        pool: how many examples the pool is made of, before repeating; all by default. Drawn anew for every seed.
        validation: how many examples are kept for early stopping; they are not in the pool.
        test: how many test examples to judge on; all by default.
        test_share: for `path`: share of the examples that are kept for testing.
        encoder: for texts: a checkpoint that encodes them, once; networks are then trained on the embeddings. For
            images: `"patches"`, fixed features that need no pretrained network, see `poolwise.data.patches`.
    """

    name: str | None = None
    path: str | None = None
    root: str | None = None
    check: bool = True
    hub: bool = False
    size: PositiveInt | None = None
    repeats: PositiveInt = 1
    noise: float = Field(0.1, ge=0)
    pool: PositiveInt | None = None
    validation: int = Field(0, ge=0)
    test: PositiveInt | None = None
    test_share: float = Field(0.2, gt=0, lt=1)
    encoder: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "DataConfig":
        if (self.name is None) == (self.path is None):
            raise ValueError("give either name (a data set of `poolwise datasets`) or path (data of your own)")
        return self


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


class MethodConfig(BaseModel):
    """A selection method; other keys are its own parameters, and `candidates`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    label: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """The method's own parameters."""
        return dict(self.model_extra or {})

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _known(self) -> "MethodConfig":
        own = {name: value for name, value in self.parameters.items() if name != "candidates"}
        registry.find(self.name).check(own)
        if not self.label:
            text = " ".join([self.name, *(f"{name}={value}" for name, value in self.parameters.items())])
            object.__setattr__(self, "label", text)
        return self


class AcquisitionConfig(Section):
    """What is asked for.

    Attributes:
        methods: names, or tables with a name and the method's parameters.
        initial_per_class: labels of each class at the start.
        initial: labels at the start, drawn at random, instead.
        batch_size: labels a round.
        labels: when to stop: labels in all, those from the start included.
    """

    methods: Annotated[tuple[MethodConfig, ...], Field(min_length=1)] = (MethodConfig(name=registry.DEFAULT),)
    initial_per_class: PositiveInt | None = None
    initial: PositiveInt | None = None
    batch_size: PositiveInt = 10
    labels: PositiveInt = 100

    @model_validator(mode="after")
    def _consistent(self) -> "AcquisitionConfig":
        if self.initial_per_class is not None and self.initial is not None:
            raise ValueError("give initial_per_class or initial, not both")
        labels = [method.label for method in self.methods]
        twice = {label for label in labels if labels.count(label) > 1}
        if twice:
            raise ValueError(f"the method {min(twice)!r} is there twice; give each its own label")
        return self


def _seeds(value: Any) -> Any:
    """A number of seeds stands for 0, 1, 2, ..."""
    return list(range(value)) if isinstance(value, int) and not isinstance(value, bool) else value


def _present_names(value: Any) -> Any:
    """Settings of training under their present names."""
    return renamed_settings(value) if isinstance(value, dict) else value


class Config(Section):
    """An experiment: data × posterior × methods × seeds.

    Attributes:
        name: what it is called; its runs are kept under this name.
        seeds: the seeds, or how many of them.
        threads: PyTorch threads of a run. Sums round differently on another number, so it is part of the experiment.
        memory: working memory of a run.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(_seeds), Field(min_length=1)] = (0, 1, 2)
    threads: int = Field(1, ge=1, le=1024)  # more crash PyTorch
    memory: str = "1GB"
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


def read_config(path: Path, changes: Sequence[str] = ()) -> Config:
    """The experiment in a file.

    Args:
        path: a TOML file.
        changes: texts such as `"acquisition.batch_size=20"` that take precedence over the file.
    """
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error
    changed = [_apply(values, change) for change in changes]
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(path, text, changed, issue) for issue in error.errors())) from error


def _apply(values: dict[str, Any], change: str) -> str:
    """Make a change in place; its dotted name."""
    name, separator, text = change.partition("=")
    *tables, key = name.strip().split(".")
    if not separator or not all([*tables, key]):
        raise ParameterError(f"--set takes section.key=value, such as acquisition.batch_size=20, not {change!r}.")
    for table in tables:
        values = values.setdefault(table, {})
        if not isinstance(values, dict):
            raise ParameterError(f"--set {change}: {table} is not a section.")
    try:
        values[key] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        values[key] = text.strip()
    return name.strip()


def _explain(path: Path, text: str, changed: Sequence[str], issue: Any) -> str:
    """One error, with the line to fix."""
    keys = [str(part) for part in issue["loc"] if isinstance(part, str) and part not in ("tuple", "Training")]
    message = issue["msg"].removeprefix("Value error, ")
    if keys == ["training"] and message.split()[0] in Training.__dataclass_fields__:
        keys.append(message.split()[0])  # a check of the whole section begins with the name of the setting
    name = ".".join(keys)
    if issue["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        message = "there is no such setting; `poolwise run --help` tells where all of them are described"
    if issue["type"] == "missing":
        return f"{path}: {name} is missing. Add it."
    if any(name.startswith(change) for change in changed):
        return f"--set {name}: {message}."
    line = _line(text, keys)
    where = f"{path}:{line}" if line else str(path)
    given = "" if isinstance(issue["input"], dict) else f" (it is {issue['input']!r})"
    return f"{where}: {name}: {message.rstrip('.')}{given}." if name else f"{where}: {message.rstrip('.')}."


def _line(text: str, keys: Sequence[str]) -> int | None:
    """The number of the line where a setting stands, or its section if the setting is not found."""
    best, section = None, ""
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line)
        if header:
            section = header[1]
            if section and section == ".".join(keys[: section.count(".") + 1]):
                best = number
            continue
        key = re.match(r"\s*([\w.-]+)\s*=", line)
        full = ".".join(filter(None, [section, key[1] if key else ""]))
        if key and full == ".".join(keys[: full.count(".") + 1]):
            return number
    return best
