"""`poolwise sync label-studio`: people label in Label Studio, and Poolwise chooses what."""

import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poolwise.cli.app import CommandGroup, app, showing_warnings
from poolwise.cli.progress import bar, resumable
from poolwise.cli.projects import (
    DataArgument,
    DatabaseOption,
    EncoderOption,
    HeldOutOption,
    IdOption,
    MethodOption,
    ModelOption,
    QuietOption,
    SeedOption,
    TextOption,
    read_classes,
)
from poolwise.errors import MissingInputError, ParameterError

if TYPE_CHECKING:
    from poolwise.labelling.label_studio.connection import Connection
    from poolwise.labelling.label_studio.syncing import Done, Sync

_SECRET = "POOLWISE_WEBHOOK_SECRET"

commands = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(commands, name="sync")


@commands.callback()
def _group() -> None:
    """Label in another program, while Poolwise chooses.

    \b
      poolwise sync label-studio texts.csv --url http://localhost:8080 --create "Tickets" --classes good,bad
    """


@commands.command("label-studio")
def label_studio(
    data: DataArgument,
    url: Annotated[
        str, typer.Option(envvar="LABEL_STUDIO_URL", help="The address of Label Studio, as http://localhost:8080.")
    ],
    project: Annotated[
        str | None, typer.Option(help="The project of Label Studio: its number, as in /projects/7, or its title.")
    ] = None,
    create: Annotated[
        str | None, typer.Option(metavar="TITLE", help="Make a new project of Label Studio with this title.")
    ] = None,
    token: Annotated[
        str,
        typer.Option(
            envvar="LABEL_STUDIO_API_KEY",
            show_default=False,
            help="An access token, from Account & Settings of Label Studio. Better in the variable than on the command "
            "line, which other users of the machine can see. It is not stored.",
        ),
    ] = "",
    classes: Annotated[
        str | None,
        typer.Option(
            help="The classes, as in cat,dog,bird; or a file with one per line. By default those of Label Studio."
        ),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", help="Items per batch; 50 by default.")] = None,
    low: Annotated[
        int | None,
        typer.Option(min=0, help="Send the next batch when this many tasks are open; a fifth of a batch by default."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep taking labels and sending batches, until stopped.")
    ] = False,
    interval: Annotated[float, typer.Option(min=1, help="With --watch: seconds between two checks.")] = 30.0,
    webhook: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="With --watch: let Label Studio say at once when there is something new, by calling this address.",
        ),
    ] = None,
    webhook_url: Annotated[
        str | None, typer.Option(help="How Label Studio reaches --webhook, if it is by another address.")
    ] = None,
    new_classes: Annotated[
        bool, typer.Option("--new-classes", help="Add classes of annotations that are not known yet.")
    ] = False,
    images_at: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where Label Studio finds the folder of images, as '/data/local-files/?d=photos/'. By default images "
            "are sent along, at most 640 pixels wide or high.",
        ),
    ] = None,
    text: TextOption = None,
    id: IdOption = None,
    encoder: EncoderOption = None,
    method: MethodOption = None,
    model: ModelOption = None,
    held_out: HeldOutOption = None,
    database: DatabaseOption = None,
    seed: SeedOption = None,
    quiet: QuietOption = False,
) -> None:
    """Send batches to Label Studio and take labels back.

    A batch becomes tasks of a project of Label Studio, the most useful first. The same command again, or --watch, takes
    labels, changes and skipped tasks back, and sends the next batch when few tasks are open. Nothing is sent or taken
    twice, even if it was stopped in the middle. Other tasks of the project are left alone.

    Examples:

    \b
      export LABEL_STUDIO_API_KEY=...
      poolwise sync label-studio texts.csv --url http://localhost:8080 --create "Tickets" --classes good,bad
      poolwise sync label-studio texts.csv --url http://localhost:8080 --project Tickets --watch
    """
    if (project is None) == (create is None):
        raise ParameterError('name the project of Label Studio with --project, or make one with --create "Title".')
    if (webhook is not None or webhook_url is not None) and not watch:
        raise ParameterError("--webhook is for --watch: give both.")
    settings: dict[str, Any] = {
        "text": text, "id": id, "encoder": encoder, "method": method, "held_out": held_out, "seed": seed,
    }  # fmt: skip
    with showing_warnings(quiet), resumable():
        try:
            from poolwise.labelling.label_studio import syncing
            from poolwise.labelling.label_studio.connection import Connection
            from poolwise.labelling.project import Project
        except ImportError as error:
            raise MissingInputError(
                f"labelling needs packages that are not installed ({error}). Install them with: pip install "
                "'poolwise[label-studio]'"
            ) from error
        names = read_classes(classes)
        with (
            Connection(url, token) as server,
            Project.open(data, classes=names, database=database, model=model, **settings) as opened,
        ):
            there = syncing.make_project(opened, server, create) if create else server.find(project or "")
            if create:
                _say(f"made the project {there.id}, {there.title!r}: {server.url}/projects/{there.id}", quiet)
            sync = syncing.Sync(
                opened, server, there, count=count, low=low, new_classes=new_classes, images_at=images_at
            )
            with bar(quiet) as report:
                if not watch:
                    _show(sync.step(report=report), sync, quiet, True)
                    return
                with _news(server, there.id, webhook, webhook_url) as wait:
                    shown = _Shown(sync, quiet)
                    syncing.watch(sync, interval, wait, shown, lambda text: _say(text, False), report=report)


@contextmanager
def _news(
    server: "Connection", project: int, webhook: str | None, webhook_url: str | None
) -> Iterator[Callable[[float], object]]:
    """A function that waits for the next check: until a time, or until Label Studio calls."""
    if webhook is None:
        yield time.sleep
        return
    from poolwise.labelling.label_studio.webhook import HEADER, Receiver

    host, _, port = webhook.rpartition(":")
    if not host or not port.isdecimal():
        raise ParameterError(f"webhook must be an address and a port, as 127.0.0.1:8079, not {webhook!r}.")
    if host in ("0.0.0.0", "[::]") and webhook_url is None:
        raise ParameterError(f"Label Studio cannot call {webhook}. Say how it reaches this machine with webhook_url=.")
    by_hand = os.environ.get(_SECRET)
    secret = by_hand or secrets.token_urlsafe(32)
    with Receiver(host.strip("[]"), int(port), secret) as receiver:
        if by_hand:  # somebody has set the webhook up
            yield receiver.wait
            return
        number = server.add_webhook(project, webhook_url or f"http://{host}:{receiver.port}/", {HEADER: secret})
        before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that it is removed then
        try:
            yield receiver.wait
        finally:
            signal.signal(signal.SIGTERM, before)
            server.remove_webhook(number)


class _Shown:
    """Says what was done, if there is anything to say."""

    def __init__(self, sync: "Sync", quiet: bool) -> None:
        self._sync, self._quiet = sync, quiet
        self._notes: list[str] | None = None

    def __call__(self, done: "Done") -> None:
        news = self._notes != done.notes
        if news or done.taken or done.sent or done.finished:
            _show(done, self._sync, self._quiet, news)
        self._notes = done.notes


def _show(done: "Done", sync: "Sync", quiet: bool, notes: bool) -> None:
    _say(f"taken from Label Studio: {done.taken}.", quiet)
    for note in done.notes if notes else ():
        _say(f"poolwise: note: {note}", False)
    if done.removed:
        _say(f"{done.removed:,} tasks that were there twice were removed.", quiet)
    if done.batch is not None:
        model = done.batch.model
        accuracy = (
            f" The model gets {model.correct:,} of {model.checked:,} randomly drawn items right ({model.accuracy:.0%})."
            if model is not None and model.accuracy is not None
            else ""
        )
        _say(f"sent batch {done.batch.number}: {done.sent:,} tasks, chosen by {done.batch.method}.{accuracy}", quiet)
    if done.finished:
        _say("everything that can be asked for in Label Studio is answered.", quiet)
    elif done.batch is None:
        _say(f"{done.open:,} tasks are open. The next batch is sent when {sync.low:,} or fewer are.", quiet)


def _say(text: str, quiet: bool) -> None:
    if not quiet:
        print(text, file=sys.stderr, flush=True)
