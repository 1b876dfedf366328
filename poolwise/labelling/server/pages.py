"""The pages: label, progress, review, team."""

import json
import time
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jinja2
import numpy as np
from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from poolwise import __version__
from poolwise.labelling import reasons
from poolwise.labelling.review import load_review
from poolwise.labelling.saved import load_saved
from poolwise.labelling.server.access import Session
from poolwise.labelling.server.context import Context, context_of, session_of
from poolwise.labelling.server.curve import draw_curve
from poolwise.labelling.server.desk import Desk

router = APIRouter()

_HERE = Path(__file__).parent

# Pairs and doubts on one page.
_SHOWN = 24

# Answers without a label, in words.
_ASIDE = {"skip": "skipped", "unsure": "not known", "unlabelable": "that cannot be labelled"}

# Characters of a text in a list.
_BEGINNING = 600


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["ago"] = _ago
    environment.filters["percent"] = lambda share: "–" if share is None else f"{share:.0%}"
    environment.globals["version"] = __version__
    environment.globals["stamp"] = _stamp()
    return environment


def _stamp() -> str:
    """Changes when a style or a script does, so that no browser keeps an old one."""
    newest = max(path.stat().st_mtime_ns for path in (_HERE / "static").iterdir())
    return f"{newest // 1_000_000:x}"


def _ago(at: float | None) -> str:
    """How long ago, in words."""
    if not at:
        return "–"
    seconds = max(0.0, time.time() - at)
    if seconds < 60:
        return "just now"
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'s' if count != 1 else ''} ago"
    raise AssertionError


def render(name: str, **values: Any) -> str:
    """A page from its template; everything in it is escaped."""
    return _templates().get_template(name).render(**values)


def message_page(status: int, reason: str) -> str:
    """A page that only says something."""
    return render("message.html", status=status, title=HTTPStatus(status).phrase, reason=reason)


async def _page(request: Request, name: str, about: Any) -> Response:
    """A page, for a browser that has a name, or gets one now."""
    context, session = context_of(request), session_of(request)

    def make() -> tuple[str, str | None]:
        now, cookie = session, None
        if not now.person:
            now = Session(context.access.name_for(now.browser), now.browser, True)
            cookie = context.access.signed(now)
        context.desk.refresh()
        values = about(context, now)
        page = render(
            name,
            here=name.partition(".")[0],
            project=context.desk.project.folder.name.removesuffix(".poolwise"),
            person=now.person,
            token=context.access.token(now),
            links=context.access.rules.links,
            owner=now.owner,
            **values,
        )
        return page, cookie

    page, cookie = await run_in_threadpool(make)
    response = HTMLResponse(page)
    if cookie is not None:
        set_cookie(response, request, context, cookie)
    return response


def set_cookie(response: Response, request: Request, context: Context, value: str) -> None:
    """Give a session to a browser."""
    response.set_cookie(
        context.access.cookie,
        value,
        max_age=30 * 86_400,
        path="/",
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )


@router.get("/")
async def label(request: Request) -> Response:
    """The page to label on."""

    def about(context: Context, session: Session) -> Mapping[str, Any]:
        desk = context.desk
        kind = "image" if desk.items.files is not None else "text"
        begin = {"status": desk.status(), "worker": context.doing(), "kind": kind, "person": session.person}
        uid = desk.project.description.uid
        return {"begin": json.dumps({**begin, "project": uid}), "kind": kind}

    return await _page(request, "label.html", about)


@router.get("/progress")
async def progress(request: Request) -> Response:
    """How it is going."""
    return await _page(request, "progress.html", lambda context, session: progress_of(context.desk))


def progress_of(desk: Desk) -> dict[str, Any]:
    """What the page of progress shows."""
    known, counts = desk.known, desk.counts()
    batch = known.batches[-1] if known.batches else None
    most = max(counts.values(), default=0)
    kinds = dict.fromkeys(_ASIDE, 0)
    for current in desk.fold.items.values():
        if current.label is None and current.answers and current.answers[-1].kind in kinds:
            kinds[current.answers[-1].kind] += 1
    same = _same(desk)
    return {
        "status": desk.status(),
        "labels": sum(counts.values()),
        "items": len(desk.items),
        "balance": [(name, counts[name], counts[name] / most if most else 0) for name in desk.classes],
        "set_aside": [f"{count:,} {_ASIDE[kind]}" for kind, count in kinds.items() if count],
        "curve": draw_curve(known.models),
        "model": known.models[-1] if known.models else None,
        "batch": batch,
        "saturation": reasons.saturation(batch.notes, len(batch.picks)) if batch is not None else None,
        "outlook": reasons.outlook(known.models, same),
        "saved": load_saved(desk.project.folder),
        "few_checks": reasons.FEW_CHECKS,
    }


def _same(desk: Desk) -> float | None:
    """The share of items for which the last two models predict the same class."""
    now, before = desk.known.predicted, desk.known.before
    if now is None or before is None:
        return None
    count = min(len(now.ids), len(before.ids))
    one = np.array(now.classes, object)[now.probs[:count].argmax(1)]
    two = np.array(before.classes, object)[before.probs[:count].argmax(1)]
    return float(np.mean(one == two)) if count else None


@router.get("/review")
async def review(request: Request) -> Response:
    """Labels to look at again."""
    return await _page(request, "review.html", lambda context, session: review_of(context.desk))


def review_of(desk: Desk) -> dict[str, Any]:
    """What the page of reviews shows: what has been settled since is left out."""
    found, items, done = load_review(desk.project.folder), desk.fold.items, desk.answers.reviewed

    def label_of(name: str) -> str | None:
        return items[name].label if name in items and name in desk.items.position else None

    conflicts = [
        (_listed(desk, name), [(a.person or "–", a.label) for a in current.answers if a.kind == "label"])
        for name, current in items.items()
        if current.conflict and name in desk.items.position
    ]
    doubts = [
        (_listed(desk, doubt.item), doubt)
        for doubt in found.doubts
        if doubt.item not in done and label_of(doubt.item) == doubt.label
    ]
    twins = []
    for pair in found.twins:
        one, two = label_of(pair.first), label_of(pair.second)
        if one is not None and two is not None and one != two and not {pair.first, pair.second} <= done:
            twins.append((_listed(desk, pair.first), _listed(desk, pair.second)))
    return {
        "conflicts": conflicts[:_SHOWN],
        "doubts": doubts[:_SHOWN],
        "twins": twins[:_SHOWN],
        "counts": {"conflicts": len(conflicts), "doubts": len(doubts), "twins": len(twins)},
        "classes": desk.classes,
        "ready": bool(found.after_event),
        "trained": bool(desk.known.models),
    }


def _listed(desk: Desk, name: str) -> dict[str, Any]:
    shown = desk.shown(name)
    if len(shown.get("text", "")) > _BEGINNING:
        shown["text"] = shown["text"][:_BEGINNING] + " …"
    return shown


@router.get("/team")
async def team(request: Request) -> Response:
    """Who does what."""
    return await _page(request, "team.html", team_of)


def team_of(context: Context, session: Session) -> dict[str, Any]:
    """What the page of the team shows."""
    desk = context.desk
    leased, given, last = desk.store.leased(), desk.answers.given, desk.answers.last
    people = {person.name: person for person in desk.store.people()}
    names = list(dict.fromkeys([*people, *given, *leased]))
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "you": name == session.person,
            "counts": given.get(name, {}),
            "leased": len(leased.get(name, [])),
            "last": last.get(name),
            "access": None if name not in people else "revoked" if people[name].revoked else "link",
            "owner": name == context.access.rules.owner,
        }
        for name in names
    ]
    return {"rows": rows, "twice": desk.project.description.twice, "agreement": desk.agreement()}


@router.get("/enter/{token}")
async def enter(request: Request, token: str) -> Response:
    """Come in with an access link; the address that the browser keeps has no token in it."""
    context = context_of(request)
    if not context.access.rules.links:
        return RedirectResponse("/", 303)
    address = request.client.host if request.client is not None else ""
    wait = context.access.limit.wait(address)
    if wait > 0:
        raise HTTPException(429, "Too many attempts. Wait a minute.", {"retry-after": str(int(wait) + 1)})
    session = await run_in_threadpool(context.access.enter, token, address)
    if session is None:
        raise HTTPException(401, "This access link is not valid, or it was revoked. Ask for a new one.")
    response = RedirectResponse("/", 303)
    set_cookie(response, request, context, context.access.signed(session))
    return response


@router.get("/labels.{ending}")
async def download(request: Request, ending: str) -> Response:
    """The labels as a file."""
    kinds = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
    if ending not in kinds:
        raise HTTPException(404, "Labels can be downloaded as .csv or .jsonl.")
    project = context_of(request).desk.project

    def written() -> bytes:
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"labels.{ending}"
            project.export(path)
            return path.read_bytes()

    headers = {"content-disposition": f"attachment; filename=labels.{ending}"}
    return Response(await run_in_threadpool(written), media_type=kinds[ending], headers=headers)
