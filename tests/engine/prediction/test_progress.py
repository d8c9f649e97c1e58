"""How far a prompt is told to be: when, and how long the rest is said to take."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.prediction.progress import Progress


def at(seconds: float, prompt: int = 1000) -> Callable[[int], float]:
    """Each token is expected to take so long."""
    return lambda done: seconds * (prompt - done)


def unknown(done: int) -> None:
    """Nothing is expected."""


def test_a_chunk_is_told_of_in_the_middle_a_few_times_a_second() -> None:
    progress = Progress()
    progress.told(0, 1000, unknown, 10.0)
    told = list[int]()
    for step in range(100):
        now, done = 10.0 + 0.01 * step, 5 * step
        if progress.is_due(done, now):
            told.append(progress.told(done, 1000, unknown, now)[0])
    assert told == sorted(told)
    assert 8 <= len(told) <= 10


def test_nothing_new_is_not_told_in_the_middle() -> None:
    progress = Progress()
    progress.told(100, 1000, unknown, 10.0)
    assert not progress.is_due(100, 20.0)
    assert progress.is_due(101, 20.0)


def test_who_has_to_begin_again_is_not_told_to_have_less() -> None:
    progress = Progress()
    progress.told(0, 1000, unknown, 10.0)
    progress.told(500, 1000, unknown, 11.0)
    assert progress.told(200, 1000, unknown, 12.0)[0] == 500
    assert progress.told(600, 1000, unknown, 13.0)[0] == 600


def test_the_time_for_which_it_gave_way_says_nothing_of_the_rest() -> None:
    progress = Progress()
    for done, now in ((600, 5.0), (900, 35.0)):
        progress.told(done, 1000, at(0.1), now)
    progress.begin()
    assert progress.told(900, 1000, at(0.1), 100.0)[1] == pytest.approx(10.0)
    progress.begin()
    assert progress.told(200, 1000, at(0.1), 200.0)[1] == pytest.approx(80.0)  # its pages had gone
    assert progress.told(300, 1000, at(0.1), 210.0)[1] == pytest.approx(70.0)


def test_whose_pages_are_taken_while_it_is_read_has_more_left_and_never_less_than_nothing() -> None:
    progress = Progress()
    progress.told(500, 1000, at(0.1), 10.0)
    _, left = progress.told(200, 1000, at(0.1), 11.0)
    assert left is not None
    assert left >= 80.0


def test_what_is_left_is_what_is_expected_where_all_goes_as_expected() -> None:
    progress = Progress()
    for done in range(0, 1001, 100):
        told = progress.told(done, 1000, at(0.1), 5.0 + 0.1 * done)
        assert told[1] == pytest.approx(0.1 * (1000 - done))


def test_beside_an_answer_the_rest_takes_longer_as_what_was_read_has() -> None:
    progress = Progress()
    seconds = [progress.told(done, 1000, at(0.1), 5.0 + 0.2 * done)[1] for done in (0, 100, 500, 900)]
    assert seconds[0] == pytest.approx(100.0)
    assert seconds[1] == pytest.approx(150.0)  # 180 in truth: not all is believed at once
    assert seconds[2] == pytest.approx(100.0, rel=0.1)
    assert seconds[3] == pytest.approx(20.0, rel=0.1)


def test_before_anything_was_measured_the_rest_is_taken_to_go_on_as_it_began() -> None:
    progress = Progress()
    assert progress.told(100, 1000, unknown, 5.0)[1] is None
    assert progress.told(110, 1000, unknown, 6.0)[1] is None  # too few to say
    assert progress.told(400, 1000, unknown, 8.0)[1] == pytest.approx(6.0)
    assert progress.told(1000, 1000, at(0.02), 20.0)[1] == 0.0


def test_what_is_learned_meanwhile_is_told_before_it_has_a_pace() -> None:
    progress = Progress()
    assert progress.told(100, 1000, unknown, 5.0)[1] is None
    assert progress.told(100, 1000, at(0.02), 6.0)[1] == pytest.approx(18.0)


def test_of_a_prompt_far_longer_than_any_before_the_pace_says_what_is_left() -> None:
    def near(done: int) -> float | None:
        return at(0.1)(done) if done >= 600 else None

    progress = Progress()
    assert progress.told(0, 1000, near, 10.0)[1] is None
    assert progress.told(300, 1000, near, 70.0)[1] == pytest.approx(140.0)
    assert progress.told(800, 1000, near, 170.0)[1] == pytest.approx(40.0)


def test_what_is_learned_of_its_first_chunks_is_not_taken_for_a_slow_machine() -> None:
    """Of a first long prompt half as much may be expected as it takes, and its chunks show it."""
    progress = Progress()
    progress.told(0, 1000, at(0.05), 5.0)
    for done in range(100, 1001, 100):
        told = progress.told(done, 1000, at(0.1), 5.0 + 0.1 * done)
        assert told[1] == pytest.approx(0.1 * (1000 - done), abs=1e-9)


def test_of_a_prompt_that_is_quick_nobody_is_asked_how_long_it_takes() -> None:
    asked = list[int]()

    def left(done: int) -> float:
        asked.append(done)
        return 0.1 * (8140 - done)

    progress = Progress()
    assert progress.told(8112, 8140, left, 5.0, is_quick=True) == (8112, None)
    assert progress.told(8140, 8140, left, 6.0) == (8140, 0.0)
    assert asked == []
    slow = Progress()
    assert slow.told(8112, 8140, left, 5.0)[1] == pytest.approx(2.8)
    assert slow.told(8130, 8140, left, 6.8, is_quick=True)[1] == pytest.approx(1.0)  # it was told before
