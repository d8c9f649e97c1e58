"""Threads that compute pieces of one thing together: heads, queries of attention; or tasks (tasks.py).

For prompts on a CPU. MLX computes one operation after the other there, most of them on one thread. Pieces go
to whoever is free; who has lost its processor to another program is waited for no longer than half a piece
takes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Lock, local
from typing import TypeVar

from engine.blas import numpy_on_one_thread
from engine.cpu.gate import Gate
from engine.machine.processors import run_when_idle, usable

NAME = "mlxr-crew"
"""What its threads are called, but the one that asks."""

_HELD = 0.1
"""Seconds: where the gate is closed for longer, steps take as long, or who closed it is gone."""

MOST = 6
"""Threads: more wait for Python's lock. Of 16 cores 16 took thrice as long as 6, 12 twice (2026-11-26)."""

Piece = TypeVar("Piece")

_thread = local()


def _begin() -> None:
    """Of no crew: its threads would keep it, and so never end."""
    run_when_idle(NAME)
    _thread.is_helper = True


def for_processors() -> Crew:
    """One for those that the process may use."""
    return Crew(min(usable(), MOST))


class Crew:
    """The thread that asks, and some that help it.

    Attributes:
        size: threads, the one that asks included.
    """

    def __init__(self, size: int, gate: Gate | None = None) -> None:
        """`gate`: at which those that help wait while it is closed; None for none."""
        self.size, self._gate = size, gate
        self._helpers = ThreadPoolExecutor(max(1, size - 1), NAME, _begin)
        if size > 1:
            numpy_on_one_thread()

    def start(self) -> None:
        """Its threads begin, and are at rest; else they do with the first pieces."""
        all_there = Barrier(self.size)
        for _ in range(self.size - 1):
            self._helpers.submit(all_there.wait)
        all_there.wait()

    def together(self, first: Callable[[], None], help_: Callable[[], None]) -> None:
        """`first` on this thread while each that helps runs `help_`, which is not waited for."""
        helping = [self._helpers.submit(help_) for _ in range(self.size - 1)]
        first()
        for each in helping:
            each.cancel()

    def give_way(self) -> None:
        """Between parts of a task, of a millisecond or two: who helps waits while the gate is closed."""
        if self._gate is not None and getattr(_thread, "is_helper", False):
            self._gate.wait(_HELD)

    def each(
        self, pieces: int, compute: Callable[[int], Piece], keep: Callable[[int, Piece], None], *, most: int
    ) -> None:
        """keep(0, compute(0)), … for so many pieces; returns when all are kept.

        Args:
            pieces: the thread that asks begins with the first, those that help with the last.
            compute: runs on any of the threads, may run twice for a piece, and be at it still behind the end:
                what it reads of arrays has to be evaluated. What it raises on the thread that asks is raised.
            keep: stores what a piece has come to, once for each, one at a time.
            most: threads that it is work enough for.
        """
        kept, keeping, numbers = [False] * pieces, Lock(), deque(range(pieces))
        left, all_kept = pieces, Event()

        def do(piece: int) -> None:
            nonlocal left
            computed = compute(piece)
            with keeping:
                if not kept[piece]:
                    keep(piece, computed)
                    kept[piece] = True
                    left -= 1
            if not left:
                all_kept.set()

        def run(take: Callable[[], int]) -> None:
            while numbers:
                try:
                    piece = take()
                except IndexError:  # somebody was quicker
                    return
                do(piece)

        helping = [self._helpers.submit(run, numbers.pop) for _ in range(min(self.size, pieces, most) - 1)]
        began = time.perf_counter()
        run(numbers.popleft)
        if helping:  # who has its processor will be through by then
            all_kept.wait((time.perf_counter() - began) * self.size / pieces / 2)
        for piece in range(pieces):
            if not kept[piece]:
                do(piece)
        for each in helping:
            each.cancel()
