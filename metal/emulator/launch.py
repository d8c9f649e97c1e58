"""One emulated launch: what goes in, what was counted, and the call into a compiled variant."""

import ctypes
import re
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metal.errors import KernelRefused

HostData = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class HostArray:
    """An array of a launch in host memory, contiguous; bfloat16 travels as uint16."""

    name: str
    data: HostData
    is_constant: bool = False
    is_writable: bool = False


@dataclass(frozen=True, slots=True)
class Geometry:
    """A launch's shape: threadgroups in the grid, and threads in each; both (x, y, z)."""

    threadgroups: tuple[int, int, int]
    threads: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one launch moved between the device's memory and its threads, for one array."""

    bytes_read: int
    bytes_written: int
    lines_read: int  # distinct 128-byte lines
    lines_written: int


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """What one launch did. `traffic` is empty unless the build was a checked one."""

    traffic: dict[str, Traffic]
    threadgroup_bytes: int  # declared by one threadgroup
    barriers: int
    simdgroup_operations: int


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("item_bytes", ctypes.c_uint32),
        ("is_constant", ctypes.c_uint32),
        ("is_writable", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
        ("bytes_read", ctypes.c_uint64),
        ("bytes_written", ctypes.c_uint64),
        ("lines_read", ctypes.c_uint64),
        ("lines_written", ctypes.c_uint64),
    )


class _Launch(ctypes.Structure):
    _fields_ = (
        ("threadgroups", ctypes.c_uint32 * 3),
        ("threads", ctypes.c_uint32 * 3),
        ("seed", ctypes.c_uint64),
        ("buffers", ctypes.POINTER(_Buffer)),
        ("buffer_count", ctypes.c_uint32),
        ("threadgroup_bytes", ctypes.c_uint32),
        ("barriers", ctypes.c_uint64),
        ("meetings", ctypes.c_uint64),
        ("message", ctypes.c_char * 2048),
    )


class Library:
    """A variant compiled as a shared library; it runs one launch at a time."""

    def __init__(self, path: Path, *, counts: bool) -> None:
        self._path = path
        self._counts = counts
        self._emulate = ctypes.CDLL(str(path)).mlxr_emulate
        self._emulate.argtypes = [ctypes.POINTER(_Launch)]
        self._lock = threading.Lock()

    def launch(self, arrays: Sequence[HostArray], geometry: Geometry, seed: int) -> LaunchReport:
        """Runs one launch on `arrays` in place.

        Raises:
            KernelRefused: the emulator stopped it; the message names lines of the `.metal` file.
        """
        buffers = (_Buffer * len(arrays))(*(_buffer(array) for array in arrays))
        launch = _Launch(threadgroups=geometry.threadgroups, threads=geometry.threads, seed=seed)
        launch.buffers, launch.buffer_count = buffers, len(arrays)
        with self._lock:
            stopped = self._emulate(ctypes.byref(launch))
        if stopped:
            raise KernelRefused(self._with_lines(launch.message.decode()))
        traffic = {
            array.name: Traffic(b.bytes_read, b.bytes_written, b.lines_read, b.lines_written)
            for array, b in zip(arrays, buffers, strict=True)
        }
        return LaunchReport(
            traffic if self._counts else {}, launch.threadgroup_bytes, launch.barriers, launch.meetings
        )

    def _with_lines(self, message: str) -> str:
        """Replaces the code addresses in a message (@0x1f@) by the lines of the body they came from."""
        return re.sub(r"@(0x[0-9a-f]+)@", lambda found: line_of(self._path, found[1]), message)


def _buffer(array: HostArray) -> _Buffer:
    data = array.data
    return _Buffer(
        data.ctypes.data,
        data.nbytes,
        array.name.encode(),
        data.itemsize,
        array.is_constant,
        array.is_writable,
    )


@cache
def line_of(library: Path, address: str) -> str:
    """`rms_norm.metal:12`: the innermost line of a kernel's own text that holds a code address."""
    command = ["addr2line", "-i", "-e", str(library), address]
    frames = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    places = [re.sub(r" \(discriminator \d+\)", "", Path(frame).name) for frame in frames if frame]
    return next((place for place in places if ".metal:" in place), places[0] if places else address)
