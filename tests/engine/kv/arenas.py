"""Arenas of tests: their shape, rows for them, and what is left of these."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from engine.kv.arena import Arena

LAYERS, HEADS, DIM, SIZE = 2, 3, 32, 16
BITS = pytest.mark.parametrize("bits", [None, 8, 4])


def some(rng: np.random.Generator, tokens: int) -> tuple[mx.array, mx.array]:
    """Keys and values of some tokens."""
    shape = (HEADS, tokens, DIM)
    return mx.array(rng.standard_normal(shape).astype(np.float32)), mx.array(
        rng.standard_normal(shape).astype(np.float32)
    )


def kept(arena: Arena, rows: mx.array) -> np.ndarray:
    """What is left of rows that are stored."""
    return np.array(arena.coding.decode(arena.coding.encode(rows)))


def address(array: mx.array) -> int:
    """Where an array lies."""
    return np.array(array, copy=False).ctypes.data
