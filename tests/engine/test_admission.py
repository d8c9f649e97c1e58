"""What KV memory cannot hold is refused, and each way out that is named lets it run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.admission import Capacity, check_capacity, refused
from engine.errors import Refused

CAPACITY = st.builds(
    Capacity,
    pages=st.integers(1, 60),
    page_size=st.sampled_from([1, 2, 16]),
    pinned=st.dictionaries(st.sampled_from("ab"), st.integers(0, 30)),
    pinned_pages=st.integers(0, 60),
    may_quantise=st.booleans(),
)


def needed(prompt: int, answers: int, page_size: int) -> int:
    """Whole pages are shared; what is left of the prompt, and the next token, are each answer's own."""
    return prompt // page_size + answers


@given(prompt=st.integers(1, 500), answers=st.integers(1, 32), capacity=CAPACITY)
def test_a_request_is_refused_exactly_when_pages_are_missing(
    prompt: int, answers: int, capacity: Capacity
) -> None:
    available = max(0, capacity.pages - capacity.pinned_pages)
    missing = needed(prompt, answers, capacity.page_size)
    if missing <= available:
        check_capacity(prompt, answers, capacity)
        return
    with pytest.raises(Refused) as caught:
        check_capacity(prompt, answers, capacity)
    refusal = caught.value.refusal
    assert (refusal.needed_pages, refusal.available_pages) == (missing, available)
    assert f"{missing:,}" in str(caught.value)
    ways = {way.kind: way for way in refusal.ways_out}
    if "shorten" in ways:
        check_capacity(prompt - ways["shorten"].amount, answers, capacity)
    if "fewer answers" in ways:
        assert ways["fewer answers"].amount < answers
        check_capacity(prompt, ways["fewer answers"].amount, capacity)
    if "evict" in ways:
        check_capacity(prompt, answers, replace(capacity, pinned={}, pinned_pages=0))
    assert ("quantise" in ways) == capacity.may_quantise


def test_the_words_are_one_line_with_every_way_out() -> None:
    with pytest.raises(Refused) as caught:
        check_capacity(100, 8, Capacity(14, 16, {"a": 3}, 3, may_quantise=True))
    assert str(caught.value) == (
        "KV memory has 11 pages for this request and it needs 14; ask for at most 5 answers, "
        "shorten it by 37 tokens, unpin chat a (3 pages) or keep the KV cache in 8 bits"
    )


@given(prompt=st.integers(1, 500), answers=st.integers(1, 32), capacity=CAPACITY)
def test_in_a_smaller_context_all_answers_have_room(prompt: int, answers: int, capacity: Capacity) -> None:
    ways = {way.kind: way for way in refused(99, answers, prompt, capacity).refusal.ways_out}
    shared, room = prompt // capacity.page_size, capacity.available
    if "smaller context" not in ways:
        assert shared + answers > room or prompt % capacity.page_size == 0
        return
    context = ways["smaller context"].amount
    assert context > prompt
    own = capacity.pages_for(context) - shared
    assert shared + answers * own <= room < shared + answers * (own + 1)
