"""Start the server: find a port, say where the page is, start the background process, and end cleanly."""

import gc
import json
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import uvicorn

from poolwise.errors import FileError, LockedError, ParameterError, StateError
from poolwise.labelling.project import Project
from poolwise.labelling.server.access import Access, Rules, is_loopback, signing_key
from poolwise.labelling.server.app import make_app
from poolwise.labelling.server.desk import Desk
from poolwise.labelling.worker import Worker
from poolwise.storage import FolderLock, make_folder, write_json

# Where the search for a free port begins, and how many are tried.
_PORT, _PORTS = 8_700, 100

# Seconds that unfinished requests have when the server is told to end.
_GRACE = 3

Say = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """How to serve a project.

    Attributes:
        host: the address to listen on.
        port: the port; None for one that is free.
        owner: the person who starts the server.
        people: others who get an access link.
        names: names by which browsers reach the server through a proxy.
        certificate: a file, for an encrypted connection.
        private_key: the file of its key.
        browser: whether to open the page.
        train: whether to train in the background.
    """

    host: str = "127.0.0.1"
    port: int | None = None
    owner: str = "me"
    people: Sequence[str] = ()
    names: Sequence[str] = ()
    certificate: Path | None = None
    private_key: Path | None = None
    browser: bool = False
    train: bool = True


def serve(project: Project, place: Mapping[str, str | None], options: Options, say: Say = print) -> None:
    """Serve a project until Ctrl-C.

    Args:
        project: the project.
        place: what the background process needs to open it too: data, project, database and model.
        options: how.
        say: called with what a person should know.
    """
    folder = project.folder / "server"
    make_folder(folder)
    lock = FolderLock(folder)
    try:
        lock.acquire()
    except LockedError:
        raise StateError(f"{_running(folder)} Open that page, or stop it there first with Ctrl-C.") from None
    try:
        with _listening(options.host, options.port, _last_port(folder)) as listener:
            _serve(project, place, options, listener, folder, say)
    finally:
        with suppress(OSError):
            (folder / "running.json").unlink()
        lock.release()


def _serve(
    project: Project,
    place: Mapping[str, str | None],
    options: Options,
    listener: socket.socket,
    folder: Path,
    say: Say,
) -> None:
    rules = Rules.of(options.host, options.owner, options.names)
    about = project.description
    access = Access(rules, signing_key(about.uid, project.folder), project.store, f"poolwise-{about.uid[:8]}")
    desk = Desk(project)
    worker = Worker(place, desk.renewed) if options.train else None
    port = listener.getsockname()[1]
    address = _address(options, port)
    write_json(folder / "port.json", {"port": port})
    note = {"address": address, "process": os.getpid(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
    write_json(folder / "running.json", note)
    link = _say_where(project, rules, options, address, say)
    config = uvicorn.Config(
        make_app(desk, access, worker),
        log_level="error",
        access_log=False,  # its lines would have the tokens of access links in them
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=_GRACE,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.private_key,
        limit_concurrency=1_000,
    )
    _be_quick()
    desk.start()
    if worker is not None:
        worker.start()
    if options.browser:
        threading.Timer(1.0, lambda: webbrowser.open(link)).start()
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        if worker is not None:
            worker.stop()
        desk.stop()
    say("\nStopped. Every label is saved; run the same command to continue.")


def _be_quick() -> None:
    """Keep the slowest answers quick: threads take shorter turns, and the items are never searched for garbage."""
    sys.setswitchinterval(0.001)
    gc.collect()
    gc.freeze()


def _listening(host: str, port: int | None, last: int | None) -> socket.socket:
    """A socket on the port that was asked for, the one of the last time, or the first that is free."""
    wanted = [port] if port is not None else [*([last] if last else []), *range(_PORT, _PORT + _PORTS), 0]
    problem: OSError | None = None
    for number in wanted:
        try:
            return _bound(host, number)
        except socket.gaierror as error:
            raise ParameterError(
                f"host must be an address of this machine, not {host!r} ({error.strerror})."
            ) from error
        except (OSError, OverflowError) as error:
            problem = error if isinstance(error, OSError) else OSError(0, str(error))
    reason = problem.strerror if problem is not None else "no port"
    raise ParameterError(f"cannot listen on {host} port {port} ({reason}). Leave --port out to get one that is free.")


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    found = socket.socket(family, kind, protocol)
    try:
        if os.name != "nt":
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(where)
        found.listen(128)  # so that nobody else can take the port before the server begins
    except BaseException:
        found.close()
        raise
    return found


def _address(options: Options, port: int) -> str:
    scheme = "https" if options.certificate is not None else "http"
    host = options.names[0] if options.names and is_loopback(options.host) else options.host
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    elif is_loopback(host):
        host = "localhost" if host == "127.0.0.1" else host
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port}"


def _say_where(project: Project, rules: Rules, options: Options, address: str, say: Say) -> str:
    """Say where the page is, with the links of new people; gives the address to open."""
    if not rules.links:
        say(f"Label here: {address}/   (Ctrl-C ends it)")
        say("Only this machine can open it. Others: see --host.")
        return f"{address}/"
    here = f"{address}/"
    known = {person.name for person in project.store.people() if person.revoked is None}
    say(f"Serving at {address}/   (Ctrl-C ends it)")
    if options.certificate is None and not is_loopback(options.host):
        say("The connection is not encrypted: use it in a network that you trust, or see --certificate.")
    for name in dict.fromkeys((options.owner, *options.people)):
        if name not in known:
            link = f"{address}/enter/{project.store.add_person(name)}"
            say(f"Access link of {name}, shown only now: {link}")
            here = link if name == options.owner else here
    others = sorted(known)
    if others:
        say(f"These have access already: {', '.join(others)}. Lost links are made anew with --new-link NAME.")
    return here


def _last_port(folder: Path) -> int | None:
    """The port of the last time, so that pages that are still open find the server again."""
    try:
        port = json.loads((folder / "port.json").read_text())["port"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return port if isinstance(port, int) and 1_024 <= port < 65_536 else None


def _running(folder: Path) -> str:
    try:
        note: Any = json.loads((folder / "running.json").read_text())
        address, process, since = str(note["address"]), int(note["process"]), str(note["since"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, PermissionError):
            raise FileError(f"cannot read {folder} ({error.strerror}).") from error
        return "This project is being served already."
    return f"This project is being served already, at {address}/ (process {process}, since {since})."
