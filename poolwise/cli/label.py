"""`poolwise label`: label in the browser."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from poolwise.cli.app import app, showing_warnings
from poolwise.cli.projects import (
    ClassesOption,
    DataArgument,
    DatabaseOption,
    EncoderOption,
    EncodingOption,
    HeldOutOption,
    IdOption,
    MethodOption,
    ModelOption,
    OriginalsOption,
    ProjectOption,
    SeedOption,
    SeparatorOption,
    TextOption,
    read_classes,
)
from poolwise.errors import MissingInputError, ParameterError


@app.command()
def label(
    data: DataArgument,
    classes: ClassesOption = None,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on. Any other than this machine's own, such as 0.0.0.0, needs an access link "
            "per person; yours is printed."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="The port; by default one that is free, the same each time.")
    ] = None,
    people: Annotated[
        str | None, typer.Option(help="Who gets an access link, as in anna,bert; the page can add more.")
    ] = None,
    new_link: Annotated[
        list[str] | None, typer.Option("--new-link", metavar="NAME", help="Make a new link; the old one ends.")
    ] = None,
    me: Annotated[
        str | None, typer.Option("--me", metavar="NAME", help="Your name; that of your account by default.")
    ] = None,
    twice: Annotated[
        float | None, typer.Option(help="The share of items that two people label, to measure how well they agree.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", "-b", help="Items per batch; 50 by default.")
    ] = None,
    text: TextOption = None,
    id: IdOption = None,
    originals: OriginalsOption = None,
    encoder: EncoderOption = None,
    method: MethodOption = None,
    model: ModelOption = None,
    held_out: HeldOutOption = None,
    separator: SeparatorOption = None,
    encoding: EncodingOption = None,
    project: ProjectOption = None,
    database: DatabaseOption = None,
    seed: SeedOption = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="A name by which browsers reach this server, as through a proxy."
        ),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="A certificate (.pem), for an encrypted connection; with --private-key.")
    ] = None,
    private_key: Annotated[Path | None, typer.Option(help="The private key of the certificate (.pem).")] = None,
    browser: Annotated[
        bool | None, typer.Option("--browser/--no-browser", help="Open the page; by default on a terminal only.")
    ] = None,
) -> None:
    """Open a page in the browser to label images or texts.

    A model trains on your labels in the background, and chooses the next batch. The first time, a project is made
    beside the data (DATA.poolwise); the same command continues it. When the page says "saved", the label is on disk.
    You can add labels from files (`poolwise add`) at the same time.

    Before there is a model, the first batch of texts or images comes from all parts of the data (k-means). That of
    features is drawn at random.

    Examples:

    \b
      poolwise label photos --classes cat,dog,bird
      poolwise label texts.csv --classes good,bad
      poolwise label photos --host 0.0.0.0 --people anna,bert --twice 0.1
    """
    if (certificate is None) != (private_key is None):
        raise ParameterError("--certificate and --private-key belong together: give both.")
    settings: dict[str, Any] = {
        "text": text, "id": id, "originals": originals, "encoder": encoder, "method": method, "held_out": held_out,
        "separator": separator, "encoding": encoding, "seed": seed, "twice": twice, "batch_size": batch_size,
    }  # fmt: skip
    with showing_warnings(quiet=False):
        try:
            from poolwise.labelling.project import Project
            from poolwise.labelling.server.access import user_name
            from poolwise.labelling.server.running import Options, serve
        except ImportError as error:
            raise MissingInputError(
                f"the page needs packages that are not installed ({error}). Install them with: pip install "
                "'poolwise[label]'"
            ) from error
        names = read_classes(classes)
        with Project.open(data, project=project, classes=names, database=database, model=model, **settings) as opened:
            said = opened.items.said if opened.changes.first else opened.changes.sentences()
            print(f"project {opened.folder}" + (f": {'; '.join(said)}" if said else ""))
            owner = me or user_name()
            for name in new_link or ():
                if name in {person.name for person in opened.store.people() if person.revoked is None}:
                    opened.store.revoke(name)
            options = Options(
                host,
                port,
                owner,
                [*_listed(people), *(new_link or ())],
                allow_host or (),
                certificate,
                private_key,
                sys.stdout.isatty() if browser is None else browser,
            )
            place = {
                "data": str(data.absolute()),
                "project": None if project is None else str(project.absolute()),
                "database": database,
                "model": model,
            }
            serve(opened, place, options, lambda text: print(text, flush=True))


def _listed(names: str | None) -> list[str]:
    return [name.strip() for name in (names or "").split(",") if name.strip()]
