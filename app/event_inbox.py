"""Engine events on their way to the window: kept in order, those that one can stand for made one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from engine import Event, LoadProgress, TextChunk


def in_turn(*takers: Callable[[Event], None]) -> Callable[[Event], None]:
    """An `emit` that shows each event to all of them, in this order."""

    def emit(event: Event) -> None:
        for take in takers:
            take(event)

    return emit


class EventInbox:
    """Takes events on the engine's thread and hands them on where `post` runs calls, a batch at a time."""

    def __init__(self, post: Callable[[Callable[[], None]], None], handle: Callable[[Event], None]) -> None:
        self._post = post
        self._handle = handle
        self._events: deque[Event] = deque()
        self._posted = False

    def emit(self, event: Event) -> None:
        """Take an event; for the engine's thread."""
        self._events.append(event)
        if not self._posted:
            self._posted = True
            self._post(self._take)

    def taken(self) -> list[Event]:
        """What has arrived and was not handed on: it is not from here on either."""
        batch: list[Event] = []
        while self._events:
            batch.append(self._events.popleft())
        return merged(batch)

    def _take(self) -> None:
        self._posted = False  # before the first pop: what arrives from here on is posted anew
        for event in self.taken():
            self._handle(event)


def merged(events: Iterable[Event]) -> list[Event]:
    """The events, TextChunks of one answer with no other event between them joined to one.

    A frame shows them at once anyway, and whose text comes first matters only within an answer. Of a load,
    which tells of each tensor, the last LoadProgress says it all.
    """
    result: list[Event] = []
    run: dict[tuple[str, int], list[TextChunk]] = {}
    for event in events:
        if isinstance(event, TextChunk):
            run.setdefault((event.id, event.sample), []).append(event)
            continue
        result += _joined(run)
        run.clear()
        if result and _goes_on(result[-1], event):
            result.pop()
        result.append(event)
    return [*result, *_joined(run)]


def _goes_on(before: Event, event: Event) -> bool:
    """Whether both tell how far one load is."""
    return isinstance(before, LoadProgress) and isinstance(event, LoadProgress) and before.id == event.id


def _joined(run: Mapping[tuple[str, int], Sequence[TextChunk]]) -> list[TextChunk]:
    """One TextChunk for each answer: its last one, with the text of all."""
    return [replace(chunks[-1], text="".join(chunk.text for chunk in chunks)) for chunks in run.values()]
