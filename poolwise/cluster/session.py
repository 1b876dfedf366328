"""Starting or joining Ray, with errors that say what to do."""

import os
import re
from types import ModuleType, TracebackType
from typing import Any, Self

from poolwise.cluster.health import must_answer
from poolwise.cluster.watchdog import Watchdog
from poolwise.errors import ClusterError, MissingInputError, PoolwiseError

# How many times a task is started again if its process or machine dies.
RETRIES = 3


def library() -> ModuleType:
    """Ray, imported when it is first needed."""
    try:
        import ray
    except ImportError as error:
        raise MissingInputError("this needs Ray, which is not installed: pip install 'poolwise[ray]'.") from error
    module: ModuleType = ray
    return module


class Session:
    """A connection to Ray, made by `connect`. At the end of a `with` block it ends the Ray that it started.

    Args:
        started: whether the connection was made here.
        watchdog: ends a Ray that was started here if this process is killed.

    Example:
        >>> from poolwise import cluster
        >>> session = cluster.connect()  # doctest: +SKIP
        >>> session.close()  # doctest: +SKIP
    """

    def __init__(self, started: bool, watchdog: Watchdog | None = None) -> None:
        self._started, self._watchdog = started, watchdog

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster, or end Ray if it was started here. A connection that existed before is left alone."""
        if self._started:
            library().shutdown()
            self._started = False
        if self._watchdog is not None:
            self._watchdog.stop()


def connect(address: str | None = None, *, cpus: int | None = None, memory: int | None = None) -> Session:
    """Start Ray on this machine, or join a cluster. If this process is connected already, that connection is used.

    A Ray that is started here ends with this process, also if the process is killed (on Linux, within seconds).

    Args:
        address: `"host:port"` of a cluster, `"auto"` for one on this machine, `"local"` to start one here. None takes
            the environment variable `RAY_ADDRESS`, or else `"local"`.
        cpus: how many tasks run at a time, if Ray is started here; by default, one per processor.
        memory: bytes for Ray's object store, if it is started here; by default, what Ray chooses.

    Example:
        >>> import poolwise as pw
        >>> from poolwise import cluster
        >>> with cluster.connect("10.0.0.1:6379"):  # doctest: +SKIP
        ...     batch = pw.select(cluster.open_folder("/shared/preds"), 100)
    """
    ray = library()
    if ray.is_initialized():
        return Session(started=False)
    where = address or os.environ.get("RAY_ADDRESS") or "local"
    if where not in ("local", "auto"):
        must_answer(where)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns of what a later version will do
    try:
        if where == "local":
            return _start(cpus, memory)
        _join(where)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ClusterError(f"cannot join Ray at {where}: {_first_line(error)} {_advice(where)}") from error
    return Session(started=True)


def _start(cpus: int | None, memory: int | None) -> Session:
    """A Ray of this process alone, with a watchdog."""
    watchdog = Watchdog()
    try:
        with watchdog.marking():
            _join("local", num_cpus=cpus, object_store_memory=memory, include_dashboard=False)
    except BaseException:
        watchdog.stop()
        raise
    return Session(started=True, watchdog=watchdog)


def _join(where: str, **options: Any) -> None:
    library().init(where, log_to_driver=False, logging_level="ERROR", **options)


def _advice(where: str) -> str:
    if where == "local":
        return "Ray could not be started on this machine: its logs are in /tmp/ray/session_latest/logs."
    if where == "auto":
        return "Start one with ray start --head, or leave the address out to have one started while it is needed."
    return (
        "Something answers there. Is it the port of ray start --head? Is Ray of the same version on both sides? If the "
        "cluster asks for a token, are RAY_AUTH_MODE=token and the token set here?"
    )


def must_have(cpus: float, gpus: float) -> None:
    """Raise unless some machine of the cluster has what one task asks for: Ray would wait for it for ever."""
    machines = [node["Resources"] for node in library().nodes() if node["Alive"]]
    if any(has.get("CPU", 0) >= cpus and has.get("GPU", 0) >= gpus for has in machines):
        return
    most = [f"{max((has.get(what, 0) for has in machines), default=0):g} {what}s" for what in ("CPU", "GPU")]
    raise ClusterError(
        f"a task asks for {cpus:g} CPUs and {gpus:g} GPUs, and no machine of the cluster has both; the most that one "
        f"has is {' and '.join(most)}. Ask for less, or add a machine with ray start --address."
    )


def gather(references: list[Any]) -> list[Any]:
    """The results of tasks. An error on a worker is raised here, as if it had happened in this process."""
    ray = library()
    try:
        results: list[Any] = ray.get(references)
    except ray.exceptions.RayError as error:
        raise _explained(error) from error
    return results


def _explained(error: Exception) -> Exception:
    """What to raise for an error of Ray: errors of ours unchanged, Ray's own with an explanation."""
    known = library().exceptions
    cause = error.cause if isinstance(error, known.RayTaskError) else error
    lacking = re.search(r"No module named '([^']+)'", str(error))
    if isinstance(cause, PoolwiseError):
        return cause
    if lacking is not None:
        return ClusterError(
            f"a worker cannot import {lacking[1]!r}. Every machine of the cluster needs the packages that this one "
            "has: install it there, in the same version, or put the file that defines it on their Python path."
        )
    if isinstance(cause, known.ObjectLostError):
        return ClusterError(
            "predictions that were kept in Ray are gone, with the machine or process that had them. Ray cannot make "
            "them again. Predict again, or predict into a folder that every machine can read."
        )
    if isinstance(cause, known.WorkerCrashedError | known.OutOfMemoryError | known.NodeDiedError):
        return ClusterError(
            f"a task was started {RETRIES + 1} times, and each time its process died, perhaps for lack of memory: "
            f"{_first_line(cause)} Use smaller shards, or fewer tasks at a time."
        )
    return ClusterError(f"a task failed on Ray: {error}")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
