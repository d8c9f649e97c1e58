"""How much a model drafts: what is measured of steps, and what is offered or refused."""

import pytest

from engine.speculation.costs import StepCosts
from engine.speculation.draft import LENGTHS, MOST_DRAFTED
from engine.speculation.gain import SpeculationGain
from tests.engine.speculation.simulated_texts import COSTS, decoded


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


@pytest.mark.parametrize(("drafted", "accepted"), [(2, 3), (1, -1), (MOST_DRAFTED + 1, 0)])
def test_more_accepted_than_drafted_is_refused(drafted: int, accepted: int) -> None:
    with pytest.raises(ValueError, match=f"{accepted} of {drafted} drafted tokens"):
        SpeculationGain().accepted(drafted, accepted)
