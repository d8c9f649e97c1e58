"""Reading files of pages side by side: on the caller's thread, and on others that are kept for it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile

THREADS = min(4, os.cpu_count() or 1)
"""Files that are read at once: reading and summing leave Python's lock to others."""

Job = Callable[[], bool]
"""Reads a file; returns whether it was as it should be."""


class SideBySide:
    """Runs what reads files on several threads, which begin with the first work; for one caller at a time."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, "mlxr-ssd-read")  # one more than help: `later` holds up none

    def run(self, jobs: Sequence[Job], seconds: float = math.inf) -> int:
        """Begin `jobs` in order, several at once; returns how many, from the first on, went well.

        Behind one that did not, or when `seconds` are over, none is begun; the first always is. When this
        returns, all that were begun have ended. Raises what a job raised.
        """
        outcomes, failed, waiting = [False] * len(jobs), list[int](), iter(range(len(jobs)))
        end = time.perf_counter() + seconds

        def work() -> None:
            for index in waiting:
                if failed or (index and time.perf_counter() >= end):
                    return
                try:
                    outcomes[index] = jobs[index]()
                finally:
                    if not outcomes[index]:
                        failed.append(index)

        others = [self._pool.submit(work) for _ in range(min(THREADS, len(jobs)) - 1)]
        try:
            work()
        finally:
            begun = [other for other in others if not other.cancel()]
            errors = [error for other in begun if (error := other.exception()) is not None]
        if errors:
            raise errors[0]
        return sum(1 for _ in takewhile(bool, outcomes))

    def later(self, work: Callable[[], object]) -> None:
        """Run `work`, which raises nothing, meanwhile."""
        self._pool.submit(work)

    def close(self) -> None:
        """End the threads as soon as they have nothing to do; nothing is run after this."""
        self._pool.shutdown(wait=False, cancel_futures=True)
