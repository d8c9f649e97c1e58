"""What reading pages back is expected to take: by its parts, and by what requests took that waited for it."""

from __future__ import annotations

import math
import random

import pytest

from engine.prediction.prediction import Rates
from tests.engine.learned_rates import learned_rates, truth


@pytest.fixture
def learned() -> Rates:
    return learned_rates()


def moved(nbytes: int) -> float:
    """What reading takes (as in `learned`) and a device's share of it, which no read shows."""
    return 0.002 + nbytes / 1e9 + 0.004 + nbytes / 2e9


def test_restoring_costs_what_requests_took_longer_and_not_what_the_reads_took(learned: Rates) -> None:
    assert learned.restore_seconds(10**7) == pytest.approx(0.012, rel=0.01)
    draw = random.Random(2)
    for _ in range(20):
        nbytes, context = draw.randrange(1 << 22, 1 << 26), draw.randrange(0, 4000)
        learned.returned(nbytes, 20, context, 1, truth(20, context) + moved(nbytes))
    assert learned.restore_seconds(10**7) == pytest.approx(moved(10**7), rel=0.05)
    told = learned.first_token_seconds(20, 300, restored_bytes=10**7)
    assert told == pytest.approx(truth(20, 300) + moved(10**7), rel=0.05)
    again = Rates.from_json(learned.to_json("here"), "here")
    assert again is not None
    assert again.restore_seconds(10**7) == pytest.approx(moved(10**7), rel=0.05)


def test_what_a_device_takes_to_fetch_pages_is_known_before_any_was_read() -> None:
    rates = Rates()
    assert not rates.knows_fetching
    for nbytes in (10**6, 10**7):
        rates.fetched(nbytes, 0.004 + nbytes / 2e9)
    assert rates.knows_fetching
    assert rates.restore_seconds(10**7) == pytest.approx(0.009, rel=0.01)
    for nbytes in (10**6, 10**7):
        rates.restored(nbytes, 0.002 + nbytes / 1e9)
    assert rates.restore_seconds(10**7) == pytest.approx(moved(10**7), rel=0.01)
    again = Rates.from_json(rates.to_json("here"), "here")
    assert again is not None
    assert again.knows_fetching
    assert again.restore_seconds(10**7) == pytest.approx(moved(10**7), rel=0.01)


def test_what_requests_took_counts_instead_of_reading_and_fetching(learned: Rates) -> None:
    learned.fetched(10**7, 5.0)
    for _ in range(3):
        learned.returned(10**7, 20, 0, 1, truth(20, 0) + moved(10**7))
    assert learned.restore_seconds(10**7) == pytest.approx(moved(10**7), rel=0.05)


def test_restoring_that_was_dear_is_tried_again_sooner_or_later(learned: Rates) -> None:
    """What is not done teaches nothing: without forgetting, two requests of a bad hour decide for good."""
    learned.refused()
    dear = 0.5
    for _ in range(3):
        learned.returned(10**7, 20, 0, 1, truth(20, 0) + dear)
    refusals, told = 0, learned.restore_seconds(10**7)
    while told is not None and told > 0.1:
        assert told == pytest.approx(dear, rel=0.05)
        learned.refused()
        refusals, told = refusals + 1, learned.restore_seconds(10**7)
    assert 4 <= refusals <= 8
    assert told == pytest.approx(0.012, rel=0.01)
    for _ in range(2):
        learned.returned(10**7, 20, 0, 1, truth(20, 0) + dear)
    assert learned.restore_seconds(10**7) == pytest.approx(dear, rel=0.05)


def test_what_is_lost_in_a_requests_own_work_says_nothing_of_restoring(learned: Rates) -> None:
    for _ in range(20):
        learned.returned(1 << 20, 2000, 0, 1, 1.2 * truth(2000, 0))
    assert learned.restore_seconds(10**7) == pytest.approx(0.012, rel=0.01)


def test_what_happens_once_for_new_memory_comes_on_top_of_either(learned: Rates) -> None:
    assert learned.restore_seconds(10**7, 10**8) == learned.restore_seconds(10**7)  # it was never measured
    for nbytes in (10**7, 10**8):
        learned.met(nbytes, 0.001 + nbytes / 1e9)
    assert learned.restore_seconds(10**7, 10**8) == pytest.approx(0.012 + 0.101, rel=0.01)
    for _ in range(3):
        learned.returned(10**7, 20, 0, 1, truth(20, 0) + moved(10**7))
    assert learned.restore_seconds(10**7, 10**8) == pytest.approx(moved(10**7) + 0.101, rel=0.05)
    told = learned.first_token_seconds(20, 0, restored_bytes=10**7, met_bytes=10**8)
    assert told == pytest.approx(truth(20, 0) + moved(10**7) + 0.101, rel=0.05)
    assert learned.restore_seconds(0, 10**8) == 0  # nothing is read: nobody meets it
    again = Rates.from_json(learned.to_json("here"), "here")
    assert again is not None
    assert again.restore_seconds(10**7, 10**8) == pytest.approx(moved(10**7) + 0.101, rel=0.05)


def test_what_is_slow_at_the_moment_is_no_cost_of_restoring(learned: Rates) -> None:
    """Requests take twice as long of late: as much is expected of the next ones as of all in between."""
    for _ in range(5):
        learned.answered(200, 4000, 1, 2 * truth(200, 4000))
    work = learned.first_token_seconds(20, 4000)
    assert work is not None
    assert work > 1.3 * truth(20, 4000)
    for nbytes in (10**7, 3 * 10**7):
        learned.returned(nbytes, 20, 4000, 1, work + moved(nbytes))
    assert learned.restore_seconds(10**7) == pytest.approx(moved(10**7), rel=0.05)


def test_nothing_and_what_never_came_teach_nothing(learned: Rates) -> None:
    restoring, computing = learned.restore_seconds(10**7), learned.first_token_seconds(100, 0)
    for _ in range(20):
        learned.restored(0, 5.0)
        learned.returned(0, 20, 0, 1, 5.0)
        for never in (math.inf, math.nan, 0.0, -1.0):
            learned.returned(10**7, 20, 0, 1, never)
            learned.answered(100, 0, 1, never)
    assert learned.restore_seconds(10**7) == restoring
    assert learned.first_token_seconds(100, 0) == computing


def test_a_chunk_of_a_few_tokens_says_nothing_of_longer_ones() -> None:
    rates = Rates()
    for _ in range(5):
        rates.prefilled(8, 0, 1.0)
    assert rates.prefill_seconds(8, 0) is None
    for _ in range(2):
        rates.prefilled(9, 0, 1.0)
    assert rates.prefill_seconds(9, 0) == pytest.approx(1.0, rel=0.05)
