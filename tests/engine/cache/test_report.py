"""Why a prompt is computed again although its chat had been computed before."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.common_length import common_length
from engine.cache.report import ChatPrefixes
from engine.events.cache import MissReason

CHAIN = tuple(range(100))


@pytest.mark.parametrize(
    ("prompt", "reused", "known", "told"),
    [
        ((*CHAIN, 1, 2), 100, None, (None, None)),  # the next turn
        (CHAIN[:60], 59, None, (None, None)),  # an answer anew
        ((*CHAIN[:50], 7, 8), 50, None, (50, "edited")),
        ((*CHAIN[:50], 7, 8), 50, "template changed", (50, "template changed")),
        ((*CHAIN, 1, 2), 32, None, (32, "evicted")),
        ((*CHAIN, 1, 2), 84, None, (84, "evicted")),  # a page
        ((*CHAIN, 1, 2), 85, None, (None, None)),  # the last page was not full
        (CHAIN[:60], 43, None, (43, "evicted")),
        (CHAIN[:60], 44, None, (None, None)),  # the last token is computed in any case
        ((*CHAIN[:50], 7, 8), 16, None, (16, "evicted")),  # also edited, but this cost more
        ((*CHAIN[:6], *range(200, 280)), 70, None, (None, None)),  # back on a branch that is cached
        (range(200, 280), 0, None, (0, "edited")),  # from the first token on
        (range(200, 280), 0, "system prompt changed", (0, "system prompt changed")),
    ],
)
def test_reasons(
    prompt: tuple[int, ...],
    reused: int,
    known: MissReason | None,
    told: tuple[int | None, MissReason | None],
) -> None:
    prefixes = ChatPrefixes(16)
    prefixes.computed("a", CHAIN)
    prefixes.computed("a", ())  # one that was cancelled before it began
    assert prefixes.miss("a", prompt, reused, known) == told


def test_a_chat_that_was_never_computed_misses_nothing() -> None:
    prefixes = ChatPrefixes(16)
    assert prefixes.miss("a", CHAIN, 0, None) == (None, None)
    prefixes.computed("", CHAIN)
    assert prefixes.miss("", CHAIN, 0, None) == (None, None)
    assert prefixes.miss("a", CHAIN, 3, "other model") == (3, "other model")
    assert prefixes.miss("a", CHAIN, 83, "other model") == (83, "other model")
    assert prefixes.miss("a", CHAIN, 84, "other model") == (None, None)  # all of it was found
    prefixes.computed("a", CHAIN)
    prefixes.forget("a")
    assert prefixes.miss("a", CHAIN, 0, None) == (None, None)


@pytest.mark.parametrize(
    ("more", "reused", "told"),
    [(40, 100, (100, "other model")), (40, 96, (96, "other model")), (16, 100, (None, None))],
)
def test_what_another_model_read_since_is_missed_by_the_one_that_began(
    more: int, reused: int, told: tuple[int | None, MissReason | None]
) -> None:
    prefixes = ChatPrefixes(16)
    prefixes.computed("a", CHAIN)
    assert prefixes.miss("a", (*CHAIN, *range(200, 200 + more)), reused, "other model") == told


def test_a_branch_that_had_been_left_is_evicted_not_edited() -> None:
    prefixes, other = ChatPrefixes(16), (*CHAIN[:50], *range(200, 250))
    prefixes.computed("a", CHAIN)
    prefixes.computed("a", other)
    for branch in (CHAIN, other):
        assert prefixes.miss("a", (*branch, 1), 50, None) == (50, "evicted")
        assert prefixes.miss("a", (*branch, 1), 80, None) == (80, "evicted")
        assert prefixes.miss("a", (*branch, 1), 100, None) == (None, None)
    assert prefixes.miss("a", (*CHAIN[:70], 7, 8), 70, None) == (70, "edited")
    assert prefixes.miss("a", (*CHAIN[:30], 7, 8), 30, None) == (30, "edited")


def test_of_many_branches_the_latest_are_known() -> None:
    prefixes = ChatPrefixes(16)
    branches = [(*CHAIN[:50], *range(100 * n, 100 * n + 50)) for n in range(2, 12)]
    for branch in (*branches[:8], branches[0], *branches[8:]):  # back on the first, before two more
        prefixes.computed("a", branch)
    told = [prefixes.miss("a", (*branch, 1), 50, None) for branch in branches]
    assert told == [(50, "edited" if place in (1, 2) else "evicted") for place in range(10)]


def test_a_chat_that_goes_on_is_one_branch() -> None:
    prefixes, other = ChatPrefixes(16), range(500, 600)
    prefixes.computed("a", other)
    for turn in range(1, 100):
        prefixes.computed("a", CHAIN[:turn])
    for branch in (CHAIN, other):
        assert prefixes.miss("a", branch, 0, None) == (0, "evicted")


def test_of_many_chats_those_asked_for_last_are_known() -> None:
    prefixes, most = ChatPrefixes(16), 256
    for chat in ("first", "second", *map(str, range(most - 2)), "first", "one more"):
        prefixes.computed(chat, CHAIN)
    known = ["first", *map(str, range(most - 2)), "one more"]
    assert all(prefixes.miss(chat, CHAIN, 0, None) == (0, "evicted") for chat in known)
    assert prefixes.miss("second", CHAIN, 0, None) == (None, None)


@pytest.mark.parametrize(
    ("reused", "known", "told"),
    [
        (0, None, (0, "evicted")),
        (64, None, (64, "evicted")),
        (70, None, (None, None)),  # the last page was not full
        (99, None, (None, None)),
        (80, "template changed", (80, "template changed")),
        (16, "template changed", (16, "evicted")),
    ],
)
def test_a_chat_s_own_account_of_an_earlier_start_is_believed(
    reused: int, known: MissReason | None, told: tuple[int | None, MissReason | None]
) -> None:
    assert ChatPrefixes(16).miss("a", CHAIN, reused, known, history=85) == told


@given(a=st.lists(st.integers(0, 2)), b=st.lists(st.integers(0, 2)))
def test_a_common_beginning_is_as_long_as_it_can_be(a: list[int], b: list[int]) -> None:
    length = common_length(a, b)
    assert a[:length] == b[:length]
    assert length in (len(a), len(b)) or a[length] != b[length]
    assert common_length(array("I", a), array("I", b)) == length
