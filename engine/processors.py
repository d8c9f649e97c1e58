"""Which processors threads run on: Linux lets a program choose for each; elsewhere nothing happens."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_native_id

ENGINE_THREAD = "mlxr-engine"
"""What the thread that computes answers is called, and MLX's for it."""

_TASKS = Path("/proc/self/task")


def name_thread(name: str) -> None:
    """Name this thread, and those that it starts from now on, for the system: at most 15 letters."""
    if sys.platform == "linux":
        with suppress(OSError):
            (_TASKS / str(get_native_id()) / "comm").write_text(name)


def usable() -> int:
    """Of the machine's processors, those that the process may use."""
    return len(os.sched_getaffinity(os.getpid())) if sys.platform == "linux" else os.cpu_count() or 1


def step_back(name: str, nicer: int) -> None:
    """What a thread begins with that computes prompts: a name of its own in the system, and the last place.

    Who waits for an answer's token goes before this thread, and before those that it starts, as on Linux.
    Elsewhere only a whole process can step back; where the system forbids it they share as before.
    """
    name_thread(name)
    if sys.platform == "linux":
        with suppress(OSError):
            nice = os.getpriority(os.PRIO_PROCESS, os.getpid()) + nicer
            os.setpriority(os.PRIO_PROCESS, get_native_id(), nice)
        with suppress(OSError):  # who started it may be kept to one
            os.sched_setaffinity(0, os.sched_getaffinity(os.getpid()))


def run_when_idle(name: str) -> None:
    """What a thread begins with that only has what others leave of the processors, as on Linux.

    Who wakes on its processor runs at once; a thread that is only nicer is often not left before the next of
    the system's ticks, each 4 ms.
    """
    step_back(name, 0)
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def are_two() -> bool:
    """Whether the process has two processors, for answers and prompts beside each other."""
    return usable() == 2


@contextmanager
def kept_apart(names: Collection[str], others: Collection[str]) -> Generator[None]:
    """Of two processors threads of these names run on one meanwhile, and the others on the other.

    Who waits for another of its own kind then runs at once when that one waits. Of more than two there is
    room for all; and where the system forbids it they run as before.
    """
    if sys.platform != "linux" or not are_two():
        yield
        return
    processors = os.sched_getaffinity(os.getpid())
    _keep(names, [min(processors)])
    _keep(others, [max(processors)])
    try:
        yield
    finally:
        _keep({*names, *others}, processors)


def _keep(names: Collection[str], processors: Iterable[int]) -> None:
    for task in _TASKS.iterdir():
        with suppress(OSError):  # it may be over by now
            if (task / "comm").read_text().strip() in names:
                os.sched_setaffinity(int(task.name), processors)
