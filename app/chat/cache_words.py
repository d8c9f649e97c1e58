"""What the cache did, does and would do for a chat, in words; without Qt."""

from __future__ import annotations

from typing import Literal

from app import text
from app.amounts import counted, size
from engine import CacheReport, ChatMemory, Freed, Predicted

MISS_WORDS = {
    "edited": "the message was edited",
    "template changed": "the chat’s template changed",
    "system prompt changed": "the system prompt changed",
    "evicted": "it was no longer kept",
    "other model": "another model had read it",
}

_WHY_WORDS = MISS_WORDS | {
    "evicted": "the rest was no longer kept",
    "other model": "another model had read the rest",
}
"""Where some tokens are cached."""
_MANY, _LONG_S = 256, 1.0
"""Tokens to read, or seconds to wait, for which people want to know why."""

ChatPlace = Literal["memory", "ssd", "cold"]


def place_of(memory: ChatMemory | None) -> ChatPlace:
    """Where a chat's pages are found quickest."""
    if memory is None or not memory.memory_bytes + memory.ssd_bytes:
        return "cold"
    return "memory" if memory.memory_bytes else "ssd"


def memory_words(memory: ChatMemory | None) -> str:
    """What a chat holds, for a tooltip and for screen readers."""
    if memory is None or place_of(memory) == "cold":
        return text.COLD
    places = ((text.IN_MEMORY, memory.memory_bytes), (text.ON_SSD, memory.ssd_bytes))
    parts = [words.format(size=size(held)) for words, held in places if held]
    if memory.shared_bytes:
        parts.append(text.SHARED.format(size=size(memory.shared_bytes)))
    return ", ".join(parts)


def prediction_words(found: Predicted) -> str:
    """What a message would find, such as "8,112 of 8,140 tokens cached, about 0.2 s"."""
    cached = found.cached_tokens + found.restored_tokens
    words = text.CACHED.format(cached=cached, total=found.prompt_tokens)
    return words if found.seconds is None else f"{words}, {_wait(found.seconds)}"


def why_words(found: CacheReport | Predicted, seconds: float | None) -> str:
    """Why not more is cached, where much is read for it, in the `seconds` that are known; "" otherwise."""
    reused = found.cached_tokens + found.restored_tokens
    new = found.prompt_tokens - reused
    is_much = new >= _MANY or (seconds is not None and seconds >= _LONG_S)
    if found.reason is None or not is_much:
        return ""
    return (_WHY_WORDS if reused else MISS_WORDS)[found.reason]


def reading_words(done: int, total: int, cached: int, left: float | None = None) -> str:
    """How far a prompt is read: `done` of the `total` tokens that are not among its `cached` ones.

    `left`: seconds that the others will take; less than one is not worth a word.
    """
    words, noun = (text.READING_NEW, "new token") if cached else (text.READING, "token")
    told = words.format(done=done, tokens=counted(total, noun), cached=cached)
    return told if left is None or left < _LONG_S else f"{told} · {text.LEFT.format(wait=_wait(left))}"


def miss_words(missed_from: int | None, reason: str) -> str:
    """Why tokens were read that were expected to be there; "" when none were, or no reason is known."""
    if missed_from is None or reason not in MISS_WORDS:
        return ""
    words = text.MISSED if missed_from else text.MISSED_ALL
    if reason == "edited":
        words = text.MISSED_NEW  # nothing behind it is what was read before
    return words.format(token=missed_from, reason=MISS_WORDS[reason])


def freed_words(freed: Freed) -> str:
    """What keeping one of several answers has freed."""
    return text.KEPT.format(size=size(freed.bytes)) if freed.pages else text.KEPT_NOTHING_FREE


def disk_problem_words(problem: str) -> str:
    """Why nothing is written to SSD at present, of `CacheCounts.ssd_problem`; "" where there is none."""
    return text.DISK_PROBLEM.format(reason=problem) if problem else ""


def _wait(seconds: float) -> str:
    if seconds < 0.095:
        return "less than 0.1 s"
    if seconds < 9.95:
        return f"about {seconds:.1f} s"
    return f"about {seconds:.0f} s" if seconds < 120 else f"about {seconds / 60:.0f} min"
