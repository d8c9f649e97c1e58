"""Engine events on their way to the window: kept in order, pieces of text that arrive together made one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from engine import Event, TextChunk


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

    def _take(self) -> None:
        self._posted = False  # before the first pop: what arrives from here on is posted anew
        batch: list[Event] = []
        while self._events:
            batch.append(self._events.popleft())
        for event in merged(batch):
            self._handle(event)


def merged(events: Iterable[Event]) -> list[Event]:
    """The events, runs of TextChunks of one request joined to one: a frame shows them at once anyway."""
    result: list[Event] = []
    texts: list[str] = []
    for event in events:
        last = result[-1] if result else None
        if isinstance(event, TextChunk) and isinstance(last, TextChunk) and last.id == event.id:
            texts.append(event.text)
            result[-1] = event
            continue
        _close_run(result, texts)
        result.append(event)
        if isinstance(event, TextChunk):
            texts = [event.text]
    _close_run(result, texts)
    return result


def _close_run(result: list[Event], texts: list[str]) -> None:
    """Give the last TextChunk the text of its whole run."""
    last = result[-1] if result else None
    if isinstance(last, TextChunk) and len(texts) > 1:
        result[-1] = TextChunk(last.id, "".join(texts), last.generated_tokens)
    texts.clear()
