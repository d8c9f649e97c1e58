"""Which processors threads run on: Linux lets a program choose for each; elsewhere nothing happens."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, get_native_id

ENGINE_THREAD = "mlxr-engine"
"""What the thread that computes answers is called, and MLX's for it."""

_TASKS = Path("/proc/self/task")

_LOOKS = 4
"""At all threads, at most: one that is not kept yet may start another after it was looked for."""


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


def step_aside(name: str, nicer: int) -> None:
    """As `step_back`, and of two processors on the one that is the prompts': for who works beside answers.

    Who has no name of its own has that of the thread that started it, and is kept to the answers' processor
    with it: there answers waited for such a one 5 ms at a time.
    """
    step_back(name, nicer)
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setaffinity(0, halves().prompt)


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


@dataclass(frozen=True, slots=True)
class Halves:
    """Processors, by their numbers: of two one each, of more than two all for both.

    Who waits for another of its own kind then runs at once when that one waits.

    Attributes:
        answers: for who computes these, and for who helps with a prompt.
        prompt: for its own thread.
        both: all of them.
    """

    answers: frozenset[int]
    prompt: frozenset[int]
    both: frozenset[int]

    @property
    def are_apart(self) -> bool:
        """Whether who helps with a prompt has only what answers leave of their processor."""
        return self.answers != self.prompt


def halves() -> Halves:
    """Of those that the process may use; on Linux."""
    both = frozenset(os.sched_getaffinity(os.getpid()))
    if len(both) != 2:
        return Halves(both, both, both)
    return Halves(frozenset([min(both)]), frozenset([max(both)]), both)


_apart, _moving = Counter[str](), Lock()
"""How many keep threads apart from prompts, by the threads' name; for who counts, and moves them."""


@contextmanager
def apart(name: str, processors: Halves) -> Generator[None]:
    """Threads of that name run on answers' processors meanwhile, and until nobody wants that any more."""
    with _moving:
        _apart[name] += 1
        keep(name, processors.answers)
    try:
        yield
    finally:
        with _moving:
            _apart[name] -= 1
            if not _apart[name]:
                keep(name, processors.both)


def keep(name: str, processors: Iterable[int]) -> None:
    """Threads of that name run on these processors from now on; where the system forbids it, as before."""
    wanted = set(processors)
    for _ in range(_LOOKS):
        is_all = True
        for task in _TASKS.iterdir():
            with suppress(OSError):  # it may be over by now
                is_meant = (task / "comm").read_text().strip() == name
                if is_meant and os.sched_getaffinity(int(task.name)) != wanted:
                    os.sched_setaffinity(int(task.name), wanted)
                    is_all = False
        if is_all:
            return
