"""Who gives its pages up when they run out, and goes on later from its tokens; and who waits for some."""

from __future__ import annotations

from collections.abc import Sequence as Many

from engine.kv.memory import KVMemory
from engine.kv.pager import OutOfPages, Pager
from engine.requests.keeping import Keeping
from engine.requests.request import Sequence
from engine.scheduler import Scheduler


class GivingWay:
    """Makes room for those that run, at the cost of those ranked behind them.

    Attributes:
        count: sequences that gave their pages up for a while.
    """

    def __init__(
        self,
        memory: KVMemory,
        pager: Pager,
        scheduler: Scheduler[Sequence],
        keeping: Keeping,
    ) -> None:
        self.count = 0
        self._memory, self._pager, self._scheduler, self._keeping = memory, pager, scheduler, keeping

    def with_room(self, decoding: list[Sequence], *, is_sent: bool) -> list[Sequence]:
        """Those of `decoding` that can write one more token, once those that need room have asked for it.

        `is_sent`: whether a step is in flight; when it is read there may be room.
        """
        places = self._pager.without_room([sequence.table for sequence in decoding])
        running = self._scheduler.running
        # The best-ranked first: who comes later gives way, or waits.
        asking = sorted([decoding[place] for place in places], key=running.index)
        waiting = [sequence for sequence in asking if not self.has_room(sequence, 1, is_sent=is_sent)]
        if not waiting and running is self._scheduler.running:
            return decoding
        return [s for s in decoding if s not in waiting and s in self._scheduler.running]

    def has_room(self, sequence: Sequence, tokens: int, *, is_sent: bool) -> bool:
        """Make room for more tokens of it, if need be by taking the pages of those ranked behind it.

        Raises OutOfPages where it runs alone and there is none.
        """
        if sequence not in self._scheduler.running:
            return False  # it gave way itself
        while True:
            try:
                self._memory.grow(sequence.table, sequence.table.length + tokens)
                return True
            except OutOfPages:
                if is_sent:
                    return False
                victim = self._scheduler.victim(sequence)
                if victim is None:
                    if len(self._scheduler.running) == 1:
                        raise
                    return False
                self.give_way(victim)

    def put_off(self, suspects: Many[Sequence]) -> None:
        """Suspects that have no room give way to those ranked before them, which wait for their trial.

        That can be where chats were pinned since it began.
        """
        if len(suspects) == len(self._scheduler.running):
            return
        if not any(suspect.may_restore or suspect.filling for suspect in suspects):
            for suspect in suspects:
                self.give_way(suspect)

    def give_way(self, sequence: Sequence) -> None:
        """Take back the pages of a running answer; it goes on later, from its tokens."""
        self._keeping.keep(sequence)
        sequence.given = sequence.table.length
        sequence.drop_filling()
        self._memory.free(sequence.table)
        self._scheduler.give_way(sequence)
        self.count += 1
