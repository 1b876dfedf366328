"""Parallel work on whole blocks: each block on its own thread, and each operation on that one thread.

PyTorch splits every operation over its threads and waits for the slowest. On blocks that fit a cache this gains little.
On a busy machine it costs a time slice per operation and can be a hundred times slower. Here PyTorch uses one thread
per operation, and as many blocks are worked on at once as PyTorch was allowed threads.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

_lock = threading.Lock()
_here = threading.local()  # .depth: how many times the calling thread is inside `one_thread_an_operation`
_inside = 0  # how many threads are
_allowed = 1  # how many threads PyTorch was allowed before the first of them


@contextmanager
def one_thread_an_operation() -> Iterator[None]:
    """Limit PyTorch to one thread per operation, without gradients; the thread count is restored at the end.

    Inference mode is switched off inside, since it hides whether a tensor was written to.
    """
    global _inside, _allowed
    _here.depth = getattr(_here, "depth", 0) + 1
    if _here.depth == 1:
        with _lock:
            if _inside == 0:
                _allowed = torch.get_num_threads()
            _inside += 1
        torch.set_num_threads(1)
    try:
        with torch.inference_mode(False), torch.no_grad():
            yield
    finally:
        _here.depth -= 1
        if _here.depth == 0:
            with _lock:
                _inside -= 1
            torch.set_num_threads(_allowed)


@contextmanager
def threads_an_operation(count: int | None) -> Iterator[None]:
    """Let PyTorch split operations over this many threads; None leaves the number unchanged."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def ordered_map(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Results of a function on each item, in order, computed on as many threads as PyTorch is allowed.

    At most two items per thread are in progress, so memory stays bounded. Outside `one_thread_an_operation` this is a
    plain map.
    """
    workers = _allowed if getattr(_here, "depth", 0) else 1
    if workers == 1 or len(items) == 1:
        yield from map(function, items)
        return

    def work(item: Item) -> Result:
        with torch.no_grad():
            return function(item)

    # A new thread starts with the number of threads of the process, not with that of the thread which started it.
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        under_way: deque[Future[Result]] = deque()
        try:
            for item in items:
                under_way.append(pool.submit(work, item))
                if len(under_way) >= 2 * workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()
