"""A refusal names its numbers, and every way out has words."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args, get_type_hints

import pytest

from app.chat.refusal_words import failure_words, way_words, ways_for, ways_of
from engine import Failed, Refusal, WayOut

TITLES = {"c1": "Kernels", "c2": "Kernels, and what they are good for", "c3": "\u05d0\u05d1"}


def title_of(chat_id: str) -> str:
    return TITLES.get(chat_id, "")


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (WayOut("shorten", 1400), "Shorten the message by 1,400 tokens"),
        (WayOut("fewer answers", 2), "Ask for 2 answers"),
        (WayOut("fewer answers", 1), "Ask for one answer"),
        (WayOut("evict", 96, "c1"), "Let go of the memory of “Kernels”, 96 pages"),
        (WayOut("evict", 96, "c2"), "Let go of the memory of “Kernels, and what they are good…”, 96 pages"),
        (WayOut("evict", 96, "c3"), "Let go of the memory of “\u2068\u05d0\u05d1\u2069”, 96 pages"),
        (WayOut("evict", 96, "gone"), "Let go of the memory of another chat, 96 pages"),
        (WayOut("larger context", 2048), "Allow more in this model's settings, up to 2,048 tokens"),
        (WayOut("quantise", 8), "Store keys and values in 8 bits, from the next start of MLXR on"),
    ],
)
def test_each_way_out(way: WayOut, said: str) -> None:
    assert way_words((way,), title_of) == said


@pytest.mark.parametrize(
    ("words_a_token", "said"),
    [(0.8, ", about 21 words"), (1.0, ", about 26 words"), (0.1, ""), (0.0, "")],
)
def test_tokens_that_nobody_can_count_are_told_in_words_where_there_are_any(
    words_a_token: float, said: str
) -> None:
    way = WayOut("shorten", 26)
    assert way_words((way,), title_of, words_a_token) == f"Shorten the message by 26 tokens{said}"


ONE, SHORTER = WayOut("fewer answers", 1, needs_next=True), WayOut("shorten", 26)
FIRST, SECOND = WayOut("evict", 5, "c1", needs_next=True), WayOut("evict", 4, "gone")


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ((ONE, SECOND), "Ask for one answer, and let go of the memory of another chat, 4 pages"),
        ((FIRST, SECOND), "Let go of the memory of 2 chats: “Kernels”, another chat"),
        ((ONE, SHORTER), "Ask for one answer, and shorten the message by 26 tokens"),
        (
            (ONE, FIRST, replace(SECOND, needs_next=True), SHORTER),
            "Ask for one answer, shorten the message by 26 tokens, "
            "and let go of the memory of 2 chats: “Kernels”, another chat",
        ),
    ],
)
def test_what_helps_only_together_is_one_way(way: tuple[WayOut, ...], said: str) -> None:
    alone = WayOut("quantise", 8)
    assert ways_of((alone, *way, alone)) == ((alone,), way, (alone,))
    assert way_words(way, title_of) == said


def test_what_helps_only_beside_a_shorter_message_is_not_offered_where_that_cannot_be() -> None:
    refusal = Refusal(7, 6, (FIRST, SHORTER, WayOut("quantise", 8)), prompt_tokens=100)
    assert ways_for(refusal, 0.26) == ((WayOut("quantise", 8),),)


def test_every_kind_has_words() -> None:
    for kind in get_args(get_type_hints(WayOut)["kind"]):
        assert way_words((WayOut(kind, 7),), title_of).count("7") == 1


def test_a_failure_says_the_numbers_or_what_the_engine_said() -> None:
    plain = Failed("r", "the model broke; load it again", "Internal")
    assert failure_words(plain) == "the model broke; load it again"
    refused = Failed("r", "no room", "Refused", refusal=Refusal(600, 512, (WayOut("quantise", 8),)))
    assert failure_words(refused) == "This needs 600 pages, and KV memory has 512"


def test_a_refusal_beside_pinned_chats_does_not_say_that_memory_is_small() -> None:
    refused = Failed("r", "no room", "Refused", refusal=Refusal(4, 1, (), pinned_pages=22))
    said = "This needs 4 pages, and KV memory has 1 beside the chats you keep in memory"
    assert failure_words(refused) == said


@pytest.mark.parametrize(
    ("share", "is_long"),
    [pytest.param(1.0, False, id="all of it"), (0.27, False), (0.26, True), (0.01, True)],
)
def test_a_message_is_not_to_be_shortened_by_more_than_it_has(share: float, is_long: bool) -> None:
    ways = (WayOut("shorten", 26), WayOut("evict", 5, "c1"))
    refusal = Refusal(7, 6, ways, prompt_tokens=100)
    assert ways_for(refusal, share) == ways_of(ways[1:] if is_long else ways)
    said = failure_words(Failed("r", "no room", "Refused", refusal=refusal), share)
    assert said.endswith("; start a new chat to go on") == is_long
