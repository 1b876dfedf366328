"""Whether a server of Ray's kind answers at an address. Ray itself would go on trying for more than a minute.

Ray's servers speak gRPC, which is HTTP/2 (RFC 9113). One call is made, of a method that need not exist: a gRPC server
answers any call with the HTTP status 200, and says in its own fields what became of it; any other server does not.
"""

import re
import socket
import time

from poolwise.errors import ClusterError, ParameterError

# An address must answer within this time (seconds), to connect and to reply.
_PATIENCE = 3.0

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS, _SETTINGS = 1, 4
_WHOLE = 0x4 | 0x1  # no further headers, and no body
_STATUS_200 = 0x88  # how HPACK (RFC 7541) writes it: entry 8 of the static table
_TABLE_SIZE = 0x20  # a change of the table size, which may come first


def must_answer(address: str) -> None:
    """Raise unless a server of Ray's kind answers at `host:port`."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not re.fullmatch(r"[^\s/]+", host) or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 1 << 16:
        raise ParameterError(
            f'a Ray address is "host:port" (a port is 1 to 65535), "auto" or "local", not {address!r}.'
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _PATIENCE) as connection:
            connection.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + _frame(_HEADERS, _WHOLE, 1, _call(address)))
            answered = _is_grpc(connection, time.monotonic() + _PATIENCE)
    except UnicodeError as error:
        raise _silent(address, "no host can have this name") from error
    except OSError as error:
        raise _silent(address, error.strerror or str(error)) from error
    if not answered:
        raise _silent(address, "what answers there is not Ray")


def _call(address: str) -> bytes:
    """The headers of a call, without compression: indexed fields, and fields with an indexed name."""
    path, kind = b"/grpc.health.v1.Health/Check", b"application/grpc"
    method_post, scheme_http = b"\x83", b"\x86"
    return (
        method_post + scheme_http + b"\x04" + _text(path) + b"\x01" + _text(address.encode())
        + b"\x0f\x10" + _text(kind) + b"\x00" + _text(b"te") + _text(b"trailers")
    )  # fmt: skip


def _text(value: bytes) -> bytes:
    return bytes([min(len(value), 126)]) + value[:126]


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + content


def _is_grpc(connection: socket.socket, deadline: float) -> bool:
    """Whether the answer to the call begins with the status 200."""
    while True:
        head = _read(connection, 9, deadline)
        if len(head) < 9 or head[3] > 9 or (size := int.from_bytes(head[:3])) > 1 << 14:
            return False
        content = _read(connection, size, deadline)
        if head[3] == _HEADERS:
            fields = content.lstrip(bytes(range(_TABLE_SIZE, 2 * _TABLE_SIZE)))
            return fields[:1] == bytes([_STATUS_200])


def _read(connection: socket.socket, size: int, deadline: float) -> bytes:
    """So many bytes, or fewer if there are no more."""
    found = b""
    while len(found) < size:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        some = connection.recv(size - len(found))
        if not some:
            break
        found += some
    return found


def _silent(address: str, reason: str) -> ClusterError:
    return ClusterError(
        f"no Ray cluster answers at {address} ({reason}). Is it running (ray start --head on its first machine), and "
        "is the port open? Leave the address out, and RAY_ADDRESS unset, to run on this machine alone."
    )
