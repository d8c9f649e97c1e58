"""Why KV memory cannot hold a message, and what would let it run, in words; without Qt."""

from __future__ import annotations

from collections.abc import Callable

from app import text
from engine import Failed, Refusal, WayOut


def failure_words(failed: Failed, title_of: Callable[[str], str]) -> str:
    """The line that an answer fails with; `title_of` gives a chat's title for its id, "" for unknown ones."""
    return failed.error if failed.refusal is None else refusal_words(failed.refusal, title_of)


def refusal_words(refusal: Refusal, title_of: Callable[[str], str]) -> str:
    """One sentence with the numbers and every way out."""
    words = text.REFUSED.format(available=refusal.available_pages, needed=refusal.needed_pages)
    ways = [_way_words(way, title_of) for way in refusal.ways_out]
    return f"{words}: {_joined(ways)}" if ways else words


def _way_words(way: WayOut, title_of: Callable[[str], str]) -> str:
    match way.kind:
        case "shorten":
            return text.WAY_SHORTEN.format(amount=way.amount)
        case "fewer answers":
            return text.WAY_FEWER.format(amount=way.amount)
        case "evict":
            title = title_of(way.chat)
            chat = f"“{title}”" if title else "another chat"
            return text.WAY_EVICT.format(chat=chat, amount=way.amount)
        case "smaller context":
            return text.WAY_CONTEXT.format(amount=way.amount)
        case "quantise":
            return text.WAY_QUANTISE.format(amount=way.amount)


def _joined(ways: list[str]) -> str:
    return ways[0] if len(ways) == 1 else f"{', '.join(ways[:-1])}, or {ways[-1]}"
