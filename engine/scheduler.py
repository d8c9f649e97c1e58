"""Who waits, who runs, and who gives way: continuous batching over one pool of pages. Pure Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from engine.commands import Lane

MAX_RUNNING = 32
"""Sequences that decode as one batch, from which on none begins; further answers of one that has join it."""

HEAD_START = 30.0
"""Seconds by which a request from the window goes before one of a program. A program's that has waited for as
long goes first: its rank does not change, and every new one's is later, so that none starves."""

MOST_READING = 30.0
"""Most seconds that reading a prompt puts it back for."""


def rank_of(lane: Lane, arrived: float) -> float:
    """A request's place in the queue, less is earlier; `arrived` in seconds of a clock that never jumps."""
    return arrived - (HEAD_START if lane == "window" else 0.0)


def turn_of(rank: float, reading: float, lane: Lane) -> float:
    """When a prompt is read among others, less is earlier: one that takes `reading` seconds, so much later.

    So who asks little does not wait until a book is read. No prompt waits for ever: none that came
    MOST_READING seconds later, in the same lane, is read before it. However long the window's are, programs'
    are behind them as they are by their ranks.
    """
    return rank + min(reading, MOST_READING) - (MOST_READING if lane == "window" else 0.0)


class Ranked(Protocol):
    """What is scheduled. Ranks do not change; of equals, who came first is first.

    Who gives way is decided by ranks, and whose prompt is read by turns.
    """

    @property
    def rank(self) -> float: ...

    @property
    def turn(self) -> float: ...

    @property
    def pending(self) -> int: ...


T = TypeVar("T", bound=Ranked)


class Scheduler(Generic[T]):
    """A queue and a running set. It knows ranks and turns; who asks knows pages.

    The best-ranked of the running never gives way, so that one is always getting on, whatever the others do.
    """

    def __init__(self, most: int = MAX_RUNNING) -> None:
        """At most `most` run."""
        self._most = most
        self._waiting: tuple[T, ...] = ()
        self._running: tuple[T, ...] = ()

    def __iter__(self) -> Iterator[T]:
        return iter((*self._running, *self._waiting))

    @property
    def running(self) -> tuple[T, ...]:
        """Who holds pages, best rank first."""
        return self._running

    @property
    def waiting(self) -> tuple[T, ...]:
        """Who does not, whose turn is first."""
        return self._waiting

    @property
    def has_place(self) -> bool:
        """Whether one more may run."""
        return len(self._running) < self._most

    @property
    def next(self) -> T | None:
        """Who would start now, if there are pages: the first in the queue.

        Without a free place the first that stands before one that runs, whose place it can have; while
        somebody's prompt is being computed, only one whose turn is before.
        """
        if not self._waiting:
            return None
        last = None if self.has_place else self._running[-1].rank
        first = next((item for item in self._waiting if last is None or item.rank < last), None)
        filling = self.filling
        return first if filling is None or first is None or first.turn < filling.turn else None

    @property
    def filling(self) -> T | None:
        """Whose prompt is computed next: of those with more than one token pending, whose turn is first."""
        return min((item for item in self._running if item.pending > 1), key=_turn, default=None)

    def add(self, item: T) -> None:
        """Queue a newcomer, or one that gave way."""
        self._waiting = _with(self._waiting, item, _turn)

    def start(self, item: T) -> None:
        """It was waiting, and runs now."""
        self._waiting = _without(self._waiting, item)
        self._running = _with(self._running, item, _rank)

    def join(self, item: T) -> None:
        """It runs at once: it came of one that does."""
        self._running = _with(self._running, item, _rank)

    def victim(self, asking: T) -> T | None:
        """Who gives its pages up for `asking`, which runs: the worst-ranked one, unless that is itself."""
        worst = self._running[-1]
        return None if worst is asking else worst

    def give_way(self, item: T) -> None:
        """It ran, and waits again."""
        self._running = _without(self._running, item)
        self.add(item)

    def remove(self, item: T) -> None:
        """Take it out, running or not."""
        self._running = _without(self._running, item)
        self._waiting = _without(self._waiting, item)


def _rank(item: Ranked) -> float:
    return item.rank


def _turn(item: Ranked) -> float:
    return item.turn


def _with(items: tuple[T, ...], item: T, order: Callable[[Ranked], float]) -> tuple[T, ...]:
    place = len(items)
    while place and order(items[place - 1]) > order(item):
        place -= 1
    return (*items[:place], item, *items[place:])


def _without(items: tuple[T, ...], item: T) -> tuple[T, ...]:
    return tuple(other for other in items if other is not item)
