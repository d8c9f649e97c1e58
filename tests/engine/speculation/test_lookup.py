"""Drafts from the past against a search through all of it."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.speculation.draft import Draft, Drafter
from engine.speculation.lookup import RUNS, PromptLookup

TOKENS = st.lists(st.integers(0, 2), max_size=40)
SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True)


def searched(tokens: Sequence[int], sizes: Sequence[int], most: int) -> Draft:
    """What a lookup should draft, by looking at every place from the newest to the oldest."""
    for size in sorted(sizes, reverse=True):
        newest = list(tokens[-size:])
        for place in range(len(tokens) - 1, size - 1, -1):
            if list(tokens[place - size : place]) == newest and most > 0:
                grown = list(tokens)
                for _ in range(most):
                    grown.append(grown[place + len(grown) - len(tokens)])
                return Draft(tuple(grown[len(tokens) :]), size)
    return Draft((), 0)


@given(tokens=TOKENS, sizes=SIZES, most=st.integers(0, 8))
def test_the_latest_place_of_the_longest_run_is_copied(
    tokens: list[int], sizes: list[int], most: int
) -> None:
    assert PromptLookup(tokens, sizes).draft(most) == searched(tokens, sizes, most)


class Growth(RuleBasedStateMachine):
    """A sequence that grows and is cut back."""

    @initialize(tokens=TOKENS, sizes=SIZES)
    def begin(self, tokens: list[int], sizes: list[int]) -> None:
        self.tokens, self.sizes = list(tokens), sizes
        self.lookup = PromptLookup(tokens, sizes)

    @rule(tokens=TOKENS)
    def grow(self, tokens: list[int]) -> None:
        self.lookup.add(tokens)
        self.tokens += tokens

    @rule(most=st.integers(1, 7))
    def follow_the_draft(self, most: int) -> None:
        draft = self.lookup.draft(most).tokens
        self.lookup.add(draft)
        self.tokens += draft

    @invariant()
    def drafts_as_a_search_does(self) -> None:
        assert len(self.lookup) == len(self.tokens)
        assert self.lookup.draft(7) == searched(self.tokens, self.sizes, 7)


Growth.TestCase.settings = settings(max_examples=60, stateful_step_count=20)
TestGrowth = Growth.TestCase


def test_a_text_that_is_copied_is_drafted_to_its_end() -> None:
    source = list(range(100, 200))
    lookup: Drafter = PromptLookup([1, 2, *source, 3, 4, *source[:2]])
    copied = source[:2]
    while len(copied) < len(source):
        draft = lookup.draft(7).tokens
        assert draft[: len(source) - len(copied)] == tuple(source[len(copied) : len(copied) + 7])
        lookup.add(draft)
        copied += draft


def test_a_loop_is_drafted_beyond_what_stands_there() -> None:
    assert PromptLookup([9, 5, 6, 5, 6]).draft(7) == Draft((5, 6, 5, 6, 5, 6, 5), 2)
    assert PromptLookup([7, 7, 7]).draft(4) == Draft((7, 7, 7, 7), 2)


def test_tokens_that_never_stood_together_are_no_draft() -> None:
    assert PromptLookup(range(1000)).draft(7) == Draft((), 0)
    assert PromptLookup([1, 2, 3, 9, 2]).draft(7) == Draft((), 0)
    assert PromptLookup().draft(7) == Draft((), 0)


def test_the_match_tells_how_long_the_run_is() -> None:
    past = list(range(50))
    for size in RUNS:
        lookup = PromptLookup([*past, 99, *past[20 : 20 + size]])
        assert lookup.draft(3) == Draft((20 + size, 21 + size, 22 + size), size)


def test_a_run_of_no_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="a run of 0 tokens"):
        PromptLookup([1], (4, 0))
