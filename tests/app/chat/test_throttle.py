"""Redraws keep to their share of time."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.chat.throttle import SHARE, SHORTEST, Throttle


class Clock:
    """A clock that only moves when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("app.chat.throttle.time", clock)
    return clock


def test_the_first_comes_at_once_and_the_next_waits(qtbot: QtBot, clock: Clock) -> None:
    throttle = Throttle()
    fired: list[float] = []
    throttle.due.connect(lambda: fired.append(clock.now))
    throttle.ask()
    throttle.ask()
    assert fired == [100.0]
    clock.now += SHORTEST
    throttle.ask()
    assert fired == [100.0, 100.0 + SHORTEST]


def test_a_slow_redraw_waits_longer(qtbot: QtBot, clock: Clock) -> None:
    throttle = Throttle()
    fired: list[float] = []

    def redraw() -> None:
        fired.append(clock.now)
        clock.now += 0.050

    throttle.due.connect(redraw)
    throttle.ask()
    clock.now = 100.0 + 0.050 / SHARE - 0.001
    throttle.ask()
    assert len(fired) == 1
    clock.now += 0.002
    throttle.ask()
    assert len(fired) == 2


def test_what_was_put_off_comes_without_being_asked_again(qtbot: QtBot) -> None:
    throttle = Throttle()
    fired: list[int] = []
    throttle.due.connect(lambda: fired.append(1))
    throttle.ask()
    throttle.ask()
    qtbot.waitUntil(lambda: len(fired) == 2)


def test_reset_lets_the_next_one_through(qtbot: QtBot, clock: Clock) -> None:
    throttle = Throttle()
    fired: list[int] = []
    throttle.due.connect(lambda: fired.append(1))
    throttle.ask()
    throttle.reset()
    throttle.ask()
    assert len(fired) == 2
