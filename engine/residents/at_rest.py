"""What is done for the models in memory while nobody asks, and when it is due."""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.kv.ssd.tier import SsdTier
from engine.residents.leaving import Leaving
from engine.residents.shares import Shares
from engine.rest.forgetting import Forgetting

log = logging.getLogger(__name__)

WRITTEN_WITHIN = 0.25
"""Seconds for which a request waits while pages are written that would be lost."""


class AtRest:
    """Sends away who is unused for long, tidies up, and removes what is left of deleted chats.

    Attributes:
        after: seconds without a request until a model leaves memory, up to the next one; None: never.
    """

    def __init__(
        self,
        leaving: Leaving,
        shares: Shares,
        forgetting: Forgetting,
        after: float | None,
        clock: Callable[[], float],
    ) -> None:
        self.after = after
        self._leaving, self._shares, self._forgetting, self._clock = leaving, shares, forgetting, clock
        self._since = 0.0

    @property
    def tiers(self) -> list[SsdTier]:
        """The SSD caches of the models in memory."""
        tiers = (resident.at_work.model.tier for resident in self._leaving.awake)
        return [tier for tier in tiers if tier is not None]

    def begins(self) -> None:
        """From now on nobody has a request."""
        self._since = self._clock()
        for resident in self._leaving.awake:
            resident.tidied = self._since

    @property
    def patience(self) -> float | None:
        """Seconds, while nobody has a request, until `look_after` has something to do; None: never."""
        now = self._clock()
        dues = [
            due
            for resident in self._leaving.awake
            for due in (resident.tidies_in(now), resident.leaves_in(self.after, now))
            if due is not None
        ]
        forgets_in = self._forgetting.due(self.tiers, now)
        return min([*dues, *([] if forgets_in is None else [forgets_in])], default=None)

    def look_after(self) -> None:
        """Nobody has a request: send away and tidy up what is due."""
        self.send_away(is_busy=False)
        if self._forgetting.due(self.tiers, self._clock()) == 0:
            self._forgetting.again(self.tiers)
        for resident in self._leaving.awake:
            now = self._clock()
            if resident.tidies_in(now) == 0:
                try:
                    resident.at_work.tidy(now - self._since)
                except Exception:  # nobody asked for it
                    log.exception("at rest pages could not be put away, or not brought back")
                resident.tidied = self._clock()
        self._shares.divide_at_rest(self._leaving.awake)

    def send_away(self, *, is_busy: bool) -> None:
        """Who is unloaded, or unused for long, leaves: beside answers when all is written, bit by bit."""
        for resident in self._leaving.awake:
            is_due = resident.leaves_in(self.after, self._clock()) == 0
            if is_due and (not is_busy or resident.put_some_away()):
                self._leaving.put_out(resident, "idle" if resident.is_wanted else "asked")
                self._shares.divide(self._leaving.awake)
