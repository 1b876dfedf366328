"""Whether a Ray cluster answers at an address. Ray itself keeps trying a wrong address for more than half a minute."""

import re
import socket
import subprocess
import sys

from poolwise.errors import ClusterError, ParameterError

# Seconds to open a connection.
_CONNECT = 3.0
# Seconds for Ray's own check. Most of a successful one is the import of Ray.
_CHECK = 10.0

_CLIENT = "ray://"  # Ray Client, which speaks to another server than the one that is checked here


def must_answer(address: str) -> None:
    """Raise unless a Ray cluster answers at `host:port`.

    Ray's check runs in a separate process, since inside this one it could not be stopped.
    """
    host, _, port = address.removeprefix(_CLIENT).rpartition(":")
    if not re.fullmatch(r"[^\s/]+", host) or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 1 << 16:
        raise ParameterError(
            f'a Ray address is "host:port" (a port is 1 to 65535), "auto" or "local", not {address!r}.'
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT).close()
    except UnicodeError as error:
        raise _silent(address, "no host can have this name") from error
    except OSError as error:
        raise _silent(address, error.strerror or str(error)) from error
    if not address.startswith(_CLIENT):
        _must_be_ray(address)


def _must_be_ray(address: str) -> None:
    """Raise unless `ray health-check` succeeds in time. Versions are compared later, when Ray joins the cluster."""
    check = ["-m", "ray.scripts.scripts", "health-check", "--skip-version-check", "--address", address]
    try:
        done = subprocess.run(
            [sys.executable, *check], stdin=subprocess.DEVNULL, capture_output=True, timeout=_CHECK, check=False
        )
    except subprocess.TimeoutExpired as error:
        reason = f"it accepts connections, but is not Ray or did not answer within {_CHECK:g} seconds"
        raise _silent(address, reason) from error
    if done.returncode:
        raise _silent(address, "what answers there is not Ray")


def _silent(address: str, reason: str) -> ClusterError:
    return ClusterError(
        f"no Ray cluster answers at {address} ({reason}). Is it running (ray start --head on its first machine), and "
        "is the port open? Leave the address out, and RAY_ADDRESS unset, to run on this machine alone."
    )
