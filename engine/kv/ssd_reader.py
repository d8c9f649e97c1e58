"""Reading files of pages side by side: on the caller's thread, and on others meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile

THREADS = min(4, os.cpu_count() or 1)
"""Files that are read at once: reading and summing leave Python's lock to others."""

Job = Callable[[], bool]
"""Reads a file; returns whether it was as it should be."""


def run_side_by_side(jobs: Sequence[Job]) -> int:
    """Begin `jobs` in order, several at once; returns how many, from the first on, went well.

    Behind one that did not, none is begun. When this returns, all that were begun have ended. Raises what a
    job raised.
    """
    outcomes, failed, waiting = [False] * len(jobs), list[int](), iter(range(len(jobs)))

    def work() -> None:
        for index in waiting:
            if failed:
                return
            try:
                outcomes[index] = jobs[index]()
            finally:
                if not outcomes[index]:
                    failed.append(index)

    others = min(THREADS, len(jobs)) - 1
    if others < 1:
        work()
    else:
        with ThreadPoolExecutor(others, "mlxr-ssd-read") as pool:
            begun = [pool.submit(work) for _ in range(others)]
            work()
        for other in begun:
            other.result()
    return sum(1 for _ in takewhile(bool, outcomes))
