"""A refusal names its numbers and every way out."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from app.chat.refusal_words import failure_words, refusal_words
from engine import Failed, Refusal, WayOut

TITLES = {"c1": "Kernels"}


def title_of(chat_id: str) -> str:
    return TITLES.get(chat_id, "")


def words(*ways: WayOut) -> str:
    return refusal_words(Refusal(600, 512, ways), title_of)


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (WayOut("shorten", 1400), "shorten the message by 1,400 tokens"),
        (WayOut("fewer answers", 2), "ask for at most 2 answers at once"),
        (WayOut("evict", 96, "c1"), "let go of the memory of “Kernels”, which holds 96 pages"),
        (WayOut("evict", 96, "gone"), "let go of the memory of another chat, which holds 96 pages"),
        (WayOut("smaller context", 4096), "limit the context to 4,096 tokens"),
        (WayOut("quantise", 8), "store keys and values in 8 bits"),
    ],
)
def test_each_way_out(way: WayOut, said: str) -> None:
    assert words(way) == f"KV memory holds 512 pages, this needs 600: {said}"


def test_every_kind_has_words() -> None:
    for kind in get_args(get_type_hints(WayOut)["kind"]):
        assert words(WayOut(kind, 7)).count("7") == 1


def test_several_ways_are_one_sentence() -> None:
    three = words(WayOut("shorten", 1400), WayOut("evict", 96, "c1"), WayOut("quantise", 8))
    assert three.endswith(
        "tokens, let go of the memory of “Kernels”, which holds 96 pages, or store keys and values in 8 bits"
    )
    assert words() == "KV memory holds 512 pages, this needs 600"


def test_other_failures_say_what_the_engine_said() -> None:
    assert failure_words(Failed("r", "the model broke; load it again", "Internal"), title_of) == (
        "the model broke; load it again"
    )
    refused = Failed("r", "no room", "OutOfMemory", refusal=Refusal(600, 512, ()))
    assert failure_words(refused, title_of) == words()
