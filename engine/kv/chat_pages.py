"""Whose pages in memory are: per chat how many, and how many of them belong to others too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Owners = frozenset[str]


@dataclass(frozen=True, slots=True)
class PageCount:
    """Pages of a chat; `shared` of them have other owners as well."""

    pages: int
    shared: int


class ChatPages:
    """The sums over all pages that are in the prefix tree, kept as pages and owners come and go."""

    def __init__(self) -> None:
        self._pages: dict[str, int] = {}
        self._shared: dict[str, int] = {}

    @property
    def counts(self) -> Mapping[str, PageCount]:
        """Of every chat that has a page; "" is nobody's and is not told."""
        return {
            chat: PageCount(pages, self._shared.get(chat, 0)) for chat, pages in self._pages.items() if chat
        }

    def add(self, owners: Owners) -> None:
        """One more page of `owners`."""
        self._count(owners, 1)

    def remove(self, owners: Owners) -> None:
        """One page of `owners` less."""
        self._count(owners, -1)

    def _count(self, owners: Owners, change: int) -> None:
        for chat in owners:
            _add(self._pages, chat, change)
            if len(owners) > 1:
                _add(self._shared, chat, change)


def _add(counts: dict[str, int], chat: str, change: int) -> None:
    count = counts.get(chat, 0) + change
    if count:
        counts[chat] = count
    else:
        del counts[chat]
