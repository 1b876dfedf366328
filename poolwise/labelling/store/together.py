"""Many threads that want the same kind of thing at once: one of them does it for all, in one transaction."""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar


class Request:
    """Something that a thread wants to be done.

    Attributes:
        error: why it could not be done; None if it was.
        done: whether it has been dealt with.
    """

    error: BaseException | None = None
    done: bool = False


Wanted = TypeVar("Wanted", bound=Request)


class Together(Generic[Wanted]):
    """Deals with requests of threads: those that come while others are being dealt with wait, and are then one group.

    Args:
        work: deals with a group, in the order in which they came. It sets the `error` of a request that fails alone; an
            error that it raises is one of them all.

    Example:
        >>> sizes = []
        >>> Together(lambda group: sizes.append(len(group))).do(Request())
        >>> sizes
        [1]
    """

    def __init__(self, work: Callable[[Sequence[Wanted]], object]) -> None:
        self._work = work
        self._waiting: list[Wanted] = []
        self._turn, self._busy = threading.Condition(), False

    def do(self, request: Wanted) -> None:
        """Wait until a request has been dealt with, by this thread or another; raises its error."""
        with self._turn:
            self._waiting.append(request)
            self._turn.wait_for(lambda: request.done or not self._busy)
            if not request.done:
                self._busy = True
        if not request.done:
            self._work_for_all()
        if request.error is not None:
            raise request.error

    def _work_for_all(self) -> None:
        with self._turn:
            group, self._waiting = self._waiting, []
        try:
            self._work(group)
        except BaseException as error:
            for request in group:
                request.error = request.error or error
        finally:
            with self._turn:
                for request in group:
                    request.done = True
                self._busy = False
                self._turn.notify_all()
