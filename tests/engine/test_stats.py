"""Rates over the last second, told with invented times."""

from __future__ import annotations

import pytest

from engine.stats import Pulse


def test_the_rate_counts_gaps_between_tokens() -> None:
    pulse = Pulse()
    for step in range(11):
        pulse.token(5.0 + 0.01 * step)
    assert pulse.decode_tps(5.1) == pytest.approx(100.0)


def test_tokens_older_than_a_second_are_forgotten() -> None:
    pulse = Pulse()
    for now in (1.0, 1.1, 3.0, 3.5):
        pulse.token(now)
    assert pulse.decode_tps(3.6) == pytest.approx(2.0)
    assert pulse.decode_tps(9.0) == 0.0


@pytest.mark.parametrize("tokens", [0, 1])
def test_fewer_than_two_tokens_have_no_rate(tokens: int) -> None:
    pulse = Pulse()
    for _ in range(tokens):
        pulse.token(1.0)
    assert pulse.decode_tps(1.0) == 0.0


def test_a_reset_forgets_the_last_request() -> None:
    pulse = Pulse()
    pulse.token(1.0)
    pulse.token(1.1)
    pulse.reset()
    assert pulse.decode_tps(1.1) == 0.0


def test_it_is_due_ten_times_a_second() -> None:
    pulse = Pulse()
    assert pulse.due(0.0)
    pulse.sent(0.0)
    assert not pulse.due(0.09)
    assert pulse.due(0.11)
