"""Receives an engine's events and waits for the ones a test needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue

from engine import (
    Command,
    Engine,
    EngineSettings,
    Event,
    Failed,
    Finished,
    LoadModel,
    ModelReady,
)

PATIENCE = 60.0


class Listener:
    """An engine and every event it emitted so far."""

    def __init__(self, settings: EngineSettings | None = None) -> None:
        self.events: list[Event] = []
        self._queue: SimpleQueue[Event] = SimpleQueue()
        self.engine = Engine(self._queue.put, settings)
        self.engine.start()

    def submit(self, command: Command) -> None:
        """Hand a command to the engine."""
        self.engine.submit(command)

    def wait(self, until: Callable[[Event], bool]) -> Event:
        """Receive until an event fits; it is the last of `events` then."""
        while True:
            event = self._queue.get(timeout=PATIENCE)
            self.events.append(event)
            if until(event):
                return event

    def end_of(self, request_id: str) -> Finished | Failed | ModelReady:
        """The event that ends `request_id`, received now or before."""

        def ends(event: Event) -> bool:
            return isinstance(event, Finished | Failed | ModelReady) and event.id == request_id

        found = next((event for event in self.events if ends(event)), None) or self.wait(ends)
        assert isinstance(found, Finished | Failed | ModelReady)
        return found

    def finished(self, request_id: str) -> Finished:
        """The request's Finished; fails the test with the error when it failed."""
        end = self.end_of(request_id)
        assert isinstance(end, Finished), end
        return end

    def failed(self, request_id: str) -> Failed:
        """The request's Failed."""
        end = self.end_of(request_id)
        assert isinstance(end, Failed), end
        return end

    def load(self, path: object, request_id: str = "load") -> ModelReady:
        """Load a model and wait for it."""
        self.submit(LoadModel(request_id, str(path)))
        end = self.end_of(request_id)
        assert isinstance(end, ModelReady), end
        return end

    def listen(self, seconds: float) -> list[Event]:
        """What comes within `seconds`."""
        seen, until = len(self.events), time.monotonic() + seconds
        with suppress(Empty):
            while (left := until - time.monotonic()) > 0:
                self.events.append(self._queue.get(timeout=left))
        return self.events[seen:]

    def drain(self) -> list[Event]:
        """Everything received so far, with what lies in the queue."""
        while not self._queue.empty():
            self.events.append(self._queue.get())
        return self.events


@contextmanager
def running_engine(settings: EngineSettings | None = None) -> Iterator[Listener]:
    """A started engine that is shut down at the end; a thread that does not end fails the test."""
    listener = Listener(settings)
    try:
        yield listener
    finally:
        assert listener.engine.close(timeout=PATIENCE)
