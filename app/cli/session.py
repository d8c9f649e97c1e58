"""A terminal's client of the engine: submits one command at a time and waits for its last event."""

from __future__ import annotations

import itertools
import signal
import threading
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from types import FrameType, TracebackType

from app.engine_like import MakeEngine, OnEvent
from app.engine_settings import load_command
from app.errors import RequestFailed
from app.library.records import NOTHING_SET, ModelSettings
from engine import (
    Cancel,
    ChatLeases,
    Engine,
    Event,
    Failed,
    Finished,
    Forget,
    Generate,
    ModelInfo,
    ModelReady,
    ProfileStep,
    Stats,
    StepProfile,
    StepProfiled,
)

CLOSE_SECONDS = 10.0


class Session:
    """An engine for the length of a `with` block, used from the main thread.

    Attributes:
        stats: the newest Stats event of a running request; one of an idle engine before the first, or None.
        is_interrupted: whether Ctrl-C came during the last request, which may have been at its end by then.
    """

    def __init__(self, make_engine: MakeEngine = Engine, cache: Path | None = None) -> None:
        """`cache`: the folder of the engine's cache on SSD; None where it has none."""
        self._leases = ChatLeases(cache)
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._engine = make_engine(self._events.put)
        self._numbers = itertools.count(1)
        self.stats: Stats | None = None
        self.is_interrupted = False

    def __enter__(self) -> Session:
        self._engine.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close(CLOSE_SECONDS)
        self._leases.close()

    def load(
        self,
        path: Path,
        on_event: OnEvent,
        own: ModelSettings = NOTHING_SET,
        draft: Path | None = None,
    ) -> ModelInfo:
        """Load a model with its `own` settings, and the one at `draft` to guess for it.

        `on_event` gets its LoadProgress. Raises RequestFailed.
        """
        request = f"load-{next(self._numbers)}"
        self._engine.submit(load_command(request, path, own, draft))
        ready = self._follow(request, on_event)
        if not isinstance(ready, ModelReady):
            raise TypeError(f"a load ended in {type(ready).__name__}")
        return ready.model

    def complete(self, command: Generate, on_event: OnEvent) -> Finished:
        """Run `command` under an id of its own; `on_event` gets its progress and text as they come.

        The first Ctrl-C cancels the request, which then ends as Finished("cancelled"); the second raises
        KeyboardInterrupt. Raises RequestFailed; what `on_event` raises cancels the request and is passed on.
        """
        request = f"request-{next(self._numbers)}"

        def cancel() -> None:
            self.is_interrupted = True
            self._engine.submit(Cancel(request))

        self.is_interrupted = False
        self._engine.submit(replace(command, id=request))
        try:
            with first_interrupt(cancel):
                finished = self._follow(request, on_event)
        except BaseException:
            self._engine.submit(Cancel(request))
            raise
        if not isinstance(finished, Finished):
            raise TypeError(f"a request ended in {type(finished).__name__}")
        return finished

    def new_chat(self) -> str:
        """An id for a chat that ends with this process: if it is killed, the next start forgets the chat."""
        chat = uuid.uuid4().hex
        self._leases.take(chat)
        return chat

    def forget(self, chat: str) -> None:
        """Drop what was computed for `chat`, from memory and from disk: nobody goes on with it."""
        self._engine.submit(Forget(chat))
        self._leases.give_back(chat)

    def profile(self) -> StepProfile:
        """Measure a decode step of the model part by part. Raises RequestFailed."""
        request = f"profile-{next(self._numbers)}"
        self._engine.submit(ProfileStep(request))
        profiled = self._follow(request, lambda _event: None)
        if not isinstance(profiled, StepProfiled):
            raise TypeError(f"a profile ended in {type(profiled).__name__}")
        return profiled.profile

    def _follow(self, request: str, on_event: OnEvent) -> Event:
        """Hand on the events of `request` up to and without the one that ends it, which is returned."""
        while True:
            event = self._events.get()
            if isinstance(event, Stats) and (event.active_id or self.stats is None):
                self.stats = event
            if getattr(event, "id", None) != request:
                continue
            if isinstance(event, Failed):
                raise RequestFailed(event.error, event.kind, event.detail)
            if isinstance(event, Finished | ModelReady | StepProfiled):
                return event
            on_event(event)


@contextmanager
def first_interrupt(action: Callable[[], None]) -> Generator[None]:
    """Within the block the first Ctrl-C calls `action`; the next one raises KeyboardInterrupt as usual.

    A handler, not a caught KeyboardInterrupt: that could strike between any two lines and lose events.
    """
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous is signal.SIG_IGN:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        action()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
