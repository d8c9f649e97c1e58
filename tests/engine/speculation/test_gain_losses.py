"""Text that guesses do not fit is hardly slowed, on any simulated machine."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.speculation.costs import StepCosts
from engine.speculation.draft import MOST_DRAFTED
from engine.speculation.gain import SpeculationGain
from tests.engine.speculation.simulated_texts import COSTS, Cost, decoded, speeds


@pytest.mark.parametrize("found", [1.0, 0.2])
@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
def test_text_that_never_matches_is_hardly_slowed(cost: Cost, found: float) -> None:
    assert min(speeds(cost, lambda place: 0.0, found=found)) >= 0.97


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
@pytest.mark.parametrize("rate", [0.05, 0.15, 0.3])
def test_guesses_that_are_seldom_right_cost_little(cost: Cost, rate: float) -> None:
    assert min(speeds(cost, lambda place: rate)) >= 0.97


@pytest.mark.parametrize("cost", [*COSTS.values(), lambda tokens: 1 + 0.5 * (tokens - 1)])
@pytest.mark.parametrize("period", [0, 3, 4, 6])
def test_text_that_misleads_is_hardly_slowed(cost: Cost, period: int) -> None:
    """Every third, fourth or sixth draft is right; or those of at most two tokens, until there are more."""
    gain, tokens, took, asked = SpeculationGain(), 0, 0.0, 0
    while tokens < 1000:
        count = gain.best(MOST_DRAFTED)
        asked += count > 0
        right = count if (asked % period == 0 if period else count <= 2) else 0
        gain.stepped(1 + count, cost(1 + count))
        gain.accepted(count, right)
        tokens, took = tokens + 1 + right, took + cost(1 + count)
    assert tokens / took >= 0.97


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
def test_a_short_answer_is_hardly_slowed_once_costs_are_known(cost: Cost) -> None:
    for seed in range(5):
        gain = SpeculationGain()
        decoded(cost, lambda place: 0.5, gain=gain, seed=seed)
        assert decoded(cost, lambda place: 0.0, gain=gain, length=100, seed=seed).speed >= 0.97


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
def test_answers_for_which_it_is_never_right_pay_together_for_finding_that_out(cost: Cost) -> None:
    gain = SpeculationGain()
    answers = [decoded(cost, lambda place: 0.0, gain=gain, length=30, seed=seed) for seed in range(30)]
    lost = sum(answer.plain_steps - answer.tokens for answer in answers)
    assert lost <= 2 + 0.008 * 900 + 6  # the last for finding out what drafts cost here


@pytest.mark.parametrize("name", ["flat", "slope 0.08", "slope 0.3", "cliff at 3", "jump at 2"])
def test_drafts_end_when_copying_ends(name: str) -> None:
    run = [decoded(COSTS[name], lambda place: 0.97 * (place < 300), length=1300, seed=s) for s in range(5)]
    copying = [decoded(COSTS[name], lambda place: 0.97, length=300, seed=s) for s in range(5)]
    for whole, part in zip(run, copying, strict=True):
        assert whole.plain_steps <= part.plain_steps * 1.25 + 1000 / 0.97


def test_what_is_never_right_is_not_drafted_because_noise_says_that_it_costs_nothing() -> None:
    """Steps of two seemed to take a little less than plain ones, and take a little more."""
    costs, drafts = StepCosts(), 0
    for tokens, seconds in [(1, 9.0), (1, 1.03), (2, 9.0), (2, 1.0)]:
        costs.stepped(tokens, seconds)
    gain = SpeculationGain(costs)
    for _ in range(100):
        count = gain.best(1)
        drafts += count
        gain.accepted(count, 0)
        gain.stepped(1 + count, 1.0)
    assert drafts < 40


@settings(max_examples=60)
@given(
    curve=st.lists(st.floats(0, 2), min_size=MOST_DRAFTED, max_size=MOST_DRAFTED),
    pattern=st.lists(st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0]), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_on_no_machine_is_any_text_slowed_much(curve: list[float], pattern: list[float], seed: int) -> None:
    """Steps of more tokens cost more by any amounts; acceptance changes every 250 tokens."""
    run = decoded(
        lambda tokens: 1 + sum(curve[: tokens - 1]),
        lambda place: pattern[place // 250 % len(pattern)],
        seed=seed,
    )
    assert run.speed >= 0.95
