"""OpenBLAS for MLX's CPU build: loaded into the global symbol scope before mlx, it replaces the reference
BLAS.

MLX's Linux wheel links a reference BLAS; with OpenBLAS in the global scope its f32 matrix products run about
75 times faster on two cores. Nothing is needed on a Mac, where MLX uses Accelerate.
"""

from __future__ import annotations

import ctypes
import sys

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
