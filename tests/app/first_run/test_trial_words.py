"""What is said of trials: how many of how many, how long still, and nothing where there are none."""

from __future__ import annotations

import pytest

from app.first_run.trial_words import is_on_show, left_words, pane_words, strip_words
from engine import KernelTrials

RUNNING = KernelTrials("/models/tiny", 3, 17, is_running=True, seconds_left=22.0)
WAITING = KernelTrials("/models/tiny", 3, 17, is_running=False)
PUT_OFF = KernelTrials("/models/tiny", 3, 17, is_running=False, are_put_off=True)
OVER = KernelTrials("/models/tiny", 17, 17, is_running=False)
BROKEN = KernelTrials("/models/tiny", 3, 17, is_running=False, problem="the disk is full")


@pytest.mark.parametrize(
    ("trials", "shown"),
    [(None, False), (RUNNING, True), (WAITING, True), (PUT_OFF, False), (OVER, False), (BROKEN, False)],
)
def test_the_strip_is_there_while_there_is_something_to_wait_for(
    trials: KernelTrials | None, shown: bool
) -> None:
    assert is_on_show(trials) == shown


def test_the_strip_says_how_far_and_how_long() -> None:
    assert strip_words(RUNNING, is_mac=True).endswith("on this Mac: 3 of 17 · about 20 s")
    assert strip_words(WAITING, is_mac=False).endswith("on this machine: 3 of 17 · paused")


@pytest.mark.parametrize(
    ("seconds", "said"), [(1, "5 s"), (22, "20 s"), (49, "50 s"), (70, "1 minute"), (600, "10 minutes")]
)
def test_times_are_rounded_as_people_do(seconds: float, said: str) -> None:
    assert left_words(seconds) == said


@pytest.mark.parametrize(
    ("trials", "says"),
    [(RUNNING, "about 20 s"), (WAITING, "nothing is asked"), (PUT_OFF, "put off"), (BROKEN, "disk is full")],
)
def test_the_dashboard_says_why_it_waits(trials: KernelTrials, says: str) -> None:
    assert says in pane_words(trials)
    assert pane_words(OVER) == pane_words(None) == ""
