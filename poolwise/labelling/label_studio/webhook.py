"""A small server that Label Studio calls when something happened there.

A call only ends the wait for the next look. Nothing in it is used, so a forged one could do no more than that; and it
is answered only with the secret.
"""

import hmac
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from poolwise.errors import ParameterError

HEADER = "X-Poolwise-Secret"

# Bytes of a call that are read.
_LONGEST = 1 << 20


class Receiver:
    """Listens for calls. Use as a context.

    Args:
        host: the address to listen on.
        port: the port; 0 for any that is free.
        secret: what the header `X-Poolwise-Secret` must be.
    """

    def __init__(self, host: str, port: int, secret: str) -> None:
        if len(secret) < 16:
            raise ParameterError("the secret of the webhook must have at least 16 characters.")
        self._news = threading.Event()
        news = self._news

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_POST(self) -> None:
                given = self.headers.get(HEADER, "")
                allowed = hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())
                length = self.headers.get("Content-Length", "")
                small = length.isdecimal() and int(length) <= _LONGEST
                if allowed and small:
                    self.rfile.read(int(length))
                    news.set()
                self.send_response(204 if allowed and small else 413 if allowed else 403)
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise ParameterError(
                f"cannot listen on {host}:{port} ({error.strerror}). Choose another webhook=."
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="webhook", daemon=True)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    def wait(self, seconds: float) -> bool:
        """Wait for a call, at most this long; whether one came."""
        came = self._news.wait(seconds)
        self._news.clear()
        return came

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
