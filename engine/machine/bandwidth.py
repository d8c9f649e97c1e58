"""How many bytes a second this machine reads from memory, measured."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import mlx.core as mx

from engine.machine.pressure import is_short_of_memory

log = logging.getLogger(__name__)

ROWS = 8192
"""Of a square float32 matrix: 256 MB, more than any cache of the machines that this runs on."""

ROUNDS = 4
AT_ONCE = 8
"""Reads in a round, where one is so short that waiting for it would count."""

SHORT = 0.005
LONG = 0.1
"""Seconds: a read is short, and rounds have taken long enough."""


def read_bandwidth() -> float | None:
    """Bytes per second of the fastest of some reads of 256 MB; None where they cannot be made.

    A matrix is read as a decode step reads weights, by a product with a vector, and by a sum: on each device
    one of them comes nearest to what its memory gives. For the engine's thread while it has nothing to do.
    """
    size = 4 * ROWS * ROWS
    if is_short_of_memory(size):
        return None
    try:
        return size / _fastest()
    except RuntimeError as error:  # MLX's
        log.warning("how fast memory is read could not be measured: %s", error)
        return None
    finally:
        mx.clear_cache()


def _fastest() -> float:
    """Seconds of the faster way to read the matrix, which is gone when this returns."""
    matrix, vector = mx.ones((ROWS, ROWS)), mx.ones((ROWS, 1))
    mx.eval(matrix, vector)
    return min(_seconds(lambda: matrix @ vector), _seconds(lambda: mx.sum(matrix)))


def _seconds(read: Callable[[], mx.array]) -> float:
    """Of one read: the best round's, after a read that compiles what must be."""
    at_once = AT_ONCE if _round(read, 1) < SHORT else 1
    best, spent = float("inf"), 0.0
    for _ in range(ROUNDS):
        if spent < LONG:
            seconds = _round(read, at_once)
            best, spent = min(best, seconds / at_once), spent + seconds
    return best


def _round(read: Callable[[], mx.array], count: int) -> float:
    began = time.perf_counter()
    mx.eval([read() for _ in range(count)])
    return time.perf_counter() - began
