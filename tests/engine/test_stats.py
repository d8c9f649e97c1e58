"""Rates over the last second, told with invented times."""

from __future__ import annotations

import numpy as np
import pytest

from engine.events.stat_values import TokenGaps
from engine.stats import GAPS_KEPT, Pulse


def test_the_rate_counts_gaps_between_tokens() -> None:
    pulse = Pulse()
    for step in range(11):
        pulse.token(5.0 + 0.01 * step)
    assert pulse.decode_tps(5.1) == pytest.approx(100.0)


def test_tokens_of_one_step_are_no_gap() -> None:
    pulse = Pulse()
    for _ in range(4):
        pulse.token(5.0)
    assert pulse.decode_tps(5.0) == 0.0
    for step in (1, 2):
        for _ in range(4):
            pulse.token(5.0 + 0.01 * step)
    assert pulse.decode_tps(5.02) == pytest.approx(8 / 0.02)


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


def test_percentiles_of_gaps_are_those_of_numpy_by_nearest_rank() -> None:
    pulse, gaps = Pulse(), [0.001 * (37 * place % 101) for place in range(600)]
    for gap in gaps:
        pulse.gap(gap)
    told = pulse.gaps()
    expected = np.percentile(gaps[-GAPS_KEPT:], [50, 95, 99], method="inverted_cdf")
    assert told.count == GAPS_KEPT
    assert [told.p50_ms, told.p95_ms, told.p99_ms] == pytest.approx(list(1000 * expected))


def test_one_gap_is_all_percentiles_and_none_are_nothing() -> None:
    pulse = Pulse()
    assert pulse.gaps() == TokenGaps()
    pulse.gap(0.02)
    assert pulse.gaps() == TokenGaps(1, 20.0, 20.0, 20.0)


def test_it_is_due_ten_times_a_second() -> None:
    pulse = Pulse()
    assert pulse.due(0.0)
    pulse.sent(0.0, tells_rate=False)
    assert not pulse.due(0.09)
    assert pulse.due(0.11)


def test_an_answer_is_untold_until_a_rate_was_sent_since_it_began() -> None:
    pulse = Pulse()
    pulse.sent(0.5, tells_rate=True)  # of an answer before it
    assert pulse.is_untold(1.0, 1.05)
    pulse.sent(1.001, tells_rate=False)  # it had one token
    assert pulse.is_untold(1.0, 1.05)
    assert not pulse.is_untold(1.0, 1.0)
    pulse.sent(1.02, tells_rate=True)
    assert not pulse.is_untold(1.0, 1.05)
