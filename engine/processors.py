"""Which processors threads run on: Linux lets a program choose for each; elsewhere nothing happens."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_native_id

ENGINE_THREAD = "mlxr-engine"
"""What the thread that computes answers is called, and MLX's for it."""

_TASKS = Path("/proc/self/task")

_FEW = 2
"""Processors of which threads that wait for each other are better kept to one."""


def name_thread(name: str) -> None:
    """Name this thread, and those that it starts from now on, for the system: at most 15 letters."""
    if sys.platform == "linux":
        with suppress(OSError):
            (_TASKS / str(get_native_id()) / "comm").write_text(name)


@contextmanager
def kept_to_one(name: str) -> Generator[None]:
    """Threads of that name run on one of the process's processors meanwhile, if these are two.

    Who waits for the other there runs at once when that one waits, whoever is on the other processor. Of more
    than two there is room for all; and where the system forbids it they run as before.
    """
    processors = os.sched_getaffinity(os.getpid()) if sys.platform == "linux" else set[int]()
    if len(processors) != _FEW:
        yield
        return
    _keep(name, [min(processors)])
    try:
        yield
    finally:
        _keep(name, processors)


def _keep(name: str, processors: Iterable[int]) -> None:
    for task in _TASKS.iterdir():
        with suppress(OSError):  # it may be over by now
            if (task / "comm").read_text().strip() == name:
                os.sched_setaffinity(int(task.name), processors)
