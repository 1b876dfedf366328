"""A PostgreSQL server for tests: in a temporary folder, on a socket only, as a user that may run one."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/bin", "/usr/bin", "/opt/homebrew/bin")


def find_programs() -> Path | None:
    """The folder with `initdb` and `postgres`, or None."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else []
    for place in PLACES:
        found += sorted(Path("/").glob(place.lstrip("/")), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


@contextmanager
def postgresql() -> Iterator[str]:
    """The URL of a new server; a visible skip where there is none."""
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (initdb and postgres were not found)")
    before: list[str] = []
    if os.name == "posix" and os.getuid() == 0:  # it refuses to run as root
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("PostgreSQL does not run as root, and there is no setpriv to run it as somebody else")
        before = [setpriv, "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    folder = Path(tempfile.mkdtemp(prefix="pw-pg-"))  # a short path: sockets have names of 107 characters at most
    if before:
        shutil.chown(folder, "nobody", "nogroup")
    run = {"cwd": folder, "check": True, "stdout": subprocess.DEVNULL, "env": {**os.environ, "HOME": str(folder)}}
    data = folder / "data"
    command = [*before, programs / "initdb", "-D", data, "-U", "poolwise", "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(command, **run)
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c max_connections=40 -c fsync=off"
    control = [*before, programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log"]
    subprocess.run([*control, "-o", options, "start"], **run)
    try:
        yield f"postgresql+psycopg://poolwise@/postgres?host={folder}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], **run)
        shutil.rmtree(folder, ignore_errors=True)


def new_database(server: str, name: str) -> str:
    """The URL of an empty place on the server: a schema of its own, which is made faster than a database."""
    import sqlalchemy as sa

    engine = sa.create_engine(server)
    with engine.begin() as connection:
        connection.execute(sa.text(f'CREATE SCHEMA "{name}"'))
    engine.dispose()
    return f"{server}&options=-csearch_path%3D{name}"
