"""KV memory at rest: makes room for the next request, puts pages on SSD, and frees them when it is needed."""

from __future__ import annotations

import time
from collections.abc import Callable

import mlx.core as mx

from engine.loading.model import LoadedModel
from engine.machine.pressure import is_short_of_memory

GROW_AFTER = 0.5
"""Seconds of rest after which an arena that is more than half full is doubled, within the budget."""

SPILL_AFTER = 3.0
"""Seconds of rest after which pages are written to SSD, SPILL_PAGES at a time.

What the allocator keeps for reuse goes back to the system then, too. At once it would be missed: to get it
anew costs a chat's next turn a millisecond on a GPU (docs/measured/first-token.md).
"""

FREE_AFTER = 300.0
"""Seconds of rest after which pages leave memory, where all are on SSD."""

STUCK_AFTER = 30.0
"""Seconds of rest after which a shortage of memory no longer waits for a disk that takes nothing."""

LOOK_EVERY = 10.0
"""Seconds between looks at whether the system is short of memory, while there are cached pages.

And at whether the SSD can be written again, where it could not.
"""

CLOSING_SECONDS = 5.0
"""For which the end of a model may write pages to SSD."""

SPILL_PAGES = 64

STORED_TOKENS = 8192
"""Most tokens for which an arena is built before anything is asked."""

_NEXT_SPILL = 0.02

_NEXT_TRY = 0.1
"""Seconds until a disk that took nothing is asked again, and until one is looked at that is still writing."""


class Tidying:
    """Puts the pages of a model away, and frees its arena when the system needs memory or long rest comes.

    Before that it doubles an arena that is more than half full, once a rest, and builds it for a prompt that
    is expected, so that no request has to wait for it; not where the system would be short of memory then.
    One is expected as soon as a model is loaded that has chats on SSD: the longest, STORED_TOKENS of it.
    Without an SSD cache, or where it has not taken all of them, pages leave memory only when the system is
    short of it: what is freed is lost then.
    """

    def __init__(
        self,
        model: LoadedModel,
        make_ready: Callable[[], None],
        draft: LoadedModel | None = None,
        is_short: Callable[[int], bool] = is_short_of_memory,
    ) -> None:
        """
        Args:
            make_ready: called when the arena was built for pages that may come back from SSD.
            draft: guesses for it: its pages, which no SSD has, go when the model's do.
            is_short: whether the system is short of memory, or would be with so many bytes more in use.
        """
        self._model, self._make_ready = model, make_ready
        self._both = (model,) if draft is None else (model, draft)
        self._is_short = is_short
        self._due: float | None = None
        self._looked_at = 0.0
        self._is_tight = False
        self._is_given_back = True
        self._expected = 0
        self._built_at = 0.0
        self.expect(self._stored_pages)

    @property
    def due(self) -> float | None:
        """Seconds from now until `tidy` has something to do; None when it has nothing."""
        return self._due

    @property
    def builds(self) -> bool:
        """Whether the arena is built for a prompt that is expected, next."""
        return self._expected > 0

    def is_due(self, idle_seconds: float) -> bool:
        """Whether `tidy` has something to do where nobody has asked for anything for so long."""
        since = idle_seconds if idle_seconds < self._looked_at else idle_seconds - self._looked_at
        return self._due is not None and since >= self._due

    def rest_began(self) -> None:
        """There is no request any more."""
        self._looked_at = 0.0
        self._is_tight = self._missing_pages > 0
        self._is_given_back = False
        self._built_at = 0.0
        self._due = 0.0 if self._expected else GROW_AFTER if self._is_tight else SPILL_AFTER

    def expect(self, pages: int) -> None:
        """A prompt is likely to be sent for which the arena has to have `pages` pages."""
        if pages > self._model.arena.pages:
            self._expected = min(pages + pages // 16, self._model.pager.total_pages)
            self._due = 0.0

    def memory_was_used(self) -> None:
        """By what was compiled at rest: what the allocator keeps of it goes back at the next look."""
        self._is_given_back = False
        if self._due is None:
            self._due = LOOK_EVERY

    def tidy(self, idle_seconds: float) -> bool:
        """Nobody has asked for anything for so long. Returns whether it did more than ask a disk in vain."""
        self._looked_at = idle_seconds
        if self._expected:
            pages, self._expected = self._expected, 0
            self._built_at, self._due = idle_seconds, SPILL_AFTER
            self._grow(pages, self._make_ready)
            return True
        if self._is_tight:
            self._is_tight, self._due = False, max(0.0, SPILL_AFTER - idle_seconds)
            self._grow(self._model.arena.pages + self._missing_pages)
            return True
        if not self._is_given_back:
            self._is_given_back = True
            mx.clear_cache()
        memory, tier = self._model.memory, self._model.tier
        is_stuck = idle_seconds >= STUCK_AFTER and self._is_short(0)
        spilled = memory.spill(SPILL_PAGES)
        if not spilled.is_all and not is_stuck:
            self._due = _NEXT_SPILL if spilled.pages else _NEXT_TRY
            return spilled.pages > 0
        if tier is not None:
            tier.settle()
        may_free = idle_seconds - self._built_at >= FREE_AFTER and memory.is_on_ssd
        if may_free or self._is_short(0):
            for each in self._both:
                each.memory.evict_all()
                if not each.memory.cached_pages:  # pinned pages stay, and the arena with them
                    each.arena.release()
            mx.clear_cache()
        if tier is not None and tier.waiting_pages:
            self._due = _NEXT_TRY  # that they are written is told then
        else:
            is_kept_off = tier is not None and bool(tier.reason)
            self._due = LOOK_EVERY if any(each.arena.pages for each in self._both) or is_kept_off else None
        return True

    @property
    def _stored_pages(self) -> int:
        """Pages of the longest chat on SSD, as far as an arena is built for it."""
        model, tier = self._model, self._model.tier
        stored = [] if tier is None else [chat.total for chat in tier.chat_bytes().values()]
        return min(max(stored, default=0) // model.arena.page_bytes, STORED_TOKENS // model.pager.page_size)

    @property
    def _missing_pages(self) -> int:
        """Pages that the arena should have beside those it has: as many, where more than half are in use."""
        pages, pager = self._model.arena.pages, self._model.pager
        is_tight = 2 * (pager.total_pages - pager.free_pages) > pages
        return min(pages, pager.total_pages - pages) if is_tight else 0

    def _grow(self, pages: int, and_then: Callable[[], None] = lambda: None) -> None:
        """Have the arena of `pages` pages, `and_then` what else; nothing of it where memory is short."""
        arena = self._model.arena
        pages = min(pages, self._model.pager.total_pages)  # its share may be less by now
        missing = pages - arena.pages
        if missing <= 0 or self._is_short(missing * arena.page_bytes):
            return
        try:
            arena.reserve(pages, limit=pages)
            and_then()
        except BaseException:  # some layers may have grown: what they hold goes, as after a step that broke
            self._model.memory.drop()
            arena.release()
            raise
        finally:
            mx.clear_cache()

    def close(self) -> None:
        """Put what is worth keeping on SSD, for CLOSING_SECONDS at most; no request holds pages."""
        tier = self._model.tier
        if tier is None:
            return
        until = time.perf_counter() + CLOSING_SECONDS
        try:
            self._model.memory.save(CLOSING_SECONDS)
        finally:
            tier.close(max(0.0, until - time.perf_counter()))
