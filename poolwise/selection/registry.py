"""Selection methods: those that come with Poolwise, those of installed packages, and any function that selects.

A built-in method is imported when it is first asked for. `poolwise.selection.catalogue` lists them without that.
"""

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any, TypeVar, get_args

from poolwise.arrays import Array
from poolwise.errors import MethodError, ParameterError, PluginWarning, PoolwiseError, UnknownMethodError
from poolwise.parameters import Parameter, first_line, read_hints, read_parameters
from poolwise.selection.catalogue import DEFAULT, built_in, plug_ins
from poolwise.selection.inputs import FeatureKind, check_needs, used
from poolwise.selection.objective import EVALUATION_HELP, Evaluation, GreedyObjective
from poolwise.selection.results import as_picks
from poolwise.selection.task import Picks, Task
from poolwise.user_code import load_function

__all__ = ["DEFAULT", "Method", "MethodLike", "find", "method", "methods", "resolve"]

_OWN = "poolwise.selection."

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Method:
    """A selection method: what it is, what it needs, its parameters.

    Attributes:
        name: what to pass as `method=`.
        summary: what it is, in a line.
        formula: what it maximises or samples from.
        paper: where it comes from.
        needs: its inputs, among `"predictions"`, `"embeddings"`, `"labelled_embeddings"`, `"labelled_predictions"`,
            `"labels"`, `"held_out_predictions"` and `"held_out_labels"`. A need may depend on a parameter:
            `"labels if calibrate"`, `"embeddings if kernel=product"`.
        parameters: its own parameters by name.
        stochastic: whether the seed changes the batch.
        function: what selects: a function, or a subclass of `GreedyObjective`.
        bound: a function from a task and the method's parameters to `[N]` upper bounds of the gains, which hold
            whatever was picked; or None.
        features: which embeddings it prefers where a learner provides them: `"network"` or `"fixed"`.

    Example:
        >>> import poolwise as pw
        >>> pw.methods()["power-lbb"].parameters["alpha"].default
        1.0
    """

    name: str
    summary: str
    formula: str
    paper: str
    needs: tuple[str, ...]
    parameters: Mapping[str, Parameter] = field(repr=False)
    stochastic: bool
    function: Callable[..., Any] = field(repr=False)
    bound: Callable[..., Array] | None = field(default=None, repr=False)
    features: FeatureKind = "network"

    def __call__(self, task: Task, **parameters: Any) -> Picks:
        """Select.

        Args:
            task: what to choose from, and how many.
            parameters: the method's own, as `check` returns them.
        """
        if _is_objective(self.function):
            evaluation: Evaluation = parameters.pop("evaluation", "lazy")
            objective: GreedyObjective = self.function(task, **parameters)
            if not hasattr(objective, "task"):
                raise MethodError(f"{self.name}: __init__ must begin with super().__init__(task).")
            result = objective.pick(evaluation)
        else:
            given = (task,) if _takes_task(self.function) else (task.predictions, task.batch_size)
            result = self.function(*given[: len(_positional(self.function))], **parameters)
            result = result.pick() if isinstance(result, GreedyObjective) else result
        return as_picks(result, task, self.name)

    @property
    def home(self) -> str:
        """The module that defines it."""
        return getattr(self.function, "__module__", None) or type(self.function).__module__

    @property
    def reference(self) -> str:
        """What another process can find the method by: its name, or `"package.module:function"`.

        A function without such a name, such as a lambda, gets a description, which cannot be looked up.
        """
        if self.home.startswith(_OWN):
            return self.name
        return f"{self.home}:{getattr(self.function, '__qualname__', f'<{type(self.function).__qualname__}>')}"

    def parameter(self, name: str) -> Parameter:
        """The parameter of that name. A former name works too, with a warning."""
        if name == "engine" and name not in self.parameters and "evaluation" in self.parameters:
            warnings.warn(
                "the parameter engine is called evaluation now: write evaluation='lazy' or evaluation='full'.",
                DeprecationWarning,
                stacklevel=4,
            )
            name = "evaluation"
        if name not in self.parameters:
            known = ", ".join(self.parameters) or "none"
            raise ParameterError(f"{self.name} has no parameter {name!r}; its parameters: {known}.")
        return self.parameters[name]

    def check(self, given: Mapping[str, object]) -> dict[str, object]:
        """Check parameters, and return them under their present names.

        Args:
            given: the parameters by name.
        Raises:
            ParameterError: if one is unknown, missing, given twice or of the wrong kind.
        """
        checked: dict[str, object] = {}
        for name, value in given.items():
            parameter = self.parameter(name)
            if parameter.name in checked:
                raise ParameterError(f"{self.name}: {parameter.name} is given twice, once as {name}. Drop one of them.")
            checked[parameter.name] = parameter.check(value, self.name)
        missing = [name for name, own in self.parameters.items() if own.required and name not in checked]
        if missing:
            raise ParameterError(f"{self.name} needs the parameter {missing[0]}: {self.parameters[missing[0]].help}")
        return checked

    def inputs(self, given: Mapping[str, object]) -> set[str]:
        """The inputs that it needs with these parameters.

        Args:
            given: the parameters by name; the others have their defaults.
        """
        values = {**{name: own.default for name, own in self.parameters.items()}, **given}
        return used(self.needs, values)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by reference, as functions are; a function that cannot be found again is pickled with its facts."""
        if _found_again(self):
            return find, (self.reference,)
        facts = (self.name, self.summary, self.formula, self.paper, self.needs, dict(self.parameters))
        return Method, (*facts, self.stochastic, self.function, self.bound, self.features)


MethodLike = str | Method | Callable[..., Any]
"""What `method=` may be: a name, `"package.module:function"`, a `Method`, or a function that selects."""

_METHODS: dict[str, Method] = {}


def method(
    name: str,
    *,
    summary: str = "",
    formula: str = "",
    paper: str = "",
    needs: tuple[str, ...] = ("predictions",),
    stochastic: bool = False,
    parameters: Mapping[str, str] | None = None,
    bound: Callable[..., Array] | None = None,
    features: FeatureKind = "network",
) -> Callable[[Function], Function]:
    """Register a function, or a subclass of `GreedyObjective`, as a selection method.

    The function takes a `Task`, or the predictions, or the predictions and the batch size. It returns one of three
    things: `Picks`, the positions of its picks, or one score per point, of which the largest are taken. Its
    keyword-only parameters become parameters of the method.

    Args:
        name: what to pass as `method=`; no built-in method may have it.
        summary: what it is, in a line; by default the first line of the docstring.
        formula: what it maximises or samples from.
        paper: where it comes from.
        needs: its inputs, among `"predictions"`, `"embeddings"`, `"labelled_embeddings"`, `"labelled_predictions"`,
            `"labels"`, `"held_out_predictions"` and `"held_out_labels"`. `"labels if calibrate"` means: if the
            parameter `calibrate` is true. `"embeddings if kernel=product"` means: if `kernel` is `"product"`.
        stochastic: whether the seed changes the batch.
        parameters: what each of its parameters does; by default what the docstring says under `Args:`.
        bound: a function from a task and the method's parameters to `[N]` upper bounds of the gains, which hold
            whatever was picked. With it, prefilters such as `candidates="top:100000"` report what they could have cost.
        features: the kind of embeddings that it prefers, where a learner has both: `"network"` (what goes into the last
            layer of the trained network) or `"fixed"` (features of the data alone).
    Returns:
        A decorator that leaves the function as it is.

    Example:
        >>> import numpy as np, poolwise as pw
        >>> @pw.method("first-class")
        ... def first_class(task, *, power: float = 1.0):
        ...     '''Points that are most likely of class 0.
        ...
        ...     Args:
        ...         power: exponent of the probability.
        ...     '''
        ...     return task.scores(lambda block: block.probs.mean(1)[:, 0] ** power)
        >>> x = np.log(np.array([[[0.2, 0.8]], [[0.9, 0.1]], [[0.5, 0.5]]]))
        >>> pw.select(x, 2, "first-class", power=2).indices.tolist()
        [1, 2]
        >>> pw.methods()["first-class"].summary
        'Points that are most likely of class 0.'
    """

    def register(function: Function) -> Function:
        made = _made(function, name, summary, formula, paper, needs, stochastic, parameters, bound, features)
        if not made.summary:
            raise ParameterError(f"{name}: say in a line what it is: give it a docstring, or pass summary=.")
        _check_name(made)
        _METHODS[name] = made
        function._poolwise_method = made  # type: ignore[attr-defined]
        return function

    if not isinstance(name, str):
        raise ParameterError('write @poolwise.method("a-name"): a method needs a name.')
    return register


def methods() -> dict[str, Method]:
    """Every selection method by name: what it is, what it needs, its parameters.

    Methods of installed packages are included. One that cannot be imported is left out, with a `PluginWarning`.

    Example:
        >>> import poolwise as pw
        >>> pw.methods()["margin"].summary
        'Smallest lead of the most likely class over the second.'
    """
    for name in built_in():
        find(name)
    for name, points in plug_ins().items():
        _plug_in(name, points)
    return dict(sorted(_METHODS.items()))


def find(name: str) -> Method:
    """The method of a name, or of a text `"package.module:function"`."""
    if not isinstance(name, str):
        raise UnknownMethodError(f"a method is named by a text, not by {name!r}.")
    if name not in _METHODS and name in built_in():
        import_module(built_in()[name].home)
    if name not in _METHODS and ":" in name:
        return _imported(name)
    if name not in _METHODS:
        _plug_in(name, plug_ins().get(name, []))
    if name in _METHODS:
        return _METHODS[name]
    known = ", ".join(sorted({*built_in(), *_METHODS, *plug_ins()}))
    raise UnknownMethodError(
        f"there is no method {name!r}. The methods are: {known}. A function of your own is passed as it is, or by "
        '"package.module:function".'
    )


def resolve(given: MethodLike) -> Method:
    """The method that `method=` stands for: a name, a method, or a function that selects."""
    if isinstance(given, str):
        return find(given)
    if isinstance(given, Method):
        return given
    registered = getattr(given, "_poolwise_method", None)
    if isinstance(registered, Method) and registered.function is given:
        return registered
    if not callable(given):
        raise UnknownMethodError(f"a method is a name, a poolwise Method or a function that selects, not {given!r}.")
    return _made(given, getattr(given, "__name__", type(given).__name__))


def _made(
    function: Callable[..., Any],
    name: str,
    summary: str = "",
    formula: str = "",
    paper: str = "",
    needs: tuple[str, ...] = ("predictions",),
    stochastic: bool = False,
    parameters: Mapping[str, str] | None = None,
    bound: Callable[..., Array] | None = None,
    features: FeatureKind = "network",
) -> Method:
    if not callable(function):
        raise ParameterError(f"{name}: a method is a function or a subclass of GreedyObjective, not {function!r}.")
    own = read_parameters(function, parameters)
    unknown = [text for text in parameters or () if text not in own]
    if unknown:
        raise ParameterError(f"{name}: parameters describes {unknown[0]!r}, which the function does not have.")
    if _is_objective(function):
        own["evaluation"] = Parameter("evaluation", "lazy", Evaluation, EVALUATION_HELP)
    elif not _takes_task(function):
        names = [parameter.name for parameter in _positional(function)]
        if not names or len(names) > 2 or names[1:] not in ([], ["batch_size"]):
            raise ParameterError(
                f"{name}: a method takes (task), (predictions) or (predictions, batch_size), and then parameters with "
                f"a default or after a *; not ({', '.join(names)})."
            )
    check_needs(name, needs, own)
    if features not in get_args(FeatureKind):
        raise ParameterError(f"{name}: features must be one of {', '.join(get_args(FeatureKind))}, not {features!r}.")
    line = summary or first_line(function)
    return Method(name, line, formula, paper, tuple(needs), own, stochastic, function, bound, features)


def _is_objective(function: Callable[..., Any]) -> bool:
    return isinstance(function, type) and issubclass(function, GreedyObjective)


def _positional(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The arguments of a function that have no default and are given by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{function!r} cannot be a method: its arguments are not known ({error}).") from error
    return [own for own in found if own.kind in kinds and own.default is own.empty]


def _takes_task(function: Callable[..., Any]) -> bool:
    """Whether the only argument is a task, by its name or its type; otherwise it is given the predictions."""
    names = [own.name for own in _positional(function)]
    return len(names) == 1 and (names[0] == "task" or read_hints(function).get(names[0]) is Task)


def _check_name(made: Method) -> None:
    """Raise if a name cannot be used, or belongs to another method."""
    name = made.name
    if not name or ":" in name or any(sign.isspace() for sign in name):
        raise ParameterError(f"a method cannot be called {name!r}: use words joined by hyphens, as in 'my-rule'.")
    if name in built_in() and built_in()[name].home != made.home:
        raise ParameterError(f"there is a built-in method {name!r}. Give yours another name.")
    other = _METHODS.get(name)
    if other is not None and other.reference != made.reference:
        raise ParameterError(
            f"there is a method {name!r} already: {other.reference}. Give {made.reference} another name."
        )


def _imported(reference: str) -> Method:
    """The method that `"package.module:function"` names."""
    return resolve(load_function(reference, "method", UnknownMethodError))


def _plug_in(name: str, points: list[EntryPoint]) -> None:
    """Register the method that an installed package offers under a name; warn if that is not possible."""
    if not points:
        return
    if name in built_in():
        _warn(points[0], "there is a built-in method of that name; the package must choose another")
    elif len(points) > 1:
        _warn(points[0], f"another package offers a method of that name ({points[1].value}); uninstall one of them")
    elif name not in _METHODS:
        try:
            made = resolve(points[0].load())
            if made.name != name and getattr(made.function, "_poolwise_method", None) is made:
                raise ParameterError(f"its own name is {made.name!r}; the entry point must have the same")
            made = made if made.name == name else _made(made.function, name)
            _check_name(made)
            _METHODS[name] = made
        except Exception as error:  # a broken package must not take down everything else
            _warn(points[0], f"{type(error).__name__}: {error}")


def _warn(point: EntryPoint, reason: str) -> None:
    package = "" if point.dist is None else f" of the package {point.dist.name}"
    text = f"the method {point.name!r}{package} ({point.value}) cannot be used: {reason.rstrip('.')}."
    warnings.warn(text, PluginWarning, stacklevel=4)


def _found_again(made: Method) -> bool:
    """Whether its reference leads back to it."""
    try:
        return find(made.reference).function is made.function
    except PoolwiseError:
        return False
