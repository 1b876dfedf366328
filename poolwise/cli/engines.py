"""Where a command does its work: on this machine, or on Ray."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

import typer

from poolwise.errors import ParameterError

Engine = Literal["local", "ray"]

EngineOption = Annotated[
    Engine,
    typer.Option(help="Where to work: in this process, or on Ray (pip install 'poolwise[ray]'), here or on a cluster."),
]
AddressOption = Annotated[
    str | None,
    typer.Option(help="host:port of a Ray cluster, or auto; by default RAY_ADDRESS, or else Ray is started here."),
]


@contextmanager
def working(engine: Engine, address: str | None) -> Iterator[None]:
    """Ray while it is needed, if it was asked for."""
    if engine == "local":
        if address is not None:
            raise ParameterError("--address is for --engine ray.")
        yield
    else:
        from poolwise import cluster

        with cluster.connect(address):
            yield
