"""Whose pages in memory are: per chat how many, and how many of them belong to others too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass

Owners = frozenset[str]


@dataclass(frozen=True, slots=True)
class PageCount:
    """Pages of a chat; `shared` of them have other owners as well."""

    pages: int
    shared: int


class ChatPages:
    """How many pages of the prefix tree each set of owners has, kept as pages and owners come and go."""

    def __init__(self) -> None:
        self._pages: Counter[Owners] = Counter()

    @property
    def counts(self) -> Mapping[str, PageCount]:
        """Of every chat that has a page; "" is nobody's and is not told."""
        pages, shared = Counter[str](), Counter[str]()
        for owners, count in self._pages.items():
            for chat in owners:
                pages[chat] += count
                shared[chat] += count if len(owners) > 1 else 0
        return {chat: PageCount(count, shared[chat]) for chat, count in pages.items() if chat}

    def held_by(self, chats: Set[str]) -> Counter[Owners]:
        """Pages that any of `chats` owns, by those of them that do: each counted once."""
        held = Counter[Owners]()
        for owners, count in self._pages.items():
            if of := owners & chats:
                held[of] += count
        return held

    def add(self, owners: Owners, pages: int) -> None:
        """So many more pages of `owners`."""
        if pages:
            self._pages[owners] += pages

    def remove(self, owners: Owners) -> None:
        """One page of `owners` less."""
        self._pages[owners] -= 1
        if not self._pages[owners]:
            del self._pages[owners]
