"""OpenBLAS for MLX's CPU build: loaded into the global symbol scope before mlx, it replaces the reference
BLAS.

MLX's Linux wheel links a reference BLAS; with OpenBLAS in the global scope its f32 matrix products run about
75 times faster on two cores. Nothing is needed on a Mac, where MLX uses Accelerate.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock
from typing import Protocol, cast

from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingTypeStubs]

LIBRARY = "libopenblas.so.0"

_PATIENCE = "14"
"""Its threads look for the next product for so many powers of two of a processor's cycles: some µs, not the
25 ms that they have by themselves. Between two products of a prompt others compute (engine/cpu/crew.py):
of 16 processors they kept so many that 16,384 tokens went at 997 tok/s, not 1,683 (2026-11-26)."""

_NUMPYS = "libscipy_openblas"
"""How the file begins that numpy's wheels have beside them."""


def _preload() -> str | None:
    # Without effect once mlx is imported: its symbols are bound by then.
    if not sys.platform.startswith("linux") or "mlx.core" in sys.modules:
        return None
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _PATIENCE)
    try:
        ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return None
    return LIBRARY


LOADED = _preload()
"""The library that was loaded, or None. Import this module before mlx."""


class _Library(Protocol):
    """What threadpoolctl knows of one that is loaded."""

    prefix: str

    def set_num_threads(self, num_threads: int) -> None: ...


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


def numpy_on_one_thread() -> None:
    """Each product of numpy's uses the thread that asks for it, where numpy brings OpenBLAS.

    Who multiplies on several threads (engine/cpu/crew.py) would have each product wait for another's end.
    """
    for library in cast("list[_Library]", ThreadpoolController().lib_controllers):
        if library.prefix == _NUMPYS:
            library.set_num_threads(1)


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
