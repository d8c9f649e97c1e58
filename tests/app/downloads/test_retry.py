"""Waiting and giving up."""

from __future__ import annotations

import pytest

from app.downloads.rate import WINDOW, Rate
from app.downloads.retry import Attempts, Patience, PlanRefuted, Retry
from app.downloads.stop import Stop, Stopped
from app.errors import DownloadFailed

PATIENCE = Patience(attempts=4, first_wait=0.001, longest_wait=0.004)


def test_waits_double_up_to_the_longest_and_differ() -> None:
    patience = Patience(first_wait=1.0, longest_wait=30.0)
    for failures, longest in ((1, 1.0), (2, 2.0), (5, 16.0), (6, 30.0), (5000, 30.0)):
        waits = [patience.wait(failures) for _ in range(50)]
        assert longest / 2 <= min(waits) < max(waits) <= longest


def test_failures_in_a_row_count_until_something_comes() -> None:
    said: list[tuple[str, float]] = []
    attempts = Attempts(PATIENCE, Stop(), lambda why, seconds: said.append((why, seconds)))
    for progressed in (False, False, False, True, False, False):
        attempts.failed(Retry("cut"), progressed=progressed)
    with pytest.raises(DownloadFailed, match="cut; given up after 4 tries") as raised:
        attempts.failed(Retry("cut"), progressed=False)
    assert raised.value.is_resumable
    assert len(said) == 6


def test_a_contradiction_asks_for_another_plan() -> None:
    attempts = Attempts(Patience(attempts=1), Stop(), lambda why, seconds: None)
    with pytest.raises(PlanRefuted):
        attempts.failed(Retry("other size", refutes=True), progressed=False)


def test_a_stop_ends_a_wait() -> None:
    stop = Stop()
    attempts = Attempts(Patience(first_wait=60.0), stop, lambda why, seconds: stop.ask())
    with pytest.raises(Stopped):
        attempts.failed(Retry("cut"), progressed=False)


def test_who_waits_is_woken_even_if_it_begins_too_late() -> None:
    stop = Stop()
    woken: list[int] = []
    with stop.waking(lambda: woken.append(1)):
        stop.ask()
    assert woken == [1]
    with pytest.raises(Stopped), stop.waking(lambda: woken.append(2)):
        raise AssertionError("it may not begin")


def test_a_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate(100.0)
    assert rate.per_second(100.0) == 0.0
    for second in range(1, 21):
        rate.add(100.0 + second, 1000 if second <= 10 else 3000)
    assert rate.per_second(120.0) == pytest.approx(3000)
    assert rate.per_second(120.0 + 2 * WINDOW) == 0.0
