"""The command line itself: what all commands have in common.

`poolwise --help` must be quick, so this module and those of the commands import nothing heavy. PyTorch, scikit-learn
and pydantic are imported inside the commands that need them.
"""

import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from poolwise import __version__
from poolwise.cli.flags import in_flags, option_names
from poolwise.errors import LayoutWarning, PluginWarning, PoolwiseError, PrefilterWarning, SaturationWarning

_TRACEBACK = "--traceback"
_flags: dict[str, str] = {}  # those of the command that is running, by their names in Python


class CommandGroup(TyperGroup):
    """The commands. An error names the options of the command, as a user typed them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that was asked for, and remember its options."""
        found = super().resolve_command(ctx, args)
        _flags.clear()
        _flags.update(option_names(found[1].params if found[1] is not None else ()))
        return found

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except PoolwiseError as error:
            raise type(error)(in_flags(str(error), _flags)) from error


app = typer.Typer(
    cls=CommandGroup,
    help="""Choose which unlabelled examples to label next, in large batches, for deep Bayesian models.

    With predictions of your own:

    \b
      poolwise select preds.npy -b 50

    A folder of images or a table of texts to label, in the browser:

    \b
      poolwise label photos --classes cat,dog,bird

    The same in a spreadsheet:

    \b
      poolwise next texts.csv -n 50 -o batch.csv --classes good,bad
      poolwise add batch.csv

    A simulated experiment that needs no data of yours:

    \b
      poolwise run --example > digits.toml
      poolwise run digits.toml -o runs
      poolwise report runs -o report

    `poolwise COMMAND --help` explains each command and gives an example.
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # Rich takes longer to import than all the rest of the help
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; expected errors end with exit code 2 and one message."""
    run_app(app)


def run_app(app: typer.Typer) -> None:
    """Run any command line in the same way."""
    show = _TRACEBACK in sys.argv
    try:
        try:
            app(args=[word for word in sys.argv[1:] if word != _TRACEBACK])  # wherever in the command it stands
        finally:
            sys.stdout.flush()
    except PoolwiseError as error:
        _fail(str(error), error if show else None)
    except MemoryError as error:
        _fail(
            f"there is not enough memory for this ({str(error) or 'out of memory'}). Try smaller numbers.",
            error if show else None,
        )
    except Exception as error:
        if isinstance(error, OSError):
            with suppress(OSError, ValueError):  # what is left of the output goes nowhere
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(1)  # whoever read it has gone, as in `poolwise methods | head`
        from poolwise.user_code import culprit, describe

        if isinstance(error, OSError) and culprit(error) is None:
            _fail(f"{error.filename or 'the output'}: {error.strerror or error}.", error if show else None)
        hint = "" if show else f" Add {_TRACEBACK} to the command to see the traceback."
        _fail(f"{describe(error)}{hint}", error if show else None)


@contextmanager
def showing_warnings(quiet: bool) -> Iterator[None]:
    """Warnings of what is done inside go to standard error, in the words of the options of the command.

    Args:
        quiet: whether to leave them out.
    """
    with warnings.catch_warnings(record=True) as caught:
        for category in (LayoutWarning, PluginWarning, SaturationWarning):
            warnings.simplefilter("always", category)
        warnings.filterwarnings("always", "the parameter engine", DeprecationWarning)
        warnings.simplefilter("ignore", PrefilterWarning)  # the summary says it
        try:
            yield
        finally:
            for warning in () if quiet else caught:
                print(f"poolwise: warning: {in_flags(str(warning.message), _flags)}", file=sys.stderr)


def _fail(message: str, shown: BaseException | None = None) -> NoReturn:
    """End with a message, after the traceback of an exception if there is one to show."""
    if shown is not None:
        traceback.print_exception(shown)
    print(f"poolwise: {message}", file=sys.stderr)
    sys.exit(2)


def _version(show: bool) -> None:
    if show:
        print(f"poolwise {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[bool, typer.Option("--version", callback=_version, help="Show the version and stop.")] = False,
    traceback: Annotated[
        bool, typer.Option(_TRACEBACK, help="After an error, show the traceback. Can also follow a command.")
    ] = False,
) -> None:
    pass
