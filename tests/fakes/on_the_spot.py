"""A pool of threads without a thread, so that a test knows when its work is done."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class OnTheSpot(Executor):
    """Does at once, on the caller's thread, what is submitted."""

    def __init__(self, *_: object) -> None: ...

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call `fn`."""
        done = Future[T]()
        done.set_result(fn(*args, **kwargs))
        return done
