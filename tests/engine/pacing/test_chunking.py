"""Steps that compute prompts last about as long as they may, whatever the machine's speed."""

from __future__ import annotations

import random
from itertools import islice
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.pacing.chunking import COMMON, LONG, ChunkSizer, common_chunks, is_common
from engine.pacing.slices import BESIDE, DISPATCH_SECONDS
from engine.pacing.ways import Mixing
from tests.engine.simulated_machine import LAYERS, Machine, Step, beside, fill, known, seconds


def test_the_first_chunk_is_small_and_the_next_follow_the_rate() -> None:
    chunks = ChunkSizer(512, 16, LAYERS)
    assert chunks.next(0, 2000) == 128
    chunks.filled(128, 1.0, 0.5)
    assert chunks.rate == 256
    assert chunks.next(128, 2000) == 128  # to a multiple of 256, which take two seconds
    assert chunks.layers(256, LAYERS) * 256 / LAYERS <= 256 * 1.5 * DISPATCH_SECONDS
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
    layers = chunks.layers(size, LAYERS)
    assert 1 <= size <= min(most, remaining)
    assert size <= max(COMMON, rate * 1.1 * DISPATCH_SECONDS)
    assert layers == 1 or size * layers / LAYERS <= 1.6 * rate * DISPATCH_SECONDS
    assert chunks.steps(size) * layers >= LAYERS > (chunks.steps(size) - 1) * layers


def test_where_a_prompt_is_slow_its_chunks_stay_long() -> None:
    """Each reads all weights: with short ones that would be most of what they do."""
    sizer, begin, taken = ChunkSizer(2048, 16, LAYERS), 0, list[float]()
    while begin < 3000:
        size, done = sizer.next(begin, 4000 - begin), 0
        while done < LAYERS:
            layers = sizer.layers(size, LAYERS - done)
            taken.append(layers / LAYERS * (0.8 + 0.004 * size))
            sizer.filled(size, layers / LAYERS, taken[-1])
            done += layers
        begin += size
    assert max(taken) <= 1.6 * DISPATCH_SECONDS
    assert begin / sum(taken) >= 0.8 / (0.8 / 256 + 0.004)


@given(length=st.integers(0, 9000), most=st.integers(0, 9000))
def test_common_chunks_are_those_that_are_common(length: int, most: int) -> None:
    found = common_chunks(most, length)
    sizes = [size for size in (*(1 << bits for bits in range(14)), 3072, 6144) if size <= most]
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


@given(
    begin=st.integers(0, 20_000), length=st.integers(1, 20_000), longest=st.sampled_from([4096, 6144, 8192])
)
def test_of_more_than_so_many_tokens_chunks_are_common(begin: int, length: int, longest: int) -> None:
    chunks = ChunkSizer(2048, 16, LAYERS, longest)
    chunks.filled(2048, 1.0, 0.001)
    chunks.decoded(1, 0.02)
    taken = list[int]()
    while length > 0:
        size = chunks.next(begin, length, 1)
        assert 1 <= size <= length
        assert is_common(begin, size) or size < LONG
        begin, length = begin + size, length - size
        taken.append(size)
    assert sum(not size % LONG for size in taken) >= len(taken) - 2  # but at both ends


@pytest.mark.parametrize(
    ("begin", "tokens", "is_so"),
    [
        (0, 256, True),
        (256, 256, True),
        (512, 256, False),  # a chunk of 512 has grown there
        (256, 512, False),
        (512, 512, True),
        (0, 128, False),
        (0, 300, False),
        (6144, 2048, True),
        (6144, 6144, True),
        (0, 5120, False),
    ],
)
def test_common_chunks_are_those_that_grow_and_long_ones_at_their_multiples(
    begin: int, tokens: int, is_so: bool
) -> None:
    assert is_common(begin, tokens) is is_so


@pytest.mark.parametrize("answers", [1, 8])
@pytest.mark.parametrize("token", [0.00005, 0.0002, 0.002])
def test_beside_answers_a_step_takes_about_twice_theirs(answers: int, token: float) -> None:
    alone = 0.01
    taken = seconds(beside(Machine(alone, token), steps=200, answers=answers)[100:200])
    assert max(taken) <= (BESIDE + 0.4) * alone
    assert (BESIDE - 0.5) * alone <= median(taken) <= (BESIDE + 0.1) * alone


def test_a_last_piece_of_a_few_tokens_teaches_nothing() -> None:
    chunks = ChunkSizer(512, 16, LAYERS)
    chunks.filled(128, 1.0, 0.1)
    for _ in range(9):
        chunks.filled(7, 1.0, 0.1)
        chunks.filled(128, 1 / 32, 0.1)
    assert chunks.rate == 1280
    for _ in range(9):
        chunks.filled(8, 1.0, 0.1)
    assert chunks.rate == 80


def test_what_answers_take_alone_is_known_by_the_nearest_number_of_them() -> None:
    chunks = ChunkSizer(512, 16, LAYERS)
    assert chunks.alone(3) is None
    for answers, took in ((8, 0.05), (1, 0.01)):
        chunks.decoded(answers, took)
    assert [chunks.alone(answers) for answers in (1, 3, 6, 32)] == [0.01, 0.01, 0.05, 0.05]


def test_the_layers_of_a_chunk_are_dealt_evenly() -> None:
    chunks, left, dealt = ChunkSizer(512, 16, 22), 22, list[int]()
    while left:
        dealt.append(chunks.layers(128, left))
        left -= dealt[-1]
    assert dealt == [5, 5, 4, 4, 4]


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


def test_where_layers_cost_more_than_tokens_chunks_are_longer_beside_answers() -> None:
    """A host that launches while the device computes: one layer of 4,096 tokens fits, not two of 2,048."""
    sizer = ChunkSizer(2048, 16, LAYERS, 4096)
    sizer.filled(2048, 1.0, 2048 * 2.5e-6)
    for _ in range(5):
        sizer.decoded(1, 0.0014)
    machine = Machine(alone=0.0014, layer=0.0005, token=2.5e-6)
    steps = fill(sizer, 1_000_000, lambda *work: machine.seconds(work[0], work[1], is_mixed=work[2]))
    taken = list(islice(steps, 400))[200:]
    assert median(step.tokens * step.layers for step in taken) == 4096
    assert median(seconds(taken)) <= BESIDE * 0.0014
    assert max(sizer.next(begin, 100_000) for begin in range(0, 20_000, 256)) == 2048


def test_where_any_slice_is_slow_it_takes_a_quarter_more_for_its_work() -> None:
    machine = Machine(alone=0.0017, slice=0.006, token=0.000008)
    taken = median(seconds(beside(machine, steps=300, mixing=Mixing({}))[150:]))
    assert 1.05 * 0.0077 <= taken <= 1.5 * 0.0077


def test_work_that_is_slow_itself_is_done_a_layer_of_a_page_at_a_time() -> None:
    taken = seconds(beside(Machine(alone=0.0047, token=0.02), steps=200))
    assert median(taken[50:]) == pytest.approx(0.0047 + 0.02, rel=0.01)  # 16 tokens of one layer of 16


def test_a_little_that_each_slice_costs_is_taken_off_its_room() -> None:
    taken = median(seconds(beside(Machine(alone=0.020, slice=0.004, token=0.0001), steps=300)[150:]))
    assert 1.4 * 0.020 <= taken <= 1.9 * 0.020


def test_gaps_that_thin_slices_keep_short_stay_short() -> None:
    """A quarter more would make them 2.25x; the prompt is no reason, as long as some of it fits."""
    steps = beside(Machine(alone=0.0015, token=0.000008, layer=0.0012), steps=900)
    assert median(step.seconds for step in steps[400:] if not step.is_mixed) <= 1.02 * BESIDE * 0.0015


def test_where_being_there_is_what_costs_slices_are_thick() -> None:
    """As on H200s, where building a slice takes the host 0.6 ms, whatever is in it."""
    alone, fixed, token = 0.0012, 0.0006, 0.000008
    steps = beside(Machine(alone, token, layer=fixed), steps=900)
    thick = [step.seconds - alone - fixed for step in steps[400:] if not step.is_mixed]
    assert median(thick) >= 0.99 * token * 512 / LAYERS
    assert median(seconds(steps[400:])) <= 2.0 * alone


def test_where_a_slice_just_does_not_fit_little_more_is_taken() -> None:
    """Building it takes the host 1.4 ms, beside 1.5 for the answers: 1.93 times as long, of 1.9."""
    alone, fixed, token = 0.0015, 0.0014, 0.000008
    steps = beside(Machine(alone, token, layer=fixed), steps=900)
    taken = [step for step in steps[400:] if not step.is_mixed]
    assert median(step.tokens * step.layers for step in taken) >= 128
    assert median(step.seconds for step in taken) <= 1.05 * (alone + fixed)


def test_a_host_that_gets_slower_leaves_slices_thick() -> None:
    """As on H200s, where all steps take longer for seconds; those without a prompt show that too."""
    machine, pace, alone = Machine(alone=0.0014, token=0.00002), 1.0, 0
    sizer, sizes = known(machine), list[int]()

    def cost(tokens: int, layers: int, is_mixed: bool) -> float:
        nonlocal alone
        if sizer.leaves_answers_alone():
            alone += 1
            sizer.decoded(1, machine.alone * pace)
        return machine.seconds(tokens, layers, is_mixed=is_mixed) * pace

    for number, step in enumerate(fill(sizer, 1_000_000, cost)):
        pace = 1.7 if number >= 60 else 1.0
        sizes += [step.tokens * step.layers]
        if number == 1500:
            break
    assert median(sizes[40:60]) <= 1024 <= median(sizes[200:1400])
    assert 1500 / 17 - 2 <= alone <= 1500 / 16


def test_answers_that_are_slow_themselves_leave_room_for_a_prompt() -> None:
    """Where a token takes longer than a step should, steps take a quarter more and not the least there is."""
    steps = beside(Machine(alone=0.3, token=0.004), steps=300)
    assert median(step.tokens * step.layers for step in steps[100:]) >= 0.12 * 0.3 / 0.004 * LAYERS


def test_what_a_slow_time_has_shown_does_not_last() -> None:
    """As on an H200 whose host was busy at first: sizes were too much then, and would not be later."""
    machine, count, steps = Machine(alone=0.0013, token=0.0, layer=0.00045), 0, list[Step]()

    def cost(tokens: int, layers: int, is_mixed: bool) -> float:
        nonlocal count
        count += 1
        return machine.seconds(tokens, layers, is_mixed=is_mixed) * (1.6 if count < 300 else 1)

    sizer = ChunkSizer(2048, 16, LAYERS)
    sizer.filled(2048, 1.0, 0.025)
    for _ in range(5):
        sizer.decoded(1, machine.alone)
    steps = list(fill(sizer, 60_000, cost))
    assert steps[-40].tokens == 2048
    assert count < 1250


def test_answers_that_end_leave_a_long_chunk_in_steps_that_are_short_enough() -> None:
    sizer = ChunkSizer(2048, 16, LAYERS)
    sizer.filled(100, 1.0, 0.25)  # 400 tokens a second
    for _ in range(5):
        sizer.decoded(1, 0.2)
    for _ in range(39):
        sizer.filled(sizer.next(0, 9000, 1), 1 / LAYERS, 0.21, 1)
    size = sizer.next(0, 9000, 1)
    assert size > 400 * 2 * DISPATCH_SECONDS
    assert sizer.layers(size, LAYERS - 1) * size / LAYERS <= 400 * 2 * DISPATCH_SECONDS


def test_a_history_that_makes_tokens_dearer_makes_slices_thinner() -> None:
    sizer, alone, steps = ChunkSizer(2048, 16, LAYERS), 0.01, list[Step]()
    for _ in range(5):
        sizer.decoded(1, alone)

    def cost(tokens: int, layers: int, is_mixed: bool) -> float:
        begin = steps[-1].begin if steps else 0
        return alone + tokens * layers / LAYERS * 0.00003 * (1 + begin / 4000)

    for step in islice(fill(sizer, 100_000, cost), 900):
        steps.append(step)
    assert steps[-1].begin > 4000
    assert (BESIDE - 0.5) * alone <= median(seconds(steps[-100:])) <= (BESIDE + 0.2) * alone


def test_on_a_noisy_host_a_long_prompt_soon_goes_in_long_chunks() -> None:
    """As logged on an H200: 0.45 ms a layer whatever is in it, a host now quick and now slow, new lengths."""
    assert median(_share_in_long_chunks(random.Random(seed)) for seed in range(20)) >= 0.85


def _share_in_long_chunks(noise: random.Random) -> float:
    """Of a prompt beside an answer, behind a short one alone and another beside it."""
    sizer, pace, steps = ChunkSizer(2048, 16, 22), 1.0, list[Step]()
    sizer.filled(256, 1.0, 0.026)
    for _ in range(5):
        sizer.decoded(1, 0.00145)

    def cost(tokens: int, layers: int, is_mixed: bool) -> float:
        nonlocal pace
        if noise.random() < 0.01:
            pace = noise.choice([1.0, 1.0, 1.28, 1.28, 1.7])
        taken = (0.00135 + 0.00045 * layers + 5e-8 * layers * tokens) * pace * noise.uniform(0.95, 1.07)
        is_new = tokens < COMMON and layers == 1 and noise.random() < 0.5 / 22
        return taken * (noise.uniform(1.5, 2.2) if noise.random() < 0.04 else 1) + (0.015 if is_new else 0)

    for length in (256, 16_384):
        steps = list(fill(sizer, length, cost, all_layers=22))
    work = [(step.tokens, step.tokens * step.layers) for step in steps]
    return sum(done for tokens, done in work if tokens >= 1024) / sum(done for _, done in work)


def test_a_step_in_which_a_chunk_was_only_made_ready_teaches_nothing() -> None:
    sizer = ChunkSizer(2048, 16, 8)
    sizer.filled(2048, 1.0, 0.1)
    sizer.decoded(1, 0.001)
    before = sizer.next(0, 4096, 1), sizer.layers(2048, 8, 1)
    for _ in range(50):
        sizer.filled(2048, 0.0, 1.0, 1)
    assert (sizer.next(0, 4096, 1), sizer.layers(2048, 8, 1)) == before
