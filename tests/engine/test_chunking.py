"""Steps that compute prompts last about as long as they may, whatever the machine's speed."""

from __future__ import annotations

import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chunking import BESIDE, DISPATCH_SECONDS, ChunkSizer


def test_the_first_chunk_is_small_and_the_next_follow_the_rate() -> None:
    chunks = ChunkSizer(most=512, page_size=16)
    assert chunks.next(2000) == 128
    chunks.filled(128, 0.5)
    assert chunks.rate == 256
    assert chunks.next(2000) == 64
    chunks.filled(64, 0.001)
    assert chunks.next(2000) == 512


@given(most=st.integers(1, 2048), remaining=st.integers(1, 5000), rate=st.floats(0.001, 1e6))
def test_a_chunk_is_never_empty_and_never_too_long(most: int, remaining: int, rate: float) -> None:
    chunks = ChunkSizer(most, page_size=16)
    chunks.filled(1600, 1600 / rate)
    size = chunks.next(remaining)
    assert 1 <= size <= min(most, remaining)
    assert size <= max(16, rate * 1.1 * DISPATCH_SECONDS)


@pytest.mark.parametrize("answers", [1, 8])
@pytest.mark.parametrize("token", [0.00005, 0.0002])
def test_beside_answers_a_step_takes_less_than_twice_theirs(answers: int, token: float) -> None:
    chunks, alone = ChunkSizer(most=2048, page_size=16), 0.01
    for _ in range(5):
        chunks.decoded(answers, alone)
    size = chunks.next(16_000, answers)
    assert size == 16  # nothing is known of prompts yet
    for _ in range(8):
        chunks.filled(size, alone + token * size, answers)
        size = chunks.next(16_000, answers)
    assert (BESIDE - 0.5) * alone < alone + token * size <= BESIDE * alone


def test_a_last_piece_of_a_few_tokens_teaches_nothing() -> None:
    chunks = ChunkSizer(most=512, page_size=16)
    chunks.filled(128, 0.1)
    chunks.filled(3, 0.1)
    assert chunks.rate == 1280


def test_a_step_that_was_held_up_makes_no_chunk_longer() -> None:
    sizer = ChunkSizer(2048, 16)
    for _ in range(5):
        sizer.decoded(1, 0.004)
    sizer.filled(64, 0.036, 1)
    before = sizer.next(4000, 1)
    sizer.decoded(1, 0.140)  # a request was taken in meanwhile
    assert sizer.next(4000, 1) == before


def test_one_slow_chunk_makes_no_small_ones() -> None:
    sizer = ChunkSizer(2048, 16)
    sizer.filled(512, 0.004)
    sizer.filled(2048, 1.6)  # something was compiled
    assert sizer.next(8192) == 2048
    for _ in range(3):
        sizer.filled(2048, 1.6)  # so it is
    assert sizer.next(8192) == 320


def beside(alone: float, fixed: float, token: float, steps: int) -> tuple[ChunkSizer, list[int]]:
    """Sizes of so many chunks beside an answer, of a machine with these costs, a tenth up and down."""
    sizer, sizes, noise = ChunkSizer(2048, 16), list[int](), random.Random(0)
    for _ in range(5):
        sizer.decoded(1, alone)
    for _ in range(steps):
        sizes.append(sizer.next(100_000, 1))
        took = alone + fixed + token * sizes[-1]
        sizer.filled(sizes[-1], took * noise.uniform(0.9, 1.1) * (20 if noise.random() < 0.05 else 1), 1)
    return sizer, sizes


def test_where_any_chunk_is_slow_it_takes_a_quarter_more_for_tokens() -> None:
    _, sizes = beside(alone=0.0017, fixed=0.006, token=0.000008, steps=120)
    assert 120 <= median(sizes[60:]) <= 480  # 240 take a quarter of 7.7 ms


def test_tokens_that_are_slow_themselves_stay_few() -> None:
    _, sizes = beside(alone=0.0047, fixed=0.0, token=0.00075, steps=200)
    assert median(sizes) == 8  # the fewest
    assert max(sizes) <= 32


def test_a_little_that_each_chunk_costs_is_taken_off_its_room() -> None:
    _, sizes = beside(alone=0.020, fixed=0.004, token=0.0001, steps=120)
    assert 60 <= median(sizes[40:]) <= 180  # 120 fill the room
