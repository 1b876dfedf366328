"""The web application: pages, calls of the script, images and static files behind one guard."""

from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from poolwise.errors import PoolwiseError
from poolwise.labelling.server import api, pages
from poolwise.labelling.server.access import Access
from poolwise.labelling.server.context import Context
from poolwise.labelling.server.desk import Desk
from poolwise.labelling.server.guard import Guard
from poolwise.labelling.server.pictures import Pictures
from poolwise.labelling.worker import Worker

Application = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]


def make_app(desk: Desk, access: Access, worker: Worker | None = None) -> Application:
    """The application.

    Args:
        desk: hands out items and takes answers.
        access: who may come in.
        worker: the background process; None if nothing is trained.
    """
    app = FastAPI(title="Poolwise", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.context = Context(desk, access, Pictures(desk.project), worker)
    app.include_router(pages.router)
    app.include_router(api.router)
    app.include_router(api.images)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(PoolwiseError, _failed)
    app.add_exception_handler(Exception, _failed)
    return Guard(app, access)


def _answer(request: Request, status: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    if request.url.path.startswith(("/api/", "/image/")):
        return JSONResponse({"error": reason}, status, headers)
    return HTMLResponse(pages.message_page(status, reason), status, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reason = "There is no such page." if error.status_code == 404 and error.detail == "Not Found" else error.detail
    return _answer(request, error.status_code, reason, dict(error.headers or {}))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or "request"
    return _answer(request, 422, f"{where}: {first['msg']}.")


async def _failed(request: Request, error: Exception) -> Response:
    reason = str(error) if isinstance(error, PoolwiseError) else "Something went wrong on the server."
    return _answer(request, 500, reason)
