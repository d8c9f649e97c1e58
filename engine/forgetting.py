"""Deleted chats whose pages are still on SSD: tried again at rest until no file is theirs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from engine.kv.ssd_owners import forget_in_folder
from engine.kv.ssd_settings import SsdSettings
from engine.kv.ssd_tier import SsdTier

FIRST_AGAIN_S = 1.0
"""Seconds until the first new try; each time twice as many."""


class Forgetting:
    """Chats that were deleted while no model's cache was open, or whose files could not go yet."""

    def __init__(self, ssd: SsdSettings | None, clock: Callable[[], float] = time.perf_counter) -> None:
        """`ssd`: where models' caches lie; None where there are none."""
        self._ssd, self._clock = ssd, clock
        self._chats = set[str]()
        self._wait, self._at = FIRST_AGAIN_S, 0.0

    def forget(self, chat: str, tiers: Sequence[SsdTier]) -> None:
        """`chat` was deleted. The open caches, `tiers`, know it already; without one files go here."""
        self._wait, self._at = FIRST_AGAIN_S, self._clock() + FIRST_AGAIN_S
        if not tiers:
            self._chats.add(chat)
            self.without_caches()

    def take(self, chats: Iterable[str]) -> None:
        """A cache that is closed could not forget these."""
        self._chats.update(chats)

    def hand_over(self, tier: SsdTier) -> None:
        """A cache was opened: from here on it forgets what is left."""
        while self._chats:
            tier.forget_chat(self._chats.pop())

    def without_caches(self) -> None:
        """Forget what is left while no model's cache is open: files go, of any model."""
        if self._chats and (self._ssd is None or forget_in_folder(self._ssd.folder, self._chats)):
            self._chats.clear()

    def due(self, tiers: Sequence[SsdTier], now: float) -> float | None:
        """Seconds until what is left, here and in `tiers`, is tried again; None where nothing is."""
        is_left = self._chats or any(tier.forgotten for tier in tiers)
        return max(0.0, self._at - now) if is_left else None

    def again(self, tiers: Sequence[SsdTier]) -> None:
        """Try once more."""
        self._wait *= 2
        self._at = self._clock() + self._wait
        if not tiers:
            self.without_caches()
            return
        self.hand_over(tiers[0])
        for tier in tiers:
            if tier.forgotten:
                tier.forget_again()
