"""Prefill chunks last about a quarter of a second, whatever the machine's speed."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chunking import DISPATCH_SECONDS, ChunkSizer


def test_the_first_chunk_is_small_and_the_next_follow_the_rate() -> None:
    chunks = ChunkSizer(most=512, page_size=16)
    assert chunks.next(2000) == 128
    chunks.measured(128, time.perf_counter() - 0.5)
    assert chunks.rate == pytest.approx(256, rel=0.1)
    assert chunks.next(2000) == 48 or chunks.next(2000) == 64
    chunks.measured(64, time.perf_counter() - 0.001)
    assert chunks.next(2000) == 512


@given(most=st.integers(1, 2048), remaining=st.integers(1, 5000), rate=st.floats(0.001, 1e6))
def test_a_chunk_is_never_empty_and_never_too_long(most: int, remaining: int, rate: float) -> None:
    chunks = ChunkSizer(most, page_size=16)
    chunks.measured(1600, time.perf_counter() - 1600 / rate)
    size = chunks.next(remaining)
    assert 1 <= size <= min(most, remaining)
    assert size <= max(16, rate * 1.1 * DISPATCH_SECONDS)
