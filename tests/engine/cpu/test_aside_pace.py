"""How far apart answers come beside a chunk's process: by what their steps take there, and alone."""

from __future__ import annotations

import pytest

from engine.cpu.aside_pace import GAP, LEAST, MOST, AsidePace
from engine.pacing.chunking import ChunkSizer


def paced(pace: AsidePace, busy: float, alone: float, steps: int = 40) -> float:
    """What a step may take behind so many that took `busy`."""
    return [pace.seconds(1, busy, alone) for _ in range(steps)][-1]


def test_answers_steps_are_left_longer_than_what_they_take_of_late() -> None:
    chunks = ChunkSizer(2048, 16, 4)
    assert chunks.aside_seconds(1, 0.010) == 0  # of them nothing is known
    for seconds in (0.010, 0.012, 0.011):
        chunks.decoded(1, seconds)
    assert 0.011 < chunks.aside_seconds(1, 0.050) < 2 * 0.011
    for _ in range(20):
        chunks.aside_seconds(1, 0.020)
    assert 0.020 < chunks.aside_seconds(1, 0.090) < 2 * 0.020  # the chat has grown
    assert 0.011 < chunks.aside_seconds(2, 0.040) < 2 * 0.011  # what one takes says nothing of two


@pytest.mark.parametrize(
    ("slower", "times"), [(0.8, MOST), (1.0, MOST), (1.15, GAP / 1.15), (1.3, LEAST), (2.0, LEAST)]
)
def test_where_a_chunk_slows_steps_down_little_they_are_left_more(slower: float, times: float) -> None:
    assert paced(AsidePace(), 0.010 * slower, 0.010) == pytest.approx(times * 0.010 * slower)


def test_a_chat_that_grows_beside_it_is_not_taken_to_be_slowed_down() -> None:
    pace = AsidePace()
    paced(pace, 0.011, 0.010)
    assert paced(pace, 0.020, 0.010, 400) == pytest.approx(MOST * 0.020)


def test_the_next_chunk_behind_steps_alone_is_compared_anew() -> None:
    pace = AsidePace()
    assert paced(pace, 0.010, 0.010) == pytest.approx(MOST * 0.010)
    assert paced(pace, 0.013, 0.010, 400) == pytest.approx(MOST * 0.013)
    pace.went_alone()
    assert paced(pace, 0.013, 0.010) == pytest.approx(LEAST * 0.013)


def test_of_what_was_never_alone_nothing_is_compared() -> None:
    assert paced(AsidePace(), 0.010, 0.0) == pytest.approx(LEAST * 0.010)
    pace = AsidePace()
    paced(pace, 0.010, 0.0)
    assert paced(pace, 0.010, 0.010) == pytest.approx(MOST * 0.010)


def test_what_one_answer_takes_says_nothing_of_two() -> None:
    pace = AsidePace()
    paced(pace, 0.010, 0.010)
    assert pace.seconds(2, 0.040, 0.030) == pytest.approx(LEAST * 0.030)
    assert [pace.seconds(2, 0.039, 0.030) for _ in range(40)][-1] == pytest.approx(LEAST * 0.039)


def test_slow_moments_of_less_than_a_quarter_of_all_change_nothing() -> None:
    pace = AsidePace()
    paced(pace, 0.012, 0.010)
    for _ in range(9):
        pace.seconds(1, 0.100, 0.010)
    assert pace.seconds(1, 0.012, 0.010) == pytest.approx(GAP / 1.2 * 0.012)
