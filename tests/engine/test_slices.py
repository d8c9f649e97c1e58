"""Slices of a prompt on hosts that are slow for a moment: thinner ones only where they help answers."""

from __future__ import annotations

from collections.abc import Callable

from engine.chunking import ChunkSizer
from engine.slices import Size, SliceSizer

ALONE, TOKEN = 0.0017, 4.5e-7
"""Seconds of an answer's step, and of a layer of a prompt's token, logged on an H200."""
MOST = 4096

Added = Callable[[int], float]
"""What a slice of a layer of so many tokens adds to a step."""


def sizes() -> list[Size]:
    return [Size(1 << bits, 1) for bits in range(4, MOST.bit_length())]


def steps(sizer: SliceSizer, count: int, added: Added) -> list[int]:
    """The tokens of so many slices, each as it is done and learned from."""
    taken: list[int] = []
    for _ in range(count):
        size = sizer.next(ALONE, TOKEN)
        sizer.took(size, ALONE + added(size.tokens), ALONE, TOKEN)
        taken.append(size.tokens)
    return taken


def test_where_a_host_is_slow_whatever_is_in_a_slice_it_stays_thick() -> None:
    sizer = SliceSizer(sizes())
    assert steps(sizer, 100, lambda tokens: 0.0009)[-1] == MOST
    slow = steps(sizer, 200, lambda tokens: 0.0023)
    assert slow.count(MOST) >= 0.9 * len(slow)
    assert slow[-1] == MOST


def test_where_tokens_are_what_takes_long_it_gets_thinner_and_stays_so() -> None:
    sizer = SliceSizer(sizes())
    assert steps(sizer, 100, lambda tokens: 0.0009)[-1] == MOST
    slow = steps(sizer, 200, lambda tokens: 0.0003 + 1e-6 * tokens)
    assert set(slow[50:]) == {1024}


def test_a_prompt_alone_that_was_quicker_than_thought_makes_the_next_slices_thicker() -> None:
    sizer = SliceSizer(sizes())
    slow_token = 40 * TOKEN
    thin = sizer.next(ALONE, slow_token)
    for _ in range(20):
        sizer.took(thin, ALONE + 0.0013, ALONE, slow_token)
    assert sizer.next(ALONE, slow_token).tokens <= 64
    assert sizer.next(ALONE, TOKEN).tokens == 1024


def test_answers_that_are_slow_now_make_no_slices_thinner() -> None:
    def after(latest: float) -> int:
        chunks = ChunkSizer(2048, 16, 22, MOST)
        chunks.filled(2048, 1.0, 2048 * 22 * TOKEN)
        for _ in range(31):
            chunks.decoded(1, ALONE)
        beside(chunks, 20, ALONE + 0.0009)
        for _ in range(3):
            chunks.decoded(1, latest)
        return beside(chunks, 15, 1.6 * (ALONE + 0.0009))

    def beside(chunks: ChunkSizer, count: int, seconds: float) -> int:
        """The tokens of a slice behind so many steps with one."""
        for _ in range(count):
            chunks.filled(chunks.next(0, 16_384, 1), 1 / 22, seconds, 1)
        return chunks.next(0, 16_384, 1)

    assert after(1.6 * ALONE) == MOST
    assert after(ALONE) < MOST
