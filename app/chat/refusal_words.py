"""Why KV memory, or a context, cannot hold a message, and what would let it run, in words; without Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

from app import text
from app.amounts import counted
from engine import Failed, Refusal, WayOut

LONGEST_TITLE = 32
"""Characters of a chat's title on a button, which is one line."""
FEWEST_WORDS = 0.25
"""A token, of text that people count in words; it is code below that, or has no spaces between words."""


Way = tuple[WayOut, ...]
"""What helps together: one thing, or some of which none helps alone."""


def ways_of(ways_out: Sequence[WayOut]) -> tuple[Way, ...]:
    """What the engine names, with what helps only together as one way."""
    ends = [number for number, way in enumerate(ways_out, start=1) if not way.needs_next]
    return tuple(tuple(ways_out[start:end]) for start, end in zip([0, *ends], ends, strict=False))


def ways_for(refusal: Refusal, share: float) -> tuple[Way, ...]:
    """What would help where `share` of the prompt is the message: what is above it cannot be shortened."""
    message = share * refusal.prompt_tokens
    ways = ways_of(refusal.ways_out)
    return tuple(way for way in ways if all(part.kind != "shorten" or part.amount < message for part in way))


def failure_words(failed: Failed, share: float = 1.0) -> str:
    """The line that an answer fails with; ways out are offered beside it. `share`: as for `ways_for`."""
    refusal = failed.refusal
    if refusal is None:
        return failed.error
    words = text.REFUSED_BESIDE if refusal.pinned_pages else text.REFUSED
    if ways_for(refusal, share) != ways_of(refusal.ways_out):
        words += text.REFUSED_LONG
    return words.format(available=refusal.available_pages, needed=counted(refusal.needed_pages, "page"))


def warning_words(failed: Failed) -> str:
    """What a send would fail with, before it: what is wrong, without what to do, so that a line holds it."""
    return text.sentence(failure_words(failed).split("; ", 1)[0])


def way_words(way: Way, title_of: Callable[[str], str], words_a_token: float = 0.0) -> str:
    """What a way out does; chats come last, as their titles may be longer than there is room for.

    Args:
        title_of: gives a chat's title for its id, "" for unknown ones.
        words_a_token: of the text that was asked; 0 where that is not known.
    """
    chats = [part for part in way if part.kind == "evict"]
    alone = [part for part in way if part.kind != "evict"] + (chats if len(chats) == 1 else [])
    done = [_words(part, title_of, words_a_token) for part in alone]
    if len(chats) > 1:
        names = ", ".join(_name(part.chat, title_of) for part in chats)
        done.append(text.WAY_EVICT_ALL.format(count=len(chats), chats=names))
    first, *others = done
    others = [words[:1].lower() + words[1:] for words in others]
    return ", and ".join([", ".join([first, *others[:-1]]), *others[-1:]])


def _words(part: WayOut, title_of: Callable[[str], str], words_a_token: float) -> str:
    match part.kind:
        case "shorten":
            tokens = counted(part.amount, "token")
            if words_a_token < FEWEST_WORDS:
                return text.WAY_SHORTEN.format(amount=tokens)
            words = counted(ceil(part.amount * words_a_token), "word")
            return text.WAY_SHORTEN_WORDS.format(amount=tokens, words=words)
        case "fewer answers":
            return text.WAY_FEWER.format(amount=part.amount) if part.amount > 1 else text.WAY_ONE
        case "quantise":
            return text.WAY_QUANTISE.format(amount=part.amount)
        case "larger context":
            return text.WAY_LARGER.format(amount=counted(part.amount, "token"))
        case "evict":
            amount = counted(part.amount, "page")
            return text.WAY_EVICT.format(chat=_name(part.chat, title_of), amount=amount)


def _name(chat: str, title_of: Callable[[str], str]) -> str:
    title = title_of(chat)
    return f"“{text.titled(title, LONGEST_TITLE)}”" if title else "another chat"
