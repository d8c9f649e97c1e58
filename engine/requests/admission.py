"""Whether KV memory can hold a request at all, and what would help where it cannot. Pure Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from engine.errors import Refused
from engine.events.cache import Refusal, WayOut


@dataclass(frozen=True, slots=True)
class Capacity:
    """What KV memory has.

    Attributes:
        pages: in all; `page_size` tokens each.
        pinned: pages that are kept, by the chats that each of them is kept for, once the prompt is computed.
        pages_in_8_bits: in all if its elements were stored in 8 bits; `pages` where that changes nothing.
        shared: pages that are kept for others as well, and that the prompt begins with: not among `pinned`.
        shared_tokens: it begins with them while it has more than so many.
    """

    pages: int
    page_size: int
    pinned: Mapping[frozenset[str], int]
    pages_in_8_bits: int
    shared: Mapping[frozenset[str], int] = field(default_factory=dict[frozenset[str], int])
    shared_tokens: int = 0

    @property
    def pinned_pages(self) -> int:
        """Pages that are kept for others."""
        return sum(self.pinned.values())

    @property
    def available(self) -> int:
        """Pages that are not kept for anybody."""
        return max(0, self.pages - self.pinned_pages)

    @property
    def apart(self) -> Capacity:
        """The same for a prompt that begins with none of these."""
        pinned = Counter(self.pinned) + Counter(self.shared)
        return replace(self, pinned=pinned, shared={}, shared_tokens=0)

    def pages_for(self, tokens: int) -> int:
        """That many tokens take."""
        return -(-tokens // self.page_size)


def check_capacity(prompt: int, answers: int, capacity: Capacity, passed: int = 0) -> None:
    """Raises Refused when pages for the prompt, and one more for each answer, can never be there together.

    Args:
        prompt: tokens of the prompt that are in pages at once.
        answers: how many are drawn behind it.
        passed: tokens of the prompt before those, which a sliding window leaves.
    """
    if _needed(prompt, answers, capacity) > capacity.available:
        raise refused(prompt, answers, capacity, passed)


def refused(prompt: int, answers: int, capacity: Capacity, passed: int = 0) -> Refused:
    """The error for a request that has no room, with what would help, also where it was accepted before.

    A smaller context is not among that: no page is kept free for the rest of one.
    """
    needed, available = _needed(prompt, answers, capacity), capacity.available
    ways = _ways_out(prompt, answers, needed, capacity, passed)
    return Refused(Refusal(needed, available, ways, capacity.pages - available, prompt))


def _needed(prompt: int, answers: int, capacity: Capacity) -> int:
    """Pages of the prompt's whole ones, and one more for each answer: the rest of it, and the next token."""
    return prompt // capacity.page_size + answers


def _ways_out(prompt: int, answers: int, needed: int, capacity: Capacity, passed: int) -> tuple[WayOut, ...]:
    ways: list[WayOut] = []
    fitting = capacity.available - prompt // capacity.page_size
    if answers > 1 and fitting >= 1:
        ways.append(WayOut("fewer answers", min(fitting, answers - 1)))
    ways += _shorter(prompt, answers, capacity, passed)
    if needed <= capacity.pages:
        ways += _without_pins(needed, capacity)
    if capacity.pages < capacity.pages_in_8_bits >= needed + capacity.pinned_pages:
        ways.append(WayOut("quantise", 8))
    return tuple(ways) or _together(prompt, answers, capacity, passed)


def _shorter(prompt: int, answers: int, capacity: Capacity, passed: int) -> list[WayOut]:
    """A prompt that there are pages for, if any is: some are only there while it begins with them."""
    for has in (capacity, capacity.apart):
        over = prompt - (has.available - answers + 1) * has.page_size + 1
        if 0 < over < prompt - has.shared_tokens:
            return [WayOut("shorten", passed + over)]
    return []


def _without_pins(needed: int, capacity: Capacity) -> list[WayOut]:
    """Pinned chats of which one is enough; where none is, all of them together."""
    pinned, over = _pinned(capacity), needed + capacity.pinned_pages - capacity.pages
    alone = [way for way in pinned if capacity.pinned.get(frozenset((way.chat,)), 0) >= over]
    return alone or list(_joined(pinned))


def _pinned(capacity: Capacity) -> list[WayOut]:
    pages = Counter[str]()
    for chats, count in capacity.pinned.items():
        pages.update(dict.fromkeys(chats, count))
    return [WayOut("evict", count, chat) for chat, count in sorted(pages.items()) if count]


def _together(prompt: int, answers: int, capacity: Capacity, passed: int) -> tuple[WayOut, ...]:
    """Where nothing helps alone: of one answer, chats that are pinned no more, and a shorter prompt some."""
    one, pinned = [WayOut("fewer answers", 1)] if answers > 1 else [], _pinned(capacity.apart)
    needed, unpinned = _needed(prompt, 1, capacity), replace(capacity.apart, pinned={})
    if needed <= capacity.pages:
        ways = _without_pins(needed, capacity)
        return _joined([*one, *(ways if ways and ways[0].needs_next else ways[:1])])
    for also, drawn, has in (one, 1, capacity), (pinned, answers, unpinned), (one + pinned, 1, unpinned):
        if less := _shorter(prompt, drawn, has, passed):
            return _joined([*also, *less])
    return ()


def _joined(ways: list[WayOut]) -> tuple[WayOut, ...]:
    """They help together only."""
    return (*(replace(way, needs_next=True) for way in ways[:-1]), *ways[-1:])
