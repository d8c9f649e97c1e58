"""A thread that loads while the engine's goes on with other models.

Streams of MLX's are each thread's own, and an array that is evaluated may go to another thread: whatever
leaves this one is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Protocol, TypeVar

from engine.machine.processors import step_back
from engine.worker import Worker

NAME = "mlxr-load"
NICER = 5
"""Who answers goes before it where processors are few."""

_LOOK_EVERY = 0.001
"""Seconds for which the thread is waited for between two looks at others, where these have nothing to do."""

_reading = Lock()
"""Held by who has MLX read weights, or forks a process: that would wait for good for locks of MLX's which
another thread held then."""

_asked_for = Lock()
"""Held by who wants that next, so that who reads tensor by tensor does not take it again at once."""

_loader = Worker(NAME, partial(step_back, NAME, NICER))

Result = TypeVar("Result")


class Apart(Protocol):
    """Has work done that takes long, and yields what it returns; raises what it does."""

    def __call__(self, work: Callable[[], Result], /) -> Result:
        """`work` evaluates the arrays that it returns."""
        ...


def at_once(work: Callable[[], Result], /) -> Result:
    """`work` on the thread that asks, where nobody else has anything to do."""
    return work()


def on_thread(work: Callable[[], Result], look: Callable[[], bool]) -> Result:
    """`work` on the thread that loads. Raises what it does.

    Args:
        look: called on this thread until then, again and again; whether there was something to do.
    """
    working, had_any = _loader.submit(work), False
    try:
        while not wait([working], 0 if had_any else _LOOK_EVERY).done:
            had_any = look()
        return working.result()
    finally:
        wait([working])
        del working  # an error has this frame, and those that hold what was read until then


@contextmanager
def reading() -> Generator[Callable[[], None]]:
    """While MLX reads weights. What it gives is to be called between two: somebody may wait to fork."""

    def between() -> None:
        _reading.release()
        with _asked_for:
            _reading.acquire()

    with _reading:
        yield between


@contextmanager
def nothing_is_read() -> Generator[None]:
    """Inside no thread reads weights; it waits for a tensor at most."""
    with _asked_for, _reading:
        yield
