"""Whether a sequence that waits can begin beside those that run, and who would have to give way for it."""

from __future__ import annotations

from collections import Counter

from engine.failure import GOOD_STEPS
from engine.kv.memory import KVMemory
from engine.kv.pager import NO_PAGE, Pager
from engine.request import Sequence
from engine.scheduler import Scheduler


class Beginning:
    """What pages allow: one that begins needs those of all its tokens, each that runs one more."""

    def __init__(self, memory: KVMemory, pager: Pager, scheduler: Scheduler[Sequence]) -> None:
        self._memory, self._pager, self._scheduler = memory, pager, scheduler

    def is_possible(self, sequence: Sequence) -> bool:
        """Whether there are pages for `sequence` now: alone it can always begin."""
        running = self._scheduler.running
        return not running or (not self._has_suspect and self._missing(sequence) <= 0)

    def victims(self, sequence: Sequence) -> list[Sequence]:
        """Who gives way so that `sequence` can begin: the worst-ranked, none where it would not help.

        Only those that stand behind it. A pinned chat goes on: its pages would stay in memory.
        """
        victims, held = list[Sequence](), Counter[int]()
        missing = 0 if self._has_suspect else self._missing(sequence)
        references, is_cached = self._pager.references, self._pager.is_cached
        for victim in reversed(self._scheduler.running):
            if victim.rank <= sequence.rank or missing <= 0:
                break
            if self._memory.tree.keeps(victim.request.command.chat):
                continue
            victims.append(victim)
            held.update(page for page in victim.table.pages if page != NO_PAGE)
            freed = sum(references(page) - is_cached(page) == count for page, count in held.items())
            if missing - len(victims) <= freed:
                return victims
        return []

    @property
    def _has_suspect(self) -> bool:
        """Whether one is on trial: nobody joins it."""
        return any(other.request.suspicion for other in self._scheduler.running)

    def _missing(self, sequence: Sequence) -> int:
        """Pages that are not there."""
        trial = GOOD_STEPS * sequence.request.command.n if sequence.request.suspicion else 0
        needed = self._pager.pages_for(sequence.length + 1) + len(self._scheduler.running) + trial
        return needed - self._memory.available_pages
