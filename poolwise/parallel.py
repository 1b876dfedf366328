"""Parallel work without waiting: whole blocks on threads of their own, each operation on one.

PyTorch splits every single operation over its threads and waits for the slowest. On blocks that fit a cache that gains
little, and on a machine that is busy with anything else it costs a time slice per operation, a hundredfold slowdown.
Here PyTorch is held to one thread, and as many blocks are worked on at once as it was allowed threads before.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

_lock = threading.Lock()
_depth = 0
_allowed = 1


@contextmanager
def one_thread_an_operation() -> Iterator[None]:
    """Hold PyTorch to one thread an operation and to no gradients; the thread count is put back at the end."""
    global _depth, _allowed
    with _lock:
        if _depth == 0:
            _allowed = torch.get_num_threads()
        _depth += 1
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            yield
    finally:
        with _lock:
            _depth -= 1
        torch.set_num_threads(_allowed)


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results of a function on each item, in order, computed on as many threads as PyTorch is allowed.

    At most two items a thread are under way, so memory stays bounded. Outside `one_thread_an_operation` it is a plain
    map.
    """
    workers = _allowed if _depth else 1
    if workers == 1:
        yield from map(function, items)
        return

    def work(item: Item) -> Result:
        with torch.no_grad():
            return function(item)

    with ThreadPoolExecutor(workers) as pool:
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
