"""What all handlers share."""

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from poolwise.labelling.server.access import Access, Session
from poolwise.labelling.server.desk import Desk
from poolwise.labelling.server.pictures import Pictures
from poolwise.labelling.worker import Worker


@dataclass(frozen=True)
class Context:
    """What all handlers share.

    Attributes:
        desk: hands out items and takes answers.
        access: who may come in.
        pictures: the images.
        worker: the background process; None if there is none.
    """

    desk: Desk
    access: Access
    pictures: Pictures
    worker: Worker | None

    def doing(self) -> dict[str, object]:
        """What the background process does now."""
        return {"doing": None} if self.worker is None else dict(self.worker.doing)


def context_of(request: Request) -> Context:
    """What all handlers share."""
    return cast(Context, request.app.state.context)


def session_of(request: Request) -> Session:
    """Who sends the request. The guard has made sure that there is somebody."""
    return cast(Session, request.state.session)
