"""OpenBLAS must be in the process before mlx, or a Linux CPU computes tens of times slower."""

from __future__ import annotations

import ctypes.util
import subprocess
import sys

import pytest

CHECK = """
import sys
import engine
assert engine.machine_report().openblas == "libopenblas.so.0", engine.machine_report()
import mlx.core
libraries = {line.split()[-1].rpartition("/")[2] for line in open("/proc/self/maps") if ".so" in line}
assert any(name.startswith("libopenblas") for name in libraries), libraries
"""

LATE = """
import mlx.core
import engine
assert engine.machine_report().openblas is None
"""

on_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux") or ctypes.util.find_library("openblas") is None,
    reason="OpenBLAS is preloaded on Linux, where it is installed",
)


@on_linux
@pytest.mark.parametrize("code", [CHECK, LATE])
def test_openblas_is_loaded_by_importing_the_engine_first(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
