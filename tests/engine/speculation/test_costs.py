"""What steps cost, by what was measured of each kind."""

import pytest

from engine.speculation.costs import StepCosts


def costs_of(*steps: tuple[int, float]) -> StepCosts:
    costs = StepCosts()
    for tokens, seconds in steps:
        costs.stepped(tokens, seconds)
    return costs


def test_costs_lie_on_lines_between_what_was_measured() -> None:
    costs = StepCosts()
    for tokens, seconds in [(1, 2.0), (3, 3.0), (7, 4.0)]:
        costs.stepped(tokens, 99.0)  # compiling
        for noise in (0.0, 50.0, 0.0, -0.5, 0.0):
            costs.stepped(tokens, seconds + noise)
    expected = [1.0, 1.25, 1.5, 1.625, 1.75, 1.875, 2.0, 2.125]
    assert [costs.relative(tokens) for tokens in range(1, 9)] == expected


def test_fewer_tokens_than_were_measured_are_hoped_to_be_cheap() -> None:
    costs = costs_of((1, 9.0), (1, 1.0))
    assert costs.hoped(8) == costs.relative(8)
    for _ in range(2):
        costs.stepped(8, 4.0)
    assert (costs.hoped(2), costs.hoped(4), costs.hoped(8)) == (1, 1, 4)
    for _ in range(2):
        costs.stepped(2, 1.5)
    assert (costs.hoped(2), costs.hoped(4), costs.hoped(8)) == (1.5, 1.5, 4)


def test_costs_before_a_plain_step_are_refused() -> None:
    costs = costs_of((1, 5.0))
    assert not costs.has_baseline
    with pytest.raises(ValueError, match="no step of one token"):
        costs.relative(2)


def test_the_first_step_of_a_count_is_not_believed() -> None:
    costs = costs_of((1, 9.0), (1, 1.0), (8, 6.0))
    assert costs.relative(8) < 2
    assert costs.charged(8) == 4  # but it did take long
    costs.stepped(8, 3.0)
    assert costs.relative(8) == costs.charged(8) == 3


def test_an_incredible_step_is_believed_when_it_comes_again() -> None:
    costs = costs_of((1, 9.0), (1, 1.0), (4, 9.0), (4, 4000.0))
    assert costs.relative(4) < 2
    costs.stepped(4, 4000.0)
    assert costs.relative(4) == 4000


def test_a_wait_costs_what_the_steps_around_it_take_more_than_plain_ones() -> None:
    costs = costs_of((1, 9.0), *[(1, 2.0)] * 5)
    unknown = costs.wait()
    costs.held(2.5)
    assert costs.wait() == unknown  # one of both says nothing
    costs.lone(3.0)
    assert costs.wait() == pytest.approx((2.5 + 3.0) / 2.0 - 2)
    for _ in range(5):
        costs.lone(90.0)
    assert costs.wait() == 1  # whatever took longer was no wait
    for _ in range(5):
        costs.held(1.0)
        costs.lone(2.5)
    assert costs.wait() == 0  # what is saved before a pause may be what comes after it


def test_what_was_not_met_for_long_is_forgotten() -> None:
    costs = costs_of((1, 1.0), (1, 1.0), (8, 5.0), (8, 5.0))
    assert costs.relative(8) == 5
    for _ in range(1100):
        costs.stepped(1, 1.0)
    assert costs.relative(8) < 2


def test_the_age_of_plain_steps_is_counted() -> None:
    costs = costs_of((1, 1.0), (1, 1.0), (8, 5.0), (8, 5.0), (8, 5.0))
    assert costs.plain_age == 3
    costs.stepped(1, 1.0)
    assert costs.plain_age == 0
