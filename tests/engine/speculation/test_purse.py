"""What may be lost grows with the answer, and has a limit."""

import pytest

from engine.speculation.purse import Purse


def test_less_than_a_hundredth_of_an_answer_may_be_lost() -> None:
    purse = Purse(1.0)
    for _ in range(500):
        purse.earn(1)
    assert 1 < purse.left < 1 + 5


def test_what_was_lost_is_gone_and_what_was_won_may_be_lost_later_in_part() -> None:
    purse = Purse(1.0)
    purse.balance(-3.0)
    assert purse.left == pytest.approx(-2.0)
    purse.balance(100.0)
    assert 1 < purse.left < 10
