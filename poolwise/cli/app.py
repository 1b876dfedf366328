"""The command line itself: what all commands have in common."""

import os
import sys
from typing import Annotated, NoReturn

import typer

from poolwise import __version__
from poolwise.errors import PoolwiseError

app = typer.Typer(
    help="Choose which unlabelled examples to label next, in large batches, for deep Bayesian models.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; expected errors end with exit code 2 and one message."""
    run_app(app)


def run_app(app: typer.Typer) -> None:
    """Run any command line in the same way."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except PoolwiseError as error:
        _fail(str(error))
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left of the output goes nowhere
        if isinstance(error, BrokenPipeError):
            sys.exit(1)  # whoever read it has gone, as in `poolwise methods | head`
        _fail(f"{error.filename or 'the output'}: {error.strerror or error}.")


def _fail(message: str) -> NoReturn:
    print(f"poolwise: {message}", file=sys.stderr)
    sys.exit(2)


def _version(show: bool) -> None:
    if show:
        print(f"poolwise {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[bool, typer.Option("--version", callback=_version, help="Show the version and stop.")] = False,
) -> None:
    pass
