"""When summing up pays: a while after something differed, and ever more rarely."""

from __future__ import annotations

from app.downloads.agreement import FIRST, Agreement


def test_nothing_is_due_before_something_differed() -> None:
    agreement = Agreement()
    agreement.saw(1 << 40, differed=False)
    assert not agreement.is_due


def test_it_is_due_when_bytes_agreed_for_long_enough_behind_the_last_difference() -> None:
    agreement = Agreement()
    agreement.saw(FIRST, differed=True)
    assert not agreement.is_due
    agreement.saw(FIRST - 1, differed=False)
    agreement.saw(10, differed=True)
    agreement.saw(FIRST - 1, differed=False)
    assert not agreement.is_due
    agreement.saw(1, differed=False)
    assert agreement.is_due


def test_after_a_look_in_vain_only_another_difference_makes_it_due() -> None:
    agreement = Agreement()
    agreement.saw(1, differed=True)
    agreement.saw(FIRST, differed=False)
    agreement.was_in_vain()
    agreement.saw(1 << 40, differed=False)
    assert not agreement.is_due


def test_16_gb_that_differ_again_behind_each_look_are_read_eleven_times() -> None:
    agreement, come, looks = Agreement(), 0, 0
    while come < 16 << 30:
        agreement.saw(1, differed=True)
        come += 1
        while not agreement.is_due:
            agreement.saw(FIRST, differed=False)
            come += FIRST
        agreement.was_in_vain()
        looks += 1
    assert looks == 11
