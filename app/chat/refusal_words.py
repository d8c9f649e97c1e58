"""Why KV memory, or a context, cannot hold a message, and what would let it run, in words; without Qt."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from app import text
from app.amounts import counted
from engine import Failed, Refusal, WayOut

LONGEST_TITLE = 32
FEWEST_WORDS = 0.25
"""A token, of text that people count in words; it is code below that, or has no spaces between words."""


def ways_for(refusal: Refusal, share: float) -> tuple[WayOut, ...]:
    """What would help where `share` of the prompt is the message: what is above it cannot be shortened."""
    message = share * refusal.prompt_tokens
    return tuple(way for way in refusal.ways_out if way.kind != "shorten" or way.amount < message)


def failure_words(failed: Failed, share: float = 1.0) -> str:
    """The line that an answer fails with; ways out are offered beside it. `share`: as for `ways_for`."""
    refusal = failed.refusal
    if refusal is None:
        return failed.error
    words = text.REFUSED_BESIDE if refusal.pinned_pages else text.REFUSED
    if ways_for(refusal, share) != refusal.ways_out:
        words += text.REFUSED_LONG
    return words.format(available=refusal.available_pages, needed=counted(refusal.needed_pages, "page"))


def warning_words(failed: Failed) -> str:
    """What a send would fail with, before it: what is wrong, without what to do, so that a line holds it."""
    return text.sentence(failure_words(failed).split("; ", 1)[0])


def way_words(way: WayOut, title_of: Callable[[str], str], words_a_token: float = 0.0) -> str:
    """What a way out does.

    Args:
        title_of: gives a chat's title for its id, "" for unknown ones.
        words_a_token: of the text that was asked; 0 where that is not known.
    """
    match way.kind:
        case "shorten":
            tokens = counted(way.amount, "token")
            if words_a_token < FEWEST_WORDS:
                return text.WAY_SHORTEN.format(amount=tokens)
            words = counted(ceil(way.amount * words_a_token), "word")
            return text.WAY_SHORTEN_WORDS.format(amount=tokens, words=words)
        case "fewer answers":
            return text.WAY_FEWER.format(amount=way.amount) if way.amount > 1 else text.WAY_ONE
        case "evict":
            title = title_of(way.chat)
            if len(title) > LONGEST_TITLE:  # a button is one line
                title = title[: LONGEST_TITLE - 1].rstrip() + "…"
            chat = f"“{title}”" if title else "another chat"
            return text.WAY_EVICT.format(chat=chat, amount=counted(way.amount, "page"))
        case "smaller context":
            return text.WAY_CONTEXT.format(amount=counted(way.amount, "token"))
        case "quantise":
            return text.WAY_QUANTISE.format(amount=way.amount)
        case "larger context":
            return text.WAY_LARGER.format(amount=counted(way.amount, "token"))
