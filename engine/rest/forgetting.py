"""Deleted chats whose pages are still on SSD: removed on a thread of their own, again until none is left."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor

from engine.kv.ssd.notes import Notes, digest_of
from engine.kv.ssd.owners import forget_in_folder, note_down
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier

log = logging.getLogger(__name__)

FIRST_AGAIN_S = 1.0
"""Seconds until the first new try; each time twice as many."""


class Forgetting:
    """Removes deleted chats' files behind the back of the engine's thread, which only says whose.

    Open caches know their chats themselves. Here are those that were deleted while none was open, and those
    whose files could not go before theirs was closed.
    """

    def __init__(
        self,
        ssd: SsdSettings | None,
        told: Callable[[], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """
        Args:
            ssd: where models' caches lie; None where there are none.
            told: called on a thread of this when fewer chats are `unsettled`, or files have gone.
        """
        self._ssd, self._told, self._clock = ssd, told, clock
        self._pool = ThreadPoolExecutor(1, "mlxr-forget")
        self._syncs = ThreadPoolExecutor(1, "mlxr-forget-sync")  # files of other chats may take seconds to go
        self._guard = threading.Lock()
        self._left: frozenset[str] = frozenset()  # digests
        self._unsettled: frozenset[str] = frozenset()
        self._wait, self._at = FIRST_AGAIN_S, 0.0

    def forget(self, chat: str, tiers: Sequence[SsdTier]) -> None:
        """`chat` was deleted. The open caches, `tiers`, find nothing of it any more: its files go."""
        if self._ssd is None:
            return
        self._wait, self._at = FIRST_AGAIN_S, self._clock() + FIRST_AGAIN_S
        if not tiers:
            note_down(Notes(self._ssd.folder), {digest_of(chat)})
            self.take({digest_of(chat)})
        with self._guard:
            self._unsettled |= {chat}
        self._syncs.submit(self._settle, tuple(tiers))
        self._begin(tiers)

    @property
    def unsettled(self) -> frozenset[str]:
        """Forgotten chats that a power cut would bring back: neither note nor removal is on the disk yet."""
        with self._guard:
            return self._unsettled

    def take(self, digests: Set[str]) -> None:
        """A cache that is closed could not forget these."""
        with self._guard:
            self._left |= digests

    def hand_over(self, tier: SsdTier) -> None:
        """A cache was opened: from here on it forgets what is left."""
        with self._guard:
            left, self._left = self._left, frozenset()
        if left:
            tier.forget_noted(left)
            self._begin([tier])

    def due(self, tiers: Sequence[SsdTier], now: float) -> float | None:
        """Seconds until what is left, here and in `tiers`, is tried again; None where nothing is."""
        is_left = self._left or any(tier.forgotten for tier in tiers)
        return max(0.0, self._at - now) if is_left else None

    def again(self, tiers: Sequence[SsdTier]) -> None:
        """Try once more."""
        self._wait *= 2
        self._at = self._clock() + self._wait
        if tiers:
            self.hand_over(tiers[0])
        self._begin(tiers)

    def close(self) -> None:
        """No cache is open any more, nor will be: what is left goes now, as far as it can."""
        self._syncs.shutdown()
        self._pool.shutdown(cancel_futures=True)
        self._without_caches()
        self._settle(())

    def _begin(self, tiers: Sequence[SsdTier]) -> None:
        self._pool.submit(self._remove, tuple(tiers))

    def _remove(self, tiers: Sequence[SsdTier]) -> None:
        try:
            for tier in tiers:
                if tier.forgotten:
                    tier.remove_forgotten()
            if not tiers:
                self._without_caches()
            self._settle(tiers)
            self._told()  # what others own of those files is found again
        except Exception:  # the top of this thread
            log.exception("pages of deleted chats stay on SSD for now")

    def _settle(self, tiers: Sequence[SsdTier]) -> None:
        """Have the notes be on the disk; chats whose files have gone need none."""
        waiting = self.unsettled
        if not waiting or self._ssd is None:
            return
        notes = Notes(self._ssd.folder)
        try:
            notes.sync()
        except OSError:
            return  # whoever removes the files says what is wrong, and it is tried again
        noted, left = notes.read(), self._left.union(*(tier.forgotten for tier in tiers))
        settled = {chat for chat in waiting if digest_of(chat) in noted or digest_of(chat) not in left}
        with self._guard:
            self._unsettled -= settled
        if settled:
            self._told()

    def _without_caches(self) -> None:
        """Forget what is left while no model's cache is open: files go, of any model."""
        left, ssd = self._left, self._ssd
        if not left or ssd is None:
            return
        if forget_in_folder(ssd.folder, left, ssd.floor_bytes, ssd.cap_bytes):
            with self._guard:
                self._left -= left
