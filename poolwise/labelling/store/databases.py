"""Where a store is: a SQLite file, or a PostgreSQL database. Transactions are the same on both."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from poolwise.errors import FileError, MissingInputError, ParameterError
from poolwise.labelling.store.sqlite import DatabaseFile

_SCHEMES = ("postgresql", "postgresql+psycopg", "postgres")

# Any number: whoever writes to a store in PostgreSQL waits for this lock, as whoever writes to SQLite does.
_WRITER = 7_201_437_651


class Database:
    """Connections to a database, for reading, or for writing one transaction at a time.

    Args:
        engine: of SQLAlchemy.
        where: what to call it in errors.
        close: called at the end.
    """

    def __init__(self, engine: sa.Engine, where: str, close: Callable[[], None]) -> None:
        self._engine, self.where, self._close = engine, where, close
        self._turn = threading.Lock()  # a thread waits here for less time than in the queue of SQLite
        self._postgresql = engine.dialect.name == "postgresql"

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the store."""
        with self._errors(), self._engine.connect() as connection:
            if self._postgresql:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[sa.Connection]:
        """A transaction that nobody else writes during; it is on disk when the block ends.

        Args:
            durable: whether to wait for the disk. A transaction that does not wait survives the end of this process,
                and may be lost, as a whole, if the machine stops.
        """
        with self._errors(), self._turn, self._engine.connect() as connection:
            connection = connection.execution_options(poolwise_writes="FULL" if durable else "NORMAL")
            with connection.begin():
                if self._postgresql:
                    if not durable:
                        connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_WRITER)))
                yield connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            reason = " ".join(str(error.orig).split())
            raise FileError(f"{self.where}: {reason}. Nothing of this step was stored.") from error
        except SQLAlchemyError as error:
            raise FileError(f"{self.where}: {' '.join(str(error).split())[:300]}.") from error

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()
        self._close()


def open_database(place: str | Path) -> Database:
    """Connect to a file, or to the database of a URL."""
    return _postgresql(str(place)) if "://" in str(place) else _sqlite(Path(place))


def _sqlite(path: Path) -> Database:
    import sqlite3

    try:
        file = DatabaseFile(path)
    except sqlite3.Error as error:
        raise FileError(f"{path}: {error}. Restore it from a copy.") from error
    except OSError as error:
        raise FileError(f"{path}: cannot be opened ({error.strerror}).") from error
    engine = sa.create_engine("sqlite://", creator=file.connect, poolclass=sa.pool.QueuePool, pool_size=8)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("poolwise_writes")
        if writes is not None:  # in a log, NORMAL leaves it to the next FULL commit to wait for the disk
            connection.exec_driver_sql(f"PRAGMA synchronous = {writes}")
        connection.exec_driver_sql("BEGIN" if writes is None else "BEGIN IMMEDIATE")

    return Database(engine, str(file.path), file.close)


def _postgresql(url: str) -> Database:
    try:
        place = sa.make_url(url)
    except ArgumentError as error:
        raise ParameterError(f"database must be a URL such as postgresql://me@host/labels, not {url!r}.") from error
    if place.drivername not in _SCHEMES:
        raise ParameterError(
            f"database must be a URL that begins with postgresql://, not {place.drivername}://. Leave it out to keep "
            "labels in a file of the project."
        )
    place = place.set(drivername="postgresql+psycopg")
    try:
        engine = sa.create_engine(place, pool_pre_ping=True, pool_size=8, max_overflow=16)
    except (ImportError, NoSuchModuleError) as error:
        raise MissingInputError(
            "PostgreSQL needs the package psycopg. Install it with: pip install 'psycopg[binary]'"
        ) from error

    @sa.event.listens_for(engine, "connect")
    def durable(connection: object, _: object) -> None:
        with connection.cursor() as cursor:  # type: ignore[attr-defined]
            cursor.execute("SELECT set_config('synchronous_commit', 'on', false) WHERE "
                           "current_setting('synchronous_commit') = 'off'")  # fmt: skip
        connection.commit()  # type: ignore[attr-defined]

    return Database(engine, place.render_as_string(hide_password=True), lambda: None)
