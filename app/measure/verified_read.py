"""How fast a folder's files can be read and checked by nothing but loops: what restoring is held against."""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

BLOCK = 1 << 18
"""A block is summed while it is still in the processor's cache, as the cache's own reader does."""

THREADS = min(4, os.cpu_count() or 1)
"""Files read at once: a disk is quicker with several, and so is the sum with several processors."""


@dataclass(frozen=True, slots=True)
class ReadRate:
    """What was read, and the seconds it took."""

    nbytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.nbytes / self.seconds


def can_leave_page_cache() -> bool:
    """Whether a program can ask the system to let go of what it keeps in memory of a file."""
    return sys.platform == "linux"


def leave_page_cache(folder: Path, suffix: str) -> None:
    """Let go of what the system keeps in memory of these files, where a program can ask for that.

    What is not yet on the disk is written there first. Raises OSError.
    """
    if sys.platform != "linux":
        return
    for path in folder.rglob(f"*{suffix}"):
        with path.open("rb", buffering=0) as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def take_memory(folder: Path, suffix: str) -> None:
    """Use three times the memory that these files have bytes, and free it.

    The host of a virtual machine may take back memory that has lain free for seconds, and giving it again can
    take nine times as long as giving memory that was just in use: whoever reads first would pay for that.
    """
    _ = bytearray(b"1") * (3 * sum(path.stat().st_size for path in folder.rglob(f"*{suffix}")))


def read_verified(folder: Path, suffix: str) -> ReadRate:
    """Read every file below `folder` that ends in `suffix`, with a CRC-32 of it all, THREADS at once.

    Raises OSError.
    """
    files = sorted(folder.rglob(f"*{suffix}"))
    began = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        total = sum(pool.map(_read_all, [files[first::THREADS] for first in range(THREADS)]))
    return ReadRate(total, time.perf_counter() - began)


def _read_all(files: Sequence[Path]) -> int:
    """Their bytes, read block by block into the same memory and summed."""
    block, total = memoryview(bytearray(BLOCK)), 0
    for path in files:
        with path.open("rb", buffering=0) as file:
            crc = 0
            while count := file.readinto(block):
                crc = zlib.crc32(block[:count], crc)
                total += count
    return total
