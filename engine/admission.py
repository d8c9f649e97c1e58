"""Whether KV memory can hold a request at all, and what would help where it cannot. Pure Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.cache_events import Refusal, WayOut
from engine.errors import Refused


@dataclass(frozen=True, slots=True)
class Capacity:
    """What KV memory has.

    Attributes:
        pages: in all; `page_size` tokens each.
        pinned: pages that are kept for chats, by chat.
        may_quantise: whether its elements are stored as computed, and could be in 8 bits.
    """

    pages: int
    page_size: int
    pinned: Mapping[str, int]
    may_quantise: bool

    def pages_for(self, tokens: int) -> int:
        """That many tokens take."""
        return -(-tokens // self.page_size)


def check_capacity(prompt: int, answers: int, capacity: Capacity) -> None:
    """Raises Refused when pages for the prompt, and one more for each answer, can never be there together.

    Args:
        prompt: tokens of the prompt that are in pages at once.
        answers: how many are drawn behind it.
    """
    shared, tail = divmod(prompt, capacity.page_size)
    needed = shared + answers if tail or answers > 1 else capacity.pages_for(prompt + 1)
    available = capacity.pages - sum(capacity.pinned.values())
    if needed > available:
        raise Refused(Refusal(needed, max(0, available), _ways_out(prompt, answers, needed, capacity)))


def refused(needed: int, answers: int, prompt: int, capacity: Capacity) -> Refused:
    """The error for a request that got on so far, and cannot get `needed` pages with nobody beside it."""
    available = max(0, capacity.pages - sum(capacity.pinned.values()))
    return Refused(Refusal(needed, available, _ways_out(prompt, answers, needed, capacity)))


def _ways_out(prompt: int, answers: int, needed: int, capacity: Capacity) -> tuple[WayOut, ...]:
    pinned = sum(capacity.pinned.values())
    available = max(0, capacity.pages - pinned)
    ways: list[WayOut] = []
    fitting = available - prompt // capacity.page_size
    if answers > 1 and fitting >= 1:
        ways.append(WayOut("fewer answers", min(fitting, answers - 1)))
    over = prompt - max(0, available - answers + 1) * capacity.page_size + 1
    if 0 < over < prompt:
        ways.append(WayOut("shorten", over))
    if needed <= capacity.pages:
        ways += [WayOut("evict", pages, chat) for chat, pages in sorted(capacity.pinned.items()) if pages]
    if capacity.may_quantise:
        ways.append(WayOut("quantise", 8))
    return tuple(ways)
