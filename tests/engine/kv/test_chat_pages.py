"""Pages per chat: a running sum is what counting anew gives."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from engine.kv.chat_pages import ChatPages, PageCount

Pages = st.lists(st.frozensets(st.sampled_from(["", "a", "b", "c"])), max_size=12)


@given(Pages, st.integers(0, 12))
def test_sums_are_right_after_pages_came_and_went(pages: list[frozenset[str]], gone: int) -> None:
    chats = ChatPages()
    for owners in pages:
        chats.add(owners, 1)
    for owners in pages[:gone]:
        chats.remove(owners)
    left = pages[gone:]
    assert chats.counts == {
        chat: PageCount(
            sum(chat in owners for owners in left), sum(chat in owners and len(owners) > 1 for owners in left)
        )
        for chat in {chat for owners in left for chat in owners} - {""}
    }


@given(Pages, st.sets(st.sampled_from(["a", "b"])))
def test_what_several_chats_share_is_held_once(pages: list[frozenset[str]], pinned: set[str]) -> None:
    chats = ChatPages()
    for owners in pages:
        chats.add(owners, 1)
    assert chats.held_by(pinned) == Counter(owners & pinned for owners in pages if owners & pinned)
