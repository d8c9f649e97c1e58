"""Steps that compute prompts last about as long as they may, whatever the machine's speed."""

from __future__ import annotations

import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chunking import COMMON, ChunkSizer, common_chunks, is_common
from engine.slices import BESIDE, DISPATCH_SECONDS

LAYERS = 16


def test_the_first_chunk_is_small_and_the_next_follow_the_rate() -> None:
    chunks = ChunkSizer(512, 16, LAYERS)
    assert chunks.next(0, 2000) == 128
    chunks.filled(128, 1.0, 0.5)
    assert chunks.rate == 256
    assert chunks.next(128, 2000) == 64
    chunks.filled(64, 1.0, 0.001)
    assert chunks.next(512, 2000) == 512


@given(
    most=st.integers(1, 2048),
    begin=st.integers(0, 20_000),
    remaining=st.integers(1, 5000),
    rate=st.floats(0.001, 1e6),
)
def test_a_chunk_is_never_empty_and_never_too_long(
    most: int, begin: int, remaining: int, rate: float
) -> None:
    chunks = ChunkSizer(most, 16, LAYERS)
    chunks.filled(1600, 1.0, 1600 / rate)
    size = chunks.next(begin, remaining)
    assert 1 <= size <= min(most, remaining)
    assert size <= max(16, rate * 1.1 * DISPATCH_SECONDS)
    assert chunks.layers(size, LAYERS) == LAYERS or size > 1.9 * rate * DISPATCH_SECONDS


@given(length=st.integers(0, 9000), bits=st.integers(6, 12))
def test_common_chunks_are_those_that_are_common(length: int, bits: int) -> None:
    found = common_chunks(1 << bits, length)
    sizes = [1 << bits for bits in range(bits + 1)]
    every = [(begin, size) for size in sizes for begin in range(length - size + 1) if is_common(begin, size)]
    assert sorted(found) == sorted(every)
    assert all(size >= COMMON for _, size in found)


@given(begin=st.integers(0, 20_000), answers=st.integers(0, 1))
def test_long_chunks_come_to_where_others_come_to(begin: int, answers: int) -> None:
    chunks = ChunkSizer(2048, 16, LAYERS)
    chunks.filled(2048, 1.0, 0.02)
    chunks.decoded(1, 0.02)
    first = chunks.next(begin, 50_000, answers)
    size = chunks.next(begin + first, 50_000 - first, answers)
    assert size >= COMMON
    assert size.bit_count() == 1
    assert (begin + first) % size == 0


@pytest.mark.parametrize("answers", [1, 8])
@pytest.mark.parametrize("token", [0.00005, 0.0002, 0.002])
def test_beside_answers_a_step_takes_about_twice_theirs(answers: int, token: float) -> None:
    alone = 0.01
    taken = beside(alone, fixed=0.0, token=token, steps=200, answers=answers)[100:200]
    assert max(taken) <= (BESIDE + 0.4) * alone
    assert (BESIDE - 0.5) * alone <= median(taken) <= (BESIDE + 0.1) * alone


def test_a_last_piece_of_a_few_tokens_teaches_nothing() -> None:
    chunks = ChunkSizer(512, 16, LAYERS)
    chunks.filled(128, 1.0, 0.1)
    chunks.filled(3, 1.0, 0.1)
    assert chunks.rate == 1280


def test_a_step_that_was_held_up_makes_no_slice_thicker() -> None:
    sizer = ChunkSizer(2048, 16, LAYERS)
    for _ in range(5):
        sizer.decoded(1, 0.004)
    sizer.filled(8, 1.0, 0.006, 1)
    before = sizer.next(0, 4000, 1), sizer.layers(64, LAYERS, 1)
    sizer.decoded(1, 0.140)  # a request was taken in meanwhile
    assert (sizer.next(0, 4000, 1), sizer.layers(64, LAYERS, 1)) == before


def test_one_slow_chunk_makes_no_small_ones() -> None:
    sizer = ChunkSizer(2048, 16, LAYERS)
    sizer.filled(512, 1.0, 0.004)
    sizer.filled(2048, 1.0, 1.6)  # something was compiled
    assert sizer.next(2048, 8192) == 2048
    for _ in range(3):
        sizer.filled(2048, 1.0, 1.6)  # so it is
    assert sizer.next(2048, 8192) == 256


def beside(alone: float, fixed: float, token: float, steps: int, answers: int = 1) -> list[float]:
    """Seconds of so many steps with slices of prompts, of a machine with these costs and some noise.

    A token costs `token` in all layers, also alone. What is returned is without the noise.
    """
    sizer, taken, noise = ChunkSizer(2048, 16, LAYERS), list[float](), random.Random(0)
    sizer.filled(2048, 1.0, fixed + 2048 * token)
    for _ in range(5):
        sizer.decoded(answers, alone)
    begin = 0
    while len(taken) < steps:
        size, done = sizer.next(begin, 100_000, answers), 0
        while done < LAYERS:
            layers = sizer.layers(size, LAYERS - done, answers)
            work, done = size * layers / LAYERS, done + layers
            taken.append(alone + fixed + token * work)
            held_up = 20 if noise.random() < 0.05 else 1
            sizer.filled(size, layers / LAYERS, taken[-1] * noise.uniform(0.9, 1.1) * held_up, answers)
        begin += size
    return taken


def test_where_any_slice_is_slow_it_takes_a_quarter_more_for_its_work() -> None:
    taken = median(beside(alone=0.0017, fixed=0.006, token=0.000008, steps=300)[150:])
    assert 1.05 * 0.0077 <= taken <= 1.5 * 0.0077


def test_work_that_is_slow_itself_is_done_a_layer_of_a_page_at_a_time() -> None:
    taken = beside(alone=0.0047, fixed=0.0, token=0.02, steps=200)
    assert median(taken[50:]) == pytest.approx(0.0047 + 0.02, rel=0.01)  # 16 tokens of one layer of 16


def test_a_little_that_each_slice_costs_is_taken_off_its_room() -> None:
    taken = median(beside(alone=0.020, fixed=0.004, token=0.0001, steps=300)[150:])
    assert 1.4 * 0.020 <= taken <= 1.9 * 0.020


@pytest.mark.parametrize(("alone", "fixed", "fits"), [(0.0012, 0.0006, 512), (0.0015, 0.0014, 1024)])
def test_where_being_there_is_what_costs_slices_are_thick(alone: float, fixed: float, fits: int) -> None:
    """As on H200s, where building a slice takes the host 0.6 ms, or 1.4, whatever is in it."""
    token = 0.000008
    taken = beside(alone, fixed, token, steps=900)
    thick = [seconds - alone - fixed for seconds in taken[400:]]
    assert median(thick) >= 0.99 * token * fits / LAYERS
    assert median(taken[400:]) <= max(2.0 * alone, 1.3 * (alone + fixed))


def test_what_a_slow_time_has_shown_does_not_last() -> None:
    """As on an H200 whose host was busy at first: sizes were too much then, and would not be later."""
    alone, sizes, busy = 0.0013, list[int](), 300
    sizer, begin, steps = ChunkSizer(2048, 16, LAYERS), 0, 0
    sizer.filled(2048, 1.0, 0.025)
    for _ in range(5):
        sizer.decoded(1, alone)
    while begin < 60_000:
        size, done = sizer.next(begin, 100_000, 1), 0
        while done < LAYERS:
            layers = sizer.layers(size, LAYERS - done, 1)
            taken = (alone + 0.00045 * layers) * (1.6 if steps < busy else 1)
            sizer.filled(size, layers / LAYERS, taken, 1)
            done, steps = done + layers, steps + 1
        begin += size
        sizes.append(size)
    assert sizes[-1] == 2048
    assert steps < 1200


def test_answers_that_end_leave_a_long_chunk_in_steps_that_are_short_enough() -> None:
    sizer = ChunkSizer(2048, 16, LAYERS)
    sizer.filled(100, 1.0, 0.25)  # 400 tokens a second
    for _ in range(5):
        sizer.decoded(1, 0.2)
    for _ in range(60):
        sizer.filled(sizer.next(0, 9000, 1), 1 / LAYERS, 0.21, 1)
    size = sizer.next(0, 9000, 1)
    assert size > 400 * 2 * DISPATCH_SECONDS
    assert sizer.layers(size, LAYERS - 1) * size / LAYERS <= 400 * 2 * DISPATCH_SECONDS


def test_a_history_that_makes_tokens_dearer_makes_slices_thinner() -> None:
    sizer, alone, begin, taken = ChunkSizer(2048, 16, LAYERS), 0.01, 0, 0.0
    for _ in range(5):
        sizer.decoded(1, alone)
    for _ in range(60):
        size, done = sizer.next(begin, 100_000, 1), 0
        while done < LAYERS:
            layers = sizer.layers(size, LAYERS - done, 1)
            work, done = size * layers / LAYERS, done + layers
            taken = alone + work * 0.00003 * (1 + begin / 4000)
            sizer.filled(size, layers / LAYERS, taken, 1)
        begin += size
    assert begin > 4000
    assert (BESIDE - 0.5) * alone <= taken <= (BESIDE + 0.2) * alone


def test_on_a_noisy_host_a_long_prompt_soon_goes_in_long_chunks() -> None:
    """As logged on an H200: 0.45 ms a layer whatever is in it, a host now quick and now slow, new lengths."""
    assert median(_share_in_long_chunks(random.Random(seed)) for seed in range(20)) >= 0.85


def _share_in_long_chunks(noise: random.Random) -> float:
    """Of a prompt beside an answer, behind a short one alone and another beside it."""
    sizer, layers, pace, sizes = ChunkSizer(2048, 16, 22), 22, 1.0, list[int]()
    sizer.filled(256, 1.0, 0.026)
    for _ in range(5):
        sizer.decoded(1, 0.00145)
    for length in (256, 16_384):
        begin, sizes = 0, list[int]()
        while begin < length:
            size, done = sizer.next(begin, length - begin, 1), 0
            is_new = size < COMMON and noise.random() < 0.5
            while done < layers:
                some = sizer.layers(size, layers - done, 1)
                if noise.random() < 0.01:
                    pace = noise.choice([1.0, 1.0, 1.28, 1.28, 1.7])
                seconds = (0.00135 + 0.00045 * some + 5e-8 * some * size) * pace * noise.uniform(0.95, 1.07)
                held_up = noise.uniform(1.5, 2.2) if noise.random() < 0.04 else 1
                compiled = 0.015 if is_new and not done else 0.0
                sizer.filled(size, some / layers, seconds * held_up + compiled, 1)
                done += some
            begin += size
            sizes.append(size)
    return sum(size for size in sizes if size >= 1024) / sum(sizes)
