"""What the script of the page calls: items, answers, classes, people."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from poolwise.errors import FileError, PoolwiseError
from poolwise.labelling.server.access import Session
from poolwise.labelling.server.context import Context, context_of, session_of
from poolwise.labelling.server.desk import MOST, Said

router = APIRouter(prefix="/api")

_REQUEST = r"^[A-Za-z0-9_-]{8,64}$"


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Work(_Body):
    """A person wants items."""

    want: Annotated[int, Field(ge=1, le=MOST)]


class Answer(_Body):
    """What somebody says about one item."""

    request: Annotated[str, Field(pattern=_REQUEST)]
    item: Annotated[str, Field(max_length=4_096)]
    kind: Annotated[str, Field(max_length=20)]
    label: Annotated[str | None, Field(max_length=500)] = None


class Answers(_Body):
    """Several answers at once, as after a time without a network."""

    answers: Annotated[list[Answer], Field(max_length=200)]


class Name(_Body):
    """A class, or a person."""

    name: Annotated[str, Field(min_length=1, max_length=200)]


def _state(context: Context) -> dict[str, Any]:
    status = context.desk.status()
    if context.worker is not None:
        context.worker.people(max(1, status["people"]))
    return {**status, "worker": context.doing()}


def _named(session: Session) -> str:
    if not session.person:
        raise HTTPException(403, "This page is out of date. Reload it.")
    return session.person


@router.post("/work")
async def work(request: Request, body: Work) -> Response:
    """Items to label."""
    context, session = context_of(request), session_of(request)

    def give() -> dict[str, Any]:
        context.access.seen(session)
        items = context.desk.work(_named(session), body.want)
        ready = bool(context.desk.known.batches) or context.desk.impatient
        held = not items and context.desk.held_by_others(_named(session))
        return {"items": items, "ready": ready, "held": held, "status": _state(context)}

    return JSONResponse(await run_in_threadpool(give))  # plain values: nothing has to be converted


@router.post("/answers")
async def answers(request: Request, body: Answers) -> Response:
    """Store answers. What is listed under `stored` is on the disk."""
    context, session = context_of(request), session_of(request)
    given = [Said(answer.request, answer.item, answer.kind, answer.label) for answer in body.answers]

    def take() -> dict[str, Any]:
        stored, refused = context.desk.answer(_named(session), given)
        said = {one.item: context.desk.model_says(one.item) for one in given if one.kind in ("label", "correct")}
        return {"stored": stored, "refused": refused, "model": said, "status": _state(context)}

    return JSONResponse(await run_in_threadpool(take))


@router.get("/status")
async def status(request: Request) -> Response:
    """Where things stand, as far as this process knows: it looks at the store every second."""
    return JSONResponse(_state(context_of(request)))


@router.get("/recent")
async def recent(request: Request) -> Response:
    """What this person answered last, to go back to after a reload."""
    context, session = context_of(request), session_of(request)
    return JSONResponse({"items": context.desk.recent(_named(session))})


@router.get("/text/{place}")
async def text(request: Request, place: int) -> dict[str, str]:
    """The whole of a long text."""
    texts = context_of(request).desk.items.texts
    if texts is None or not 0 <= place < len(texts):
        raise HTTPException(404, "There is no such text.")
    return {"text": texts[place]}


@router.post("/release")
async def release(request: Request) -> dict[str, bool]:
    """Give back all items of a person who leaves."""
    context, session = context_of(request), session_of(request)
    await run_in_threadpool(context.desk.store.release, _named(session))
    return {"released": True}


@router.post("/classes")
async def add_class(request: Request, body: Name) -> dict[str, Any]:
    """Add a class."""
    context, session = context_of(request), session_of(request)

    def add() -> dict[str, Any]:
        project = context.desk.project
        if not body.name.strip():
            raise HTTPException(422, "A class needs a name.")
        try:
            project.add_classes([body.name], person=_named(session), origin="page")
        except PoolwiseError as error:
            raise HTTPException(422, str(error)) from error
        return {"classes": context.desk.classes}

    return await run_in_threadpool(add)


@router.post("/people")
async def add_person(request: Request, body: Name) -> dict[str, str]:
    """Make an access link. It is shown once: the store only has a hash of it."""
    context, session = context_of(request), session_of(request)
    _owners_only(context, session)

    def add() -> str:
        try:
            token = context.desk.store.add_person(body.name)
        except PoolwiseError as error:
            raise HTTPException(422, str(error)) from error
        context.access.changed()
        return token

    token = await run_in_threadpool(add)
    return {"name": body.name.strip(), "path": f"/enter/{token}"}


@router.post("/people/revoke")
async def revoke(request: Request, body: Name) -> dict[str, str]:
    """End a person's access. Their labels stay."""
    context, session = context_of(request), session_of(request)
    _owners_only(context, session)
    if body.name == context.access.rules.owner:
        raise HTTPException(422, "You cannot end your own access.")

    def end() -> None:
        try:
            context.desk.store.revoke(body.name)
        except PoolwiseError as error:
            raise HTTPException(422, str(error)) from error
        context.desk.store.release(body.name)
        context.access.changed()

    await run_in_threadpool(end)
    return {"name": body.name}


def _owners_only(context: Context, session: Session) -> None:
    if not context.access.rules.links:
        raise HTTPException(
            409, "This server is open to this machine only. Start it with --host to give others access."
        )
    if not session.owner:
        raise HTTPException(403, f"Only {context.access.rules.owner} can change who has access.")


images = APIRouter()


@images.get("/image/{place}")
async def image(request: Request, place: int, size: str = "shown") -> Response:
    """The image of an item, decoded and encoded again."""
    pictures = context_of(request).pictures
    try:
        picture = await run_in_threadpool(pictures.get, place, size)
    except FileError as error:
        raise HTTPException(404, "This image cannot be shown.") from error
    mark = f'"{picture.stamp}-{size}"'
    headers = {"etag": mark, "cache-control": "private, no-cache", "content-disposition": "inline"}
    if request.headers.get("if-none-match") == mark:
        return Response(status_code=304, headers=headers)
    headers["content-security-policy"] = "default-src 'none'; sandbox; frame-ancestors 'none'"
    return Response(picture.data, media_type=picture.kind, headers=headers)
