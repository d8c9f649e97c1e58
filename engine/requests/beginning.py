"""Whether a sequence that waits can begin beside those that run, and who would have to give way for it."""

from __future__ import annotations

from collections import Counter

from engine.kv.memory import KVMemory
from engine.kv.page_table import NO_PAGE
from engine.kv.pager import Pager
from engine.requests.failure import GOOD_STEPS
from engine.requests.request import Sequence
from engine.scheduler import Scheduler


class Beginning:
    """What places and pages allow: one that begins needs those of all its tokens, each that runs one more.

    Of its tokens those count that are in pages at once.
    """

    def __init__(self, memory: KVMemory, pager: Pager, scheduler: Scheduler[Sequence]) -> None:
        self._memory, self._pager, self._scheduler = memory, pager, scheduler

    def is_possible(self, sequence: Sequence) -> bool:
        """Whether there are a place and pages for `sequence` now: alone it can always begin."""
        running, has_place = self._scheduler.running, self._scheduler.has_place
        return not running or (has_place and not self._has_suspect and self._missing(sequence) <= 0)

    def victims(self, sequence: Sequence) -> list[Sequence]:
        """Who gives way so that `sequence` can begin: the worst-ranked, none where it would not help.

        Only those that stand behind it. A pinned chat goes on where pages are missing: its own would stay in
        memory.
        """
        keeps, running = self._memory.tree.keeps, self._scheduler.running
        behind = [other for other in running if other.rank > sequence.rank]
        missing = 0 if self._has_suspect else self._missing(sequence)
        if missing <= 0:
            return [] if self._has_suspect or self._scheduler.has_place else behind[-1:]
        behind = [other for other in behind if not keeps(other.request.command.chat)]
        if missing > sum(1 + len(victim.table.pages) for victim in behind):
            return []
        shared = set(self._shared(sequence))  # it needs these: nothing is gained where they are let go of
        holders, freed = Counter[int](), 0
        for given, victim in enumerate(reversed(behind), 1):
            for page in victim.table.pages:
                if page != NO_PAGE and page not in shared and not self._is_kept(page):
                    holders[page] += 1
                    freed += holders[page] == self._pager.references(page) - self._pager.is_cached(page)
            if missing - given <= freed:
                return behind[: -given - 1 : -1]
        return []

    def _is_kept(self, page: int) -> bool:
        """Whether a pinned chat owns it too: it stays in memory when those that run let go of it."""
        tree = self._memory.tree
        node = tree.node_at(page) if tree.has_pins else None
        return node is not None and tree.is_pinned(node)

    @property
    def _has_suspect(self) -> bool:
        """Whether one is on trial: nobody joins it."""
        return any(other.request.suspicion for other in self._scheduler.running)

    def _missing(self, sequence: Sequence) -> int:
        """Pages that are not there."""
        trial = GOOD_STEPS * sequence.request.command.n if sequence.request.suspicion else 0
        needed = self._pager.pages_for(sequence.resident + 1) + len(self._scheduler.running) + trial
        missing = needed - self._memory.available_pages
        return missing - len(self._shared(sequence)) if missing > 0 else missing

    def _shared(self, sequence: Sequence) -> list[int]:
        """Whole pages that it finds, and that nobody could evict for it: it needs no others in their place.

        Those that run hold them, or they are kept for a pinned chat, which may be its own.
        """
        tree, references, size = self._memory.tree, self._pager.references, self._pager.page_size
        match = tree.match(sequence.known, sequence.length - 1)
        left = sequence.length // size - sequence.resident // size  # by a sliding window, at its end
        found = match.nodes[max(match.first, left) : match.length // size]
        return [node.page for node in found if references(node.page) > 1 or tree.is_pinned(node)]
