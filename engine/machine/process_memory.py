"""How much memory this process has, asked of the system."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path

from engine.machine.pressure import is_short_of_memory

LOOK_EVERY = 1.0
"""Seconds between looks: asking takes a tenth of a millisecond."""

_STATM = Path("/proc/self/statm")
_RUSAGE_INFO_V0 = 0
_RUSAGE_INFO = struct.Struct("16s10Q")  # <sys/resource.h>: a uuid, then times, counts and sizes
_PHYSICAL_FOOTPRINT = 8  # ri_phys_footprint, as Activity Monitor shows it


class MemoryLook:
    """What the system says of memory, asked at most once in LOOK_EVERY seconds.

    Attributes:
        process_bytes: physical memory of this process; 0 where the system does not say.
        is_short: whether the system is short of memory.
    """

    def __init__(self) -> None:
        self.process_bytes, self.is_short = 0, False
        self._looked = float("-inf")

    def look(self, now: float) -> None:
        """Ask, if it is time to; `now` is of a clock that only goes on."""
        if now - self._looked >= LOOK_EVERY:
            self._looked = now
            self.process_bytes, self.is_short = process_bytes(), is_short_of_memory()


def process_bytes() -> int:
    """Physical memory of this process: resident pages on Linux, the footprint on macOS; 0 if unknown."""
    return _mac_footprint() if sys.platform == "darwin" else _linux_resident(_STATM)


def _linux_resident(statm: Path) -> int:
    try:
        return int(statm.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _mac_footprint() -> int:
    info = ctypes.create_string_buffer(_RUSAGE_INFO.size)
    if ctypes.CDLL(None).proc_pid_rusage(os.getpid(), _RUSAGE_INFO_V0, info):
        return 0
    return footprint_in(info.raw)


def footprint_in(rusage_info: bytes) -> int:
    """The physical footprint in macOS's `struct rusage_info_v0`, bytes."""
    return _RUSAGE_INFO.unpack(rusage_info)[_PHYSICAL_FOOTPRINT]
