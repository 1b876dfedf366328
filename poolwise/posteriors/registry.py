"""The catalogue of posteriors: experiment files, costs and the command line look posteriors up here.

A posterior gets in by the decorator `register`, by the entry-point group `poolwise.posteriors` of an installed package,
or, without being in the catalogue, by its address `"package.module:Class"`.
"""

import inspect
import typing
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import entry_points
from typing import Any, TypeVar

from torch import nn

from poolwise.errors import ParameterError
from poolwise.parameters import Parameter
from poolwise.posteriors.protocol import Posterior
from poolwise.training import Training
from poolwise.user_code import load_function

GROUP = "poolwise.posteriors"
"""The entry-point group."""

Maker = TypeVar("Maker", bound=Callable[..., Any])


@dataclass(frozen=True)
class Setting:
    """What an experiment gives to a posterior that has an argument of that name.

    Attributes:
        make_model: makes a new network for the inputs and classes of the experiment.
        training: how networks are trained.
        threads: PyTorch threads to train on.
        seed: the seed of the run.
        classes: the number of classes.
        texts: whether the inputs are texts.
    """

    make_model: Callable[[], nn.Module]
    training: Training = field(default_factory=Training)
    threads: int = 1
    seed: int = 0
    classes: int = 2
    texts: bool = False


_GIVEN = frozenset(Setting.__dataclass_fields__) | {"model"}  # `model` is another name of `make_model`


@dataclass(frozen=True)
class Cost:
    """What a posterior costs, in units that do not depend on the network.

    Attributes:
        trainings: how many networks are trained in each round.
        passes: how often each example goes through a network to be predicted.

    Example:
        >>> import poolwise as pw
        >>> pw.posteriors.Cost(trainings=5, passes=100)
        Cost(trainings=5, passes=100)
    """

    trainings: int = 1
    passes: int = 1


@dataclass(frozen=True)
class PosteriorKind:
    """A posterior in the catalogue.

    Attributes:
        name: what to write as `kind`.
        summary: what it is, in a line.
        paper: where it comes from.
        parameters: its own parameters by name.
        make: the class or function that makes it.
        cost_of: from its own parameters to what it costs.
    """

    name: str
    summary: str
    paper: str
    parameters: Mapping[str, Parameter]
    make: Callable[..., Any]
    cost_of: Callable[..., Cost]

    @property
    def trains_networks(self) -> bool:
        """Whether it is made of networks that it trains."""
        return bool({"make_model", "model"} & set(inspect.signature(self.make).parameters))

    def check(self, given: Mapping[str, object]) -> dict[str, object]:
        """The given parameters, each known and of the right kind."""
        for name in given:
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise ParameterError(
                    f"{name}: the posterior {self.name} has no such parameter. Its parameters: {known}."
                )
        return {name: self.parameters[name].check(value, self.name) for name, value in given.items()}

    def build(self, setting: Setting, parameters: Mapping[str, object]) -> Posterior:
        """The posterior, untrained."""
        wanted = inspect.signature(self.make).parameters
        given = {name: getattr(setting, name, setting.make_model) for name in wanted if name in _GIVEN}
        made = self.make(**given, **self.check(parameters))
        if not isinstance(made, Posterior):
            raise ParameterError(
                f"{self.name} returned an object of type {type(made).__name__}, not a posterior: {_lacks(made)}."
            )
        return made

    def cost(self, parameters: Mapping[str, object]) -> Cost:
        """What it costs with these parameters, and the defaults of the others."""
        defaults = {name: p.default for name, p in self.parameters.items() if p.default is not inspect.Parameter.empty}
        return self.cost_of(**{**defaults, **parameters})


_KINDS: dict[str, PosteriorKind] = {}


def register(
    name: str,
    *,
    summary: str = "",
    paper: str = "",
    parameters: Mapping[str, str] | None = None,
    cost: Callable[..., Cost] | None = None,
) -> Callable[[Maker], Maker]:
    """Register a posterior under a name: a class, or a function that makes one.

    If it has arguments called `make_model` (or `model`), `training`, `threads`, `seed`, `classes` or `texts`, the
    experiment provides them. All others are its own parameters: keys of `[posterior]` in an experiment file.

    Args:
        name: what to write as `kind` in an experiment file.
        summary: what it is, in a line; by default the first line of its docstring.
        paper: where it comes from.
        parameters: what each parameter does, in words.
        cost: a function of its own parameters that returns a `Cost`; by default one training, and one pass per example.
    Returns:
        A decorator that leaves the class or function as it is.

    Example:
        >>> import poolwise as pw
        >>> @pw.posteriors.register("coin", summary="Knows nothing, K times.", parameters={"samples": "K."})
        ... def coin(classes: int, samples: int = 10):
        ...     uniform = lambda inputs: [[[1 / classes] * classes] * samples] * len(inputs)
        ...     return pw.posteriors.from_callable(uniform)
        >>> "coin" in pw.posteriors.kinds()
        True
        >>> pw.posteriors.registry.remove("coin")
    """

    def add(make: Maker) -> Maker:
        _KINDS[name] = _kind(name, make, summary, paper, parameters or {}, cost)
        return make

    return add


def remove(name: str) -> None:
    """Take a posterior out of the catalogue."""
    _KINDS.pop(name, None)


def kinds() -> dict[str, PosteriorKind]:
    """All posteriors that have a name: what each is, and its parameters.

    Example:
        >>> import poolwise as pw
        >>> sorted(pw.posteriors.kinds()["dropout-ensemble"].parameters)[:3]
        ['device', 'members', 'outputs']
    """
    _load_own()
    for entry in entry_points(group=GROUP):
        if entry.name not in _KINDS:
            try:
                _from_entry(entry)
            except Exception as error:  # whatever a foreign package raises: the others are listed all the same
                warnings.warn(f"the posterior {entry.name!r} cannot be loaded ({entry.value}: {error}).", stacklevel=2)
    return dict(sorted(_KINDS.items()))


def find(name: str) -> PosteriorKind:
    """The posterior of that name, or at that address (`"package.module:Class"`)."""
    _load_own()
    if name in _KINDS:
        return _KINDS[name]
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            return _from_entry(entry)
    if isinstance(name, str) and ":" in name:
        return _kind(name, load_function(name, "posterior"), "", "", {}, None)
    raise ParameterError(
        f"there is no posterior {name!r}. The posteriors are: {', '.join(kinds())}. One of your own is named by its "
        'address, "package.module:Class".'
    )


def _load_own() -> None:
    from poolwise.posteriors import builtin, laplace, swag  # noqa: F401  (which register themselves)


def _from_entry(entry: Any) -> PosteriorKind:
    make = entry.load()
    if entry.name not in _KINDS:  # else it has registered itself, with a description
        _KINDS[entry.name] = _kind(entry.name, make, "", "", {}, None)
    return _KINDS[entry.name]


def _kind(
    name: str,
    make: Callable[..., Any],
    summary: str,
    paper: str,
    helps: Mapping[str, str],
    cost: Callable[..., Cost] | None,
) -> PosteriorKind:
    function = make.func if isinstance(make, partial) else make
    function = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):  # annotations that only a type checker understands
        hints = {}
    own = {}
    for parameter in inspect.signature(make).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            continue
        if parameter.name not in _GIVEN and parameter.name not in _FORMER_NAMES:
            hint = hints.get(parameter.name, object)
            own[parameter.name] = Parameter(parameter.name, parameter.default, hint, helps.get(parameter.name, ""))
    first_line = (inspect.getdoc(make) or "").split("\n")[0]
    return PosteriorKind(name, summary or first_line, paper, own, make, cost or (lambda **_: Cost()))


_FORMER_NAMES = frozenset({"way"})


def _lacks(made: object) -> str:
    missing = [name for name in ("fit", "predict", "embed", "state", "load_state") if not hasattr(made, name)]
    return f"it lacks {', '.join(missing)}"
