"""How many bytes a second this machine reads from memory, measured."""

from __future__ import annotations

import time
from collections.abc import Callable

import mlx.core as mx

from engine.pressure import is_short_of_memory

ROWS = 8192
"""Of a square float32 matrix: 256 MB, more than any cache of the machines that this runs on."""

AT_ONCE = 4
ROUNDS = 4


def read_bandwidth() -> float | None:
    """Bytes per second of the fastest of some reads of 256 MB; None where that much memory is not to be had.

    A matrix is read as a decode step reads weights, by a product with a vector, and by a sum: on each device
    one of them comes nearest to what its memory gives. For the engine's thread while it has nothing to do.
    """
    size = 4 * ROWS * ROWS
    if is_short_of_memory(size):
        return None
    seconds = _fastest()
    mx.clear_cache()
    return size / seconds


def _fastest() -> float:
    """Seconds of the faster way to read the matrix, which is gone when this returns."""
    matrix, vector = mx.ones((ROWS, ROWS)), mx.ones((ROWS, 1))
    mx.eval(matrix, vector)
    return min(_seconds(lambda: matrix @ vector), _seconds(lambda: mx.sum(matrix)))


def _seconds(read: Callable[[], mx.array]) -> float:
    """Of one read: the best round's, after one that compiles what must be."""
    best = float("inf")
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        mx.eval([read() for _ in range(AT_ONCE)])
        best = min(best, (time.perf_counter() - began) / AT_ONCE)
    return best
