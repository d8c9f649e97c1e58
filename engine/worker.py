"""A thread that does what it is given, one after the other, until it is told to end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar
from weakref import WeakSet

Result = TypeVar("Result")
_Given = tuple[Callable[[], Any], Future[Any]]


class Worker:
    """For work that has MLX compute: it keeps for good a thread of its own for each that does.

    The process ends without waiting for it.
    """

    def __init__(self, name: str, begin: Callable[[], None] = lambda: None) -> None:
        """`begin`: what the thread does first; there is one from what is given first on."""
        self._name, self._begin = name, begin
        self._given: SimpleQueue[_Given | None] | None = None
        self._lock = Lock()
        _all.add(self)

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        """Have `work` done behind what was given before. Raises RuntimeError if the system has no thread."""
        future = Future[Result]()
        with self._lock:
            if self._given is None:
                given = SimpleQueue[_Given | None]()
                Thread(target=self._run, args=(given,), name=self._name, daemon=True).start()
                self._given = given
            self._given.put((work, future))
        return future

    def end(self) -> None:
        """Behind what it was given; what is given later begins another."""
        with self._lock:
            if self._given is not None:
                self._given.put(None)
            self._given = None

    def _run(self, given: SimpleQueue[_Given | None]) -> None:
        self._begin()
        while _do(given.get()):
            pass


_all = WeakSet[Worker]()


def end_workers() -> None:
    """With the engine; who has one meanwhile begins another."""
    for worker in list(_all):
        worker.end()


def _do(given: _Given | None) -> bool:
    """Returns whether there may be more. While nothing is given, nothing is kept of what was."""
    if given is None:
        return False
    work, future = given
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 — told to who waits
        future.set_exception(error)
    finally:
        del given, future  # the error has this frame
    return True
