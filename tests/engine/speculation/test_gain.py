"""How much a model drafts, judged by the speed it brings in simulated texts on simulated machines."""

import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.speculation.costs import StepCosts
from engine.speculation.draft import LENGTHS, MOST_DRAFTED
from engine.speculation.gain import SpeculationGain

Cost = Callable[[int], float]  # of a step, by its tokens, in plain steps
Acceptance = Callable[[int], float]  # chance that the token at a place is guessed right

COSTS: dict[str, Cost] = {
    "flat": lambda tokens: 1.0,
    "slope 0.08": lambda tokens: 1 + 0.08 * (tokens - 1),
    "slope 0.3": lambda tokens: 1 + 0.3 * (tokens - 1),
    "cliff at 3": lambda tokens: 1 + 0.05 * (tokens - 1) if tokens < 3 else 3 + 0.05 * tokens,
    "jump at 2": lambda tokens: 1.0 if tokens == 1 else 1.25 + 0.02 * tokens,
    "dear": lambda tokens: 1.0 if tokens == 1 else 4.0,
}


@dataclass
class Run:
    """What decoding a text took."""

    tokens: int = 0
    plain_steps: float = 0.0  # of time
    drafts: list[int] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Relative to decoding without drafts."""
        return self.tokens / self.plain_steps


def decoded(
    cost: Cost,
    acceptance: Acceptance,
    *,
    length: int = 1000,
    seed: int = 0,
    fixed: int | None = None,
    gain: SpeculationGain | None = None,
    found: float = 1.0,
) -> Run:
    """A text of `length` tokens; a step's time is 5% noisy.

    Args:
        fixed: draft that many instead of asking.
        gain: of texts before it.
        found: how often there is a guess at all.
    """
    chance, run, gain = random.Random(seed), Run(), gain or SpeculationGain()
    gain.began()
    while run.tokens < length:
        most = MOST_DRAFTED if chance.random() < found else 0
        drafted = gain.best(most) if fixed is None else min(fixed, most)
        right = 0
        while right < drafted and chance.random() < acceptance(run.tokens + right):
            right += 1
        took = cost(1 + drafted)
        gain.stepped(1 + drafted, took * 0.02 * (1 + 0.05 * abs(chance.gauss(0, 1))))
        gain.accepted(drafted, right)
        run.tokens += right + 1
        run.plain_steps += took
        run.drafts.append(drafted)
    return run


def speeds(cost: Cost, acceptance: Acceptance, **options: object) -> list[float]:
    return [decoded(cost, acceptance, seed=seed, **options).speed for seed in range(5)]


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


@pytest.mark.parametrize("name", [name for name in COSTS if name != "dear"])
def test_behind_answers_for_which_it_was_never_right_one_that_it_knows_gets_drafts(name: str) -> None:
    gain = SpeculationGain()
    for seed in range(30):
        decoded(COSTS[name], lambda place: 0.0, gain=gain, length=100, seed=seed)
    assert decoded(COSTS[name], lambda place: 1.0, gain=gain, length=400).speed > 1.4


@pytest.mark.parametrize("name", COSTS)
def test_nothing_is_drafted_where_a_draft_was_said_to_be_out_of_question(
    name: str,
) -> None:
    gain, told = SpeculationGain(), 0
    gain.began()
    for _ in range(1000):
        is_out = gain.is_out_of_question
        drafted = gain.best(MOST_DRAFTED)
        assert not (is_out and drafted)
        assert gain.declines is (drafted == 0)
        told += is_out
        gain.stepped(1 + drafted, 0.02 * COSTS[name](1 + drafted))
        gain.accepted(drafted, 0)
    assert told > 50


def test_reading_is_lost_where_drafts_are_not_believed_to_pay() -> None:
    gain = SpeculationGain()
    decoded(COSTS["slope 0.08"], lambda place: 0.0, gain=gain)
    read, plain = 0, 0.02
    for _ in range(2000):
        if gain.best(MOST_DRAFTED) and gain.may_read:
            gain.has_read(5 * plain)
            read += 5
        gain.stepped(1, plain)
    assert 5 <= read <= 6 + 0.008 * 2000 + 5  # what it may lose at once, what it earns, and one in excess


def test_reading_is_free_where_drafts_are_believed_to_pay() -> None:
    gain = SpeculationGain()
    decoded(COSTS["slope 0.08"], lambda place: 1.0, gain=gain)
    for _ in range(100):
        assert gain.best(MOST_DRAFTED) > 0
        assert gain.may_read
        gain.has_read(0.1)


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


@pytest.mark.parametrize("name", ["flat", "slope 0.08", "slope 0.3", "cliff at 3", "jump at 2"])
def test_drafts_end_when_copying_ends(name: str) -> None:
    run = [decoded(COSTS[name], lambda place: 0.97 * (place < 300), length=1300, seed=s) for s in range(5)]
    copying = [decoded(COSTS[name], lambda place: 0.97, length=300, seed=s) for s in range(5)]
    for whole, part in zip(run, copying, strict=True):
        assert whole.plain_steps <= part.plain_steps * 1.25 + 1000 / 0.97


def test_nothing_is_drafted_before_a_plain_step_was_measured_twice() -> None:
    gain = SpeculationGain()
    for _ in range(3):
        assert gain.best(7) == 0
        gain.stepped(1, 1.0)
    assert gain.best(7) > 0


def test_a_new_sequence_drafts_at_once_where_costs_are_known() -> None:
    costs = StepCosts()
    costs.stepped(1, 9.0)
    costs.stepped(1, 1.0)
    assert SpeculationGain(costs).best(7) > 0


def test_a_plain_step_between_two_with_drafts_is_not_measured() -> None:
    """It waits for the device alone; plain steps in a row overlap."""
    costs = StepCosts()
    gain = SpeculationGain(costs)
    for tokens, seconds in [(1, 9.0), (1, 9.0), (1, 1.0), (1, 1.0), (4, 9.0), (4, 2.0), (1, 9.0), (4, 2.0)]:
        gain.stepped(tokens, seconds)
    assert costs.relative(4) == 2.0


def test_copying_without_end_measures_plain_steps_again() -> None:
    gain, plain, steps = SpeculationGain(), 0, 1000
    for _ in range(steps):
        count = gain.best(7)
        plain += count == 0
        gain.stepped(1 + count, 1.0)
        gain.accepted(count, count)
    assert 8 <= plain <= 0.03 * steps


@pytest.mark.parametrize("lengths", [LENGTHS, (3,), (7,), ()])
def test_drafts_have_one_of_the_lengths_that_are_offered_and_are_not_too_long(
    lengths: tuple[int, ...],
) -> None:
    gain, seen = SpeculationGain(), set[int]()
    for step in range(400):
        most = step % 10 - 1
        count = gain.best(most, lengths=lengths)
        assert count <= max(0, most)
        seen.add(count)
        gain.stepped(1 + count, 1.0)
        gain.accepted(count, count)
    assert seen == {0, *lengths}


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


@pytest.mark.parametrize(("drafted", "accepted"), [(2, 3), (1, -1), (MOST_DRAFTED + 1, 0)])
def test_more_accepted_than_drafted_is_refused(drafted: int, accepted: int) -> None:
    with pytest.raises(ValueError, match=f"{accepted} of {drafted} drafted tokens"):
        SpeculationGain().accepted(drafted, accepted)


def test_one_slow_step_does_not_end_drafts_for_good() -> None:
    """The second step of each count takes a thousand times as long; the text is copied all the time."""
    gain, seen = SpeculationGain(), dict[int, int]()

    def hiccup(tokens: int) -> float:
        seen[tokens] = seen.get(tokens, 0) + 1
        return 1000.0 if tokens > 1 and seen[tokens] == 2 else 1 + 0.08 * (tokens - 1)

    decoded(hiccup, lambda place: 1.0, length=12000, gain=gain)
    assert decoded(COSTS["slope 0.08"], lambda place: 1.0, gain=gain).speed >= 3


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
