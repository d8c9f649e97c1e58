"""OpenBLAS for MLX's CPU build: loaded into the global symbol scope before mlx, it replaces the reference
BLAS.

MLX's Linux wheel links a reference BLAS; with OpenBLAS in the global scope its f32 matrix products run about
75 times faster on two cores. Nothing is needed on a Mac, where MLX uses Accelerate.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

LIBRARY = "libopenblas.so.0"


def _preload() -> str | None:
    # Without effect once mlx is imported: its symbols are bound by then.
    if not sys.platform.startswith("linux") or "mlx.core" in sys.modules:
        return None
    try:
        ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return None
    return LIBRARY


LOADED = _preload()
"""The library that was loaded, or None. Import this module before mlx."""

_lock = Lock()
_singles, _usual = 0, 1


@contextmanager
def one_thread() -> Generator[None]:
    """Each product of the process uses one thread meanwhile.

    OpenBLAS computes one product at a time with more: another thread's would wait for the end of it.
    Accelerate does not.
    """
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _count(more: int) -> None:
    global _singles, _usual
    if LOADED is None:
        return
    with _lock:
        library = ctypes.CDLL(LOADED)
        if not _singles:
            _usual = library.openblas_get_num_threads()
        _singles += more
        library.openblas_set_num_threads(1 if _singles else _usual)
