"""KV memory at rest: pages go to SSD while nobody asks for anything, later leave memory, and at the end."""

from __future__ import annotations

import time

import mlx.core as mx

from engine.loading.model import LoadedModel

SPILL_AFTER = 3.0
"""Seconds of rest after which pages are written to SSD, SPILL_PAGES at a time."""

FREE_AFTER = 300.0
"""Seconds of rest after which pages that are on SSD leave memory."""

CLOSING_SECONDS = 5.0
"""For which the end of a model may write pages to SSD."""

SPILL_PAGES = 64

_NEXT_SPILL = 0.02


class Tidying:
    """Puts the pages of a model away. Without an SSD cache it does nothing: what it freed would be lost."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._due: float | None = None

    @property
    def due(self) -> float | None:
        """Seconds of rest until `tidy` has something to do; None when it has nothing."""
        return self._due

    def rest_began(self) -> None:
        """There is no request any more."""
        self._due = None if self._model.tier is None else SPILL_AFTER

    def tidy(self, idle_seconds: float) -> None:
        """Nobody has asked for anything for so long."""
        memory = self._model.memory
        if memory.spill(SPILL_PAGES):
            self._due = _NEXT_SPILL
        elif idle_seconds < FREE_AFTER:
            self._due = FREE_AFTER - idle_seconds
        else:
            self._due = None
            if memory.evict_all() and not memory.cached_pages:
                self._model.arena.release()
                mx.clear_cache()

    def close(self) -> None:
        """Put what is worth keeping on SSD, for CLOSING_SECONDS at most; no request holds pages."""
        tier = self._model.tier
        if tier is None:
            return
        until = time.perf_counter() + CLOSING_SECONDS
        try:
            while (left := until - time.perf_counter()) > 0 and self._model.memory.spill(SPILL_PAGES):
                tier.flush(left)
        finally:
            tier.close(max(0.0, until - time.perf_counter()))
