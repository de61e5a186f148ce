"""Threads for work that releases the GIL: matrix products, sorting, sparse products."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeAlias

from threadpoolctl import ThreadpoolController

Map: TypeAlias = Callable[..., Iterable[Any]]
"""Calls a function for each element, as `map` does."""


@contextmanager
def threads(number: int) -> Iterator[Map]:
    """Provide a `map` that runs in this many threads; inside, a matrix product uses one thread only."""
    with _controller().limit(limits=1, user_api="blas"):
        yield map if number == 1 else partial(_map_in_threads, number)


def _map_in_threads(number: int, function: Callable[..., Any], *elements: Iterable[Any]) -> list[Any]:
    """Call `function` in several threads, this one among them: waking another takes longer than some of the work."""
    todo = deque(enumerate(zip(*elements, strict=True)))
    results: list[Any] = [None] * len(todo)

    def work() -> None:
        while True:
            try:
                place, arguments = todo.popleft()
            except IndexError:
                return
            try:
                results[place] = function(*arguments)
            except BaseException:
                todo.clear()
                raise

    helpers = [_pool(number - 1).submit(work) for _ in range(min(number, len(todo)) - 1)]
    try:
        work()
    finally:
        errors = [helper.exception() for helper in helpers]
    for error in errors:
        if error is not None:
            raise error
    return results


@cache
def _pool(number: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(number, thread_name_prefix="tpn")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
