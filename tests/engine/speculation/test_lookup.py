"""Drafts from the past against a search through all of it."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.speculation.draft import Draft
from engine.speculation.lookup import LONGEST, PromptLookup

TOKENS = st.lists(st.integers(0, 2), max_size=40)


class Searched:
    """What a lookup should foretell, by looking at every place from the newest to the oldest."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = list(tokens)
        self.place = self.search()

    def search(self) -> int | None:
        newest = self.tokens[-2:]
        places = range(len(self.tokens) - 1, 1, -1)
        return next((place for place in places if self.tokens[place - 2 : place] == newest), None)

    def follow(self, token: int) -> bool:
        is_right = self.place is not None and self.tokens[self.place] == token
        self.tokens.append(token)
        self.place = self.place + 1 if is_right and self.place is not None else self.search()
        return is_right

    @property
    def match(self) -> int:
        """Of the newest tokens, how many stand before the place in the same order."""
        if self.place is None:
            return 0
        ends = range(1, self.place + 1)
        return next((n - 1 for n in ends if self.tokens[self.place - n] != self.tokens[-n]), self.place)

    def draft(self, most: int) -> tuple[int, ...]:
        if self.place is None:
            return ()
        grown, behind = list(self.tokens), len(self.tokens) - self.place
        for _ in range(most):
            grown.append(grown[-behind])
        return tuple(grown[len(self.tokens) :])


@given(tokens=TOKENS, most=st.integers(0, 8))
def test_what_followed_the_newest_two_tokens_the_last_time_is_copied(tokens: list[int], most: int) -> None:
    searched = Searched(tokens)
    assert PromptLookup(tokens).draft(most).tokens == searched.draft(most)


class Growth(RuleBasedStateMachine):
    """A sequence that grows."""

    @initialize(tokens=TOKENS)
    def begin(self, tokens: list[int]) -> None:
        self.searched = Searched(tokens)
        self.lookup = PromptLookup(tokens)

    @rule(tokens=TOKENS)
    def grow(self, tokens: list[int]) -> None:
        self.lookup.add(tokens)
        self.searched = Searched([*self.searched.tokens, *tokens]) if tokens else self.searched

    @rule(token=st.integers(0, 2))
    def follow(self, token: int) -> None:
        assert self.lookup.follow(token) == self.searched.follow(token)

    @rule(most=st.integers(1, 7))
    def follow_the_draft(self, most: int) -> None:
        for token in self.lookup.draft(most).tokens:
            assert self.lookup.follow(token)
            assert self.searched.follow(token)

    @invariant()
    def drafts_as_a_search_does(self) -> None:
        assert len(self.lookup) == len(self.searched.tokens)
        draft = self.lookup.draft(7)
        assert draft.tokens == self.searched.draft(7)
        assert min(self.lookup.match, LONGEST) == min(self.searched.match, LONGEST) == draft.match


Growth.TestCase.settings = settings(max_examples=60, stateful_step_count=20)
TestGrowth = Growth.TestCase


def test_a_text_that_is_copied_is_drafted_to_its_end() -> None:
    source = list(range(100, 200))
    lookup = PromptLookup([1, 2, *source, 3, 4, *source[:2]])
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
    for size in (2, 3, 7, LONGEST, LONGEST + 5):
        lookup = PromptLookup([*past, 99, *past[20 : 20 + size]])
        assert lookup.draft(3) == Draft((20 + size, 21 + size, 22 + size), min(size, LONGEST))


def test_a_place_that_was_right_is_followed_though_its_tokens_stood_elsewhere_later() -> None:
    lookup = PromptLookup([1, 2, 3, 4, 5, 9, 3, 4, 8, 1, 2])
    assert lookup.follow(3)
    assert lookup.follow(4)
    assert lookup.draft(1) == Draft((5,), 4)
