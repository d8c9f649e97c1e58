"""Text that copies is nearly as fast as drafts can make it, on any simulated machine and behind any text."""

import statistics

import pytest

from engine.speculation.draft import MOST_DRAFTED
from engine.speculation.gain import SpeculationGain
from tests.engine.speculation.simulated_texts import COSTS, decoded, speeds


@pytest.mark.parametrize("rate", [0.8, 0.95, 1.0])
@pytest.mark.parametrize("name", [name for name in COSTS if name != "dear"])
def test_where_text_copies_it_is_nearly_as_fast_as_the_best_fixed_draft(name: str, rate: float) -> None:
    def fixed(count: int) -> float:
        return statistics.mean(speeds(COSTS[name], lambda place: rate, fixed=count))

    best = max(fixed(count) for count in range(MOST_DRAFTED + 1))
    assert statistics.mean(speeds(COSTS[name], lambda place: rate)) >= 0.92 * best


@pytest.mark.parametrize("name", ["flat", "slope 0.08", "jump at 2"])
def test_copying_is_half_again_as_fast_at_least(name: str) -> None:
    assert min(speeds(COSTS[name], lambda place: 0.8)) >= 1.5
    assert min(speeds(COSTS[name], lambda place: 0.95, found=0.9)) >= 1.5


@pytest.mark.parametrize("name", [name for name in COSTS if name != "dear"])
def test_behind_answers_for_which_it_was_never_right_one_that_it_knows_gets_drafts(name: str) -> None:
    gain = SpeculationGain()
    for seed in range(30):
        decoded(COSTS[name], lambda place: 0.0, gain=gain, length=100, seed=seed)
    assert decoded(COSTS[name], lambda place: 1.0, gain=gain, length=400).speed > 1.4


@pytest.mark.parametrize("name", ["flat", "slope 0.08", "slope 0.3", "jump at 2"])
def test_drafts_come_back_when_copying_begins(name: str) -> None:
    """The latter half copies. Without a delay it would take the share of time that `possible` says."""
    cost = COSTS[name]
    run = [decoded(cost, lambda place: 0.97 * (place >= 600), length=1200, seed=s).speed for s in range(5)]
    copying = statistics.mean(speeds(cost, lambda place: 0.97))
    possible = 1200 / (600 + 600 / copying)
    assert min(run) >= 0.9 * possible


@pytest.mark.parametrize("slope", [0.08, 0.15, 0.3])
def test_after_long_text_without_matches_fifty_copied_tokens_bring_full_drafts(slope: float) -> None:
    gain, copied = SpeculationGain(), 0
    for _ in range(500):
        count = gain.best(MOST_DRAFTED)
        gain.stepped(1 + count, 1 + slope * count)
        gain.accepted(count, 0)
    while count < MOST_DRAFTED and copied < 1000:
        count = gain.best(MOST_DRAFTED)
        gain.stepped(1 + count, 1 + slope * count)
        gain.accepted(count, count)
        copied += 1 + count
    assert copied <= 50


def test_places_that_were_wrong_once_are_tried_again() -> None:
    """At first only two tokens are ever right, later all."""
    gain, counts = SpeculationGain(), list[int]()
    for step in range(200):
        counts.append(gain.best(MOST_DRAFTED))
        gain.stepped(1 + counts[-1], 1 + 0.3 * counts[-1])
        gain.accepted(counts[-1], min(counts[-1], 2) if step < 60 else counts[-1])
    assert set(counts[40:60]) == {3}  # 3 tokens in 1.9 steps; of one drafted it would be 2 in 1.3
    assert counts[120:].count(MOST_DRAFTED) > 70


def test_copying_without_end_measures_plain_steps_again() -> None:
    gain, plain, steps = SpeculationGain(), 0, 1000
    for _ in range(steps):
        count = gain.best(7)
        plain += count == 0
        gain.stepped(1 + count, 1.0)
        gain.accepted(count, count)
    assert 8 <= plain <= 0.03 * steps


def test_one_slow_step_does_not_end_drafts_for_good() -> None:
    """The second step of each count takes a thousand times as long; the text is copied all the time."""
    gain, seen = SpeculationGain(), dict[int, int]()

    def hiccup(tokens: int) -> float:
        seen[tokens] = seen.get(tokens, 0) + 1
        return 1000.0 if tokens > 1 and seen[tokens] == 2 else 1 + 0.08 * (tokens - 1)

    decoded(hiccup, lambda place: 1.0, length=12000, gain=gain)
    assert decoded(COSTS["slope 0.08"], lambda place: 1.0, gain=gain).speed >= 3
