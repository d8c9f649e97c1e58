"""What is said of the cache."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from app.chat.cache_words import (
    MISS_WORDS,
    ChatPlace,
    memory_words,
    miss_words,
    place_of,
    prediction_words,
    reading_words,
    why_words,
)
from engine import CacheReport, ChatMemory, MissReason, Predicted


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (0.0, ", less than 0.1 s"),
        (0.094, ", less than 0.1 s"),
        (0.2, ", about 0.2 s"),
        (9.94, ", about 9.9 s"),
        (9.96, ", about 10 s"),
        (119.0, ", about 119 s"),
        (300.0, ", about 5 min"),
    ],
)
def test_a_prediction(seconds: float | None, words: str) -> None:
    found = Predicted("p", prompt_tokens=8140, cached_tokens=8000, restored_tokens=112, seconds=seconds)
    assert prediction_words(found) == "8,112 of 8,140 tokens cached" + words


def test_reading() -> None:
    assert reading_words(512, 2000, 0) == "Reading 512 of 2,000 tokens"
    assert reading_words(28, 28, 8112) == "Reading 28 of 28 new tokens · 8,112 cached"
    assert reading_words(0, 1, 8112) == "Reading 0 of 1 new token · 8,112 cached", "of another answer"
    assert reading_words(0, 1, 0) == "Reading 0 of 1 token"


@pytest.mark.parametrize(
    ("left", "words"),
    [(None, ""), (0.9, ""), (2.34, " · about 2.3 s left"), (130.0, " · about 2 min left")],
)
def test_reading_says_how_long_it_will_take(left: float | None, words: str) -> None:
    assert reading_words(512, 2000, 0, left) == "Reading 512 of 2,000 tokens" + words
    assert reading_words(28, 48, 8112, left) == "Reading 28 of 48 new tokens · 8,112 cached" + words


@pytest.mark.parametrize(
    ("cached", "seconds", "words"),
    [
        (8, 180.0, "the rest was no longer kept"),
        (8, None, "the rest was no longer kept"),
        (0, 180.0, "it was no longer kept"),
        (26_400, 1.2, "the rest was no longer kept"),  # few tokens, and a large model
        (26_400, 0.3, ""),
        (26_400, None, ""),
    ],
)
def test_why_much_is_to_be_read_is_said_before_and_during(
    cached: int, seconds: float | None, words: str
) -> None:
    found = Predicted("p", 26_525, cached, 0, seconds, cached, "evicted")
    assert why_words(found, seconds) == words
    assert why_words(CacheReport("p", 26_525, cached, 0, cached, "evicted"), seconds) == words
    assert why_words(replace(found, reason=None), seconds) == ""


def test_every_reason_of_a_miss_has_words() -> None:
    assert set(MISS_WORDS) == set(get_args(MissReason))
    assert miss_words(1512, "edited") == "Read from token 1,512 on: the message was edited"
    assert miss_words(1512, "evicted") == "Read again from token 1,512: it was no longer kept"
    assert miss_words(0, "other model") == "Read again from the start: another model had read it"


def test_without_a_miss_nothing_is_said() -> None:
    assert miss_words(None, "") == ""
    assert miss_words(5, "") == ""


@pytest.mark.parametrize(
    ("memory", "place", "words"),
    [
        (None, "cold", "No pages of its own with a model that is open, in memory or on SSD"),
        (ChatMemory(0, 0, 0), "cold", "No pages of its own with a model that is open, in memory or on SSD"),
        (ChatMemory(2_100_000, 0, 0), "memory", "2.1 MB in memory"),
        (ChatMemory(0, 65_536, 0), "ssd", "65.5 kB on SSD"),
        (
            ChatMemory(2_100_000, 500_000, 1_000_000),
            "memory",
            "2.1 MB in memory, 500 kB on SSD, 1.0 MB of it shared with other chats",
        ),
    ],
)
def test_where_a_chat_lies(memory: ChatMemory | None, place: ChatPlace, words: str) -> None:
    assert (place_of(memory), memory_words(memory)) == (place, words)
