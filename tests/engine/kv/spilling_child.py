"""Processes that spill until they kill themselves: `python -m tests.engine.kv.spilling_child FOLDER CAP`.

One process reads a seed and a number of system calls, a line each, and forks a child for each, so that the
imports are paid once. The child dies of SIGKILL just before or after so many system calls of its tier,
whichever thread makes them; how it ended is written then. Each file is written in pieces, so that it dies in
the middle of some. It waits for every run to be written, so that the same seed gives the same calls.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import warnings
from io import FileIO
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from engine.kv.page_data import ROOT_KEY
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier
from tests.engine.kv.spilled import IDENTITY, assert_holds, pages, read, spilled

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PIECE = 256


class InPieces(FileIO):
    """A file of a system that takes PIECE bytes at once."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Writes the beginning of `data`; returns how much."""
        return super().write(memoryview(data)[:PIECE])


def die_after(calls: int) -> None:
    """Kill this process at the beginning or the end of a system call, `calls` of both from now on."""
    left = calls

    def count(frame: FrameType, event: str, called: Any) -> None:
        nonlocal left
        is_system = getattr(called, "__module__", "") in ("posix", "fcntl")
        if event in ("c_call", "c_return") and (
            is_system or isinstance(getattr(called, "__self__", None), FileIO)
        ):
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    os.fdopen = lambda descriptor, mode, buffering=-1: InPieces(descriptor, mode)  # type: ignore[assignment]
    threading.setprofile(count)
    sys.setprofile(count)


def spill_forever(folder: Path, cap: int, seed: int, calls: int, parent: int) -> None:
    """Write runs at the end of one of eight chains, and read some back, while `parent` lives."""
    rng = random.Random(seed)
    die_after(calls)
    tier = SsdTier(SsdSettings(folder, cap, 0), IDENTITY, clock=lambda: 1e9)
    parents = [ROOT_KEY] * 8
    while os.getppid() == parent:
        branch = rng.randrange(8)
        run = spilled(parents[branch], pages(rng.randrange(1 << 20), rng.randint(1, 16)), (f"chat {branch}",))
        if tier.put(run):
            parents[branch] = run.keys[-1]
        assert tier.flush(60)
        if rng.random() < 0.5 and (data := read(tier, run.keys, run.tokens)) is not None:
            assert_holds(data, run.keys)
        if rng.random() < 0.1:
            parents[branch] = ROOT_KEY


def main(folder: Path, cap: int) -> None:
    """Fork a child for each line of standard input; the next when that one is dead."""
    here = os.getpid()
    # Of Python 3.12 on: its other threads are a library's, and asleep.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            seed, calls = map(int, line.split())
            spill_forever(folder, cap, seed, calls, here)
            break
        _, status = os.waitpid(child, 0)
        os.write(1, f"{os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
