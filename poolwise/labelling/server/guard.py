"""What stands in front of every handler: Host, session, origin, size of the body, and the headers of every answer."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from poolwise.labelling.server.access import Access, Session

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Bytes of a request. An answer has less than 1 kB, and a page that was offline sends 100 at a time.
_LARGEST = 256 << 10

_TOO_LARGE = f"The request is larger than {_LARGEST >> 10} kB."

_SAFE = {"GET", "HEAD"}

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}


class Guard:
    """Checks requests before they reach the pages.

    Args:
        app: the pages.
        access: who may come in.
    """

    def __init__(self, app: App, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no web sockets here
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        shown = _with_headers(send)
        if sum(name == b"host" for name, _ in scope["headers"]) != 1 or not self._access.rules.knows(headers["host"]):
            await _refuse(scope, shown, 421, "This server is not known by that name. Use the address that it printed.")
            return
        cookie = _cookie(headers.get("cookie", ""), self._access.cookie)
        if self._access.fresh:
            session = self._access.session(cookie)
        else:  # the store has to be asked
            session = await run_in_threadpool(self._access.session, cookie)
        public = scope["path"].startswith(("/static/", "/enter/"))
        if session is None and not self._access.rules.links:
            session = self._access.visitor()  # the first page that it opens gives it a name and a cookie
        if session is None and not public:
            await _refuse(scope, shown, 401, "You need an access link. Ask the person who runs this project for one.")
            return
        if scope["method"] not in _SAFE:
            reason = self._access.refusal(session or Session("", ""), lambda name: headers.get(name, ""))
            if reason is not None or session is None:
                await _refuse(scope, shown, 403, f"Nothing was changed: {reason}.")
                return
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > _LARGEST:
            await _refuse(scope, shown, 413, _TOO_LARGE)
            return
        scope.setdefault("state", {})["session"] = session
        await self._app(scope, _limited(receive), shown)


def _cookie(header: str, name: str) -> str | None:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def _limited(receive: Receive) -> Receive:
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > _LARGEST:
            raise HTTPException(413, _TOO_LARGE)
        return message

    return limited


def _with_headers(send: Send) -> Send:
    async def shown(message: Message) -> None:
        if message["type"] == "http.response.start":
            have = {name.lower() for name, _ in message["headers"]}
            extra = {**_HEADERS, "cache-control": "no-store"}
            added = [(k.encode(), v.encode()) for k, v in extra.items() if k.encode() not in have]
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return shown


async def _refuse(scope: Scope, send: Send, status: int, reason: str) -> None:
    if scope["path"].startswith("/api/"):
        kind, body = "application/json", json.dumps({"error": reason}).encode()
    else:
        from poolwise.labelling.server.pages import message_page

        kind, body = "text/html; charset=utf-8", message_page(status, reason).encode()
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
