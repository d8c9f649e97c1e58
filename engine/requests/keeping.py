"""What is computed of requests and may be found by others: prompts as they are read, answers at their end."""

from __future__ import annotations

from engine.cache.common_length import common_length
from engine.kv.memory import KVMemory
from engine.kv.page_table import PageTable
from engine.kv.pager import Pager
from engine.requests.request import Sequence
from engine.scheduler import Scheduler

_PAGES_A_STEP = 32
"""Of prompts that are entered into the prefix tree while answers wait."""


class Keeping:
    """Enters what sequences have in their pages into the prefix tree, for their chats."""

    def __init__(self, memory: KVMemory, pager: Pager, scheduler: Scheduler[Sequence]) -> None:
        self._memory, self._pager, self._scheduler = memory, pager, scheduler

    def keep(self, sequence: Sequence) -> None:
        """All that is computed of it may be found by others, unless it was forgotten; no more will be."""
        table = sequence.table
        # A step in flight is one token further; that one is not known yet.
        table.length = min(table.length, sequence.length)
        owner = sequence.request.owner
        if owner is not None:
            self._memory.keep(table, sequence.tokens(0, table.length), owner, whole=True)

    def discard(self, sequence: Sequence) -> None:
        """Nothing of it may be found by others: what was kept when it gave way goes, unless it is theirs."""
        request, owner = sequence.request, sequence.request.owner
        if not sequence.given or owner is None:
            return
        branch = sequence.tokens(0, sequence.given)
        wanted = [other.tokens(0, other.length) for other in request.sequences if not other.is_discarded]
        nearest = max(wanted, key=lambda other: common_length(branch, other), default=request.prompt)
        self._memory.let_go(owner, [branch], nearest)

    def keep_prompts(self, *, at_once: bool) -> None:
        """What is computed of prompts may be found by others: all of it, or if not `at_once` some pages more.

        Entering a page takes about 3 µs, so that a long chunk's pages would hold answers up for 0.8 ms.
        """
        for sequence in self._scheduler.running:
            request, table, owner = sequence.request, sequence.table, sequence.request.owner
            if owner is None or sequence.index or sequence.kept >= len(request.prompt):
                continue
            end = min(table.length, len(request.prompt))
            if not at_once and self._memory.tree.window is None:
                end = min(end, sequence.kept + _PAGES_A_STEP * self._pager.page_size)
            if end > sequence.kept:
                part = PageTable(table.pages, end, table.is_read)
                self._memory.keep(part, request.prompt, owner, whole=False)
                sequence.kept = end
