"""Runs a launch in a program of its own, under AddressSanitizer and UBSan."""

import os
import re
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from metal.emulator.launch import Geometry, HostArray, LaunchReport
from metal.errors import KernelRefused

_LAUNCH = struct.Struct("<6IQII")  # LaunchRecord in main.cpp
_ARRAY = struct.Struct("<QIIII64s")  # ArrayRecord
_SECONDS = 300  # a kernel that never ends must not hold up a test run for ever
_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=1",
}


class Program:
    """A variant compiled as a sanitized program: a launch is one process, its arrays travel through files."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def launch(self, arrays: Sequence[HostArray], geometry: Geometry, seed: int) -> LaunchReport:
        """Runs one launch and copies back what it wrote. Nothing is counted.

        Raises:
            KernelRefused: a sanitizer or the emulator stopped it; the message names the `.metal` lines.
        """
        with tempfile.TemporaryDirectory() as folder:
            request, answer = Path(folder) / "launch", Path(folder) / "arrays"
            request.write_bytes(_request(arrays, geometry, seed))
            try:
                done = subprocess.run(
                    [self._path, request, answer],
                    capture_output=True,
                    text=True,
                    timeout=_SECONDS,
                    env={**os.environ, **_OPTIONS},
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise KernelRefused(f"{self._path.name}: the launch did not end in {_SECONDS} s") from None
            if done.returncode != 0:
                raise KernelRefused(_summary(done.stderr) or f"ended with exit code {done.returncode}")
            _take_back(arrays, answer.read_bytes())
        return LaunchReport({}, 0, 0, 0)


def _request(arrays: Sequence[HostArray], geometry: Geometry, seed: int) -> bytes:
    parts = [_LAUNCH.pack(*geometry.threadgroups, *geometry.threads, seed, len(arrays), 0)]
    for array in arrays:
        data = array.data
        record = (data.nbytes, data.itemsize, array.is_constant, array.is_writable, 0, array.name.encode())
        parts += [_ARRAY.pack(*record), data.tobytes()]
    return b"".join(parts)


def _take_back(arrays: Sequence[HostArray], answer: bytes) -> None:
    at = 0
    for array in arrays:
        if array.is_writable:
            part = np.frombuffer(answer, array.data.dtype, array.data.size, at)
            array.data[...] = part.reshape(array.data.shape)
            at += array.data.nbytes


def _summary(report: str) -> str:
    """A sanitizer's first line and the lines of the body it names; the emulator's own message as it is."""
    error = re.search(r"(?:ERROR: AddressSanitizer|runtime error).*", report)
    if error is None:
        return report.strip()
    places = dict.fromkeys(re.findall(r"(?<=[ /])\w+\.metal:\d+", report))
    return "\n".join([error[0], *places])
