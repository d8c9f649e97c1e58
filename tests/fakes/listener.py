"""Receives an engine's events and waits for the ones a test needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Semaphore

from engine import (
    Command,
    Engine,
    EngineSettings,
    Event,
    Failed,
    Finished,
    LoadModel,
    ModelReady,
    ProfileStep,
)

PATIENCE = 60.0
_HELD = "held"
"""The id of a command that ends in Failed at once, and changes nothing."""


class Listener:
    """An engine and every event it emitted so far."""

    def __init__(self, settings: EngineSettings | None = None) -> None:
        self.events: list[Event] = []
        self._queue: SimpleQueue[Event] = SimpleQueue()
        self._stands, self._may_go_on = Semaphore(0), Semaphore(0)
        self._later: list[tuple[Callable[[Event], bool], tuple[Command, ...]]] = []
        self.engine = Engine(self._heard, settings)
        self.engine.start()

    def _heard(self, event: Event) -> None:
        """On the engine's thread."""
        if isinstance(event, Failed) and event.id == _HELD:
            self._stands.release()
            self._may_go_on.acquire(timeout=PATIENCE)
            return
        self._queue.put(event)
        for later in [later for later in self._later if later[0](event)]:
            self._later.remove(later)
            for command in later[1]:
                self.engine.submit(command)

    def submit(self, command: Command) -> None:
        """Hand a command to the engine."""
        self.engine.submit(command)

    def submit_at(self, moment: Callable[[Event], bool], *commands: Command) -> None:
        """Hand commands to the engine when an event fits: it finds them before its next step."""
        self._later.append((moment, commands))

    @contextmanager
    def held(self) -> Iterator[None]:
        """The engine is through with what it was asked, and stands still: what it is asked now comes at once.

        Not for a moment at which a receiver or a patch of the engine waits for this thread.
        """
        self.engine.submit(ProfileStep(_HELD, model="nobody's"))
        try:
            assert self._stands.acquire(timeout=PATIENCE)
            yield
        finally:
            self._may_go_on.release()

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

    def load(self, path: object, request_id: str = "load", draft: object = "") -> ModelReady:
        """Load a model, and the one that drafts for it, and wait for it."""
        self.submit(LoadModel(request_id, str(path), draft_model=str(draft)))
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
