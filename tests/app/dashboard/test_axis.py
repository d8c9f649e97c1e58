"""Axes in round numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dashboard.axis import ago_words, number_words, ticks


@given(st.floats(1e-9, 1e15), st.integers(2, 8))
def test_ticks_are_round_evenly_apart_and_hold_the_highest(highest: float, most: int) -> None:
    marks = ticks(highest, most)
    step = marks[1]
    assert marks[0] == 0
    assert len(marks) <= most + 1
    assert marks == pytest.approx([place * step for place in range(len(marks))])
    assert marks[-1] >= highest * (1 - 1e-6)
    assert marks[-2] < highest
    assert round(step / 10 ** math.floor(math.log10(step * 1.0000001)), 6) in (1, 2, 5)


@pytest.mark.parametrize("highest", [0.0, -3.0, math.nan, math.inf])
def test_nothing_to_show_has_an_axis_too(highest: float) -> None:
    assert ticks(highest) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (1234.4, "1,234"), (56.4, "56"), (7.84, "7.8"), (7, "7"), (0.123, "0.12")]
)
def test_numbers_have_two_digits_that_count(value: float, words: str) -> None:
    assert number_words(value) == words


def test_times_ago() -> None:
    words = ["now", "30 s ago", "1 min ago", "90 s ago", "2 min ago", "5 min ago"]
    assert [ago_words(seconds) for seconds in (0, 30, 60, 90, 120, 300)] == words
