"""Plays the steps of a file on one engine: sends each when it is due, and follows them all to their ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType

from app.cli.replay_agenda import Agenda
from app.cli.replay_file import Ask, Step, chat_messages, is_chat
from app.cli.replay_result import Course, Result
from app.cli.replay_totals import Tally
from app.cli.session import CLOSE_SECONDS, first_interrupt
from app.engine_like import MakeEngine, OnEvent
from app.engine_settings import load_command
from app.errors import AppError, RequestFailed
from app.library.records import NOTHING_SET
from engine import (
    CacheReport,
    Cancel,
    Event,
    Failed,
    Finished,
    Flush,
    Flushed,
    Generate,
    History,
    KernelsChosen,
    ModelInfo,
    ModelReady,
    Predict,
    Predicted,
    TextChunk,
)

LONGEST_WAIT = 3600.0
CLOSING_SECONDS = 10.0
"""For which the engine's last figures are waited for."""
_LOAD = "load"
_PREDICTION = "\0"
"""Put before the id of a request that is asked about; ids of a file have no such character."""


class _Interrupt:
    """Among the events: Ctrl-C was pressed."""


class Player:
    """An engine for the length of a `with` block, used from the main thread.

    Attributes:
        tally: what the engine said of its pages and work.
        interrupted: whether Ctrl-C was pressed.
        left_out: steps that therefore never began.
    """

    def __init__(self, make_engine: MakeEngine) -> None:
        self._inbox: SimpleQueue[tuple[float, Event | _Interrupt]] = SimpleQueue()
        self._engine = make_engine(lambda event: self._inbox.put((time.perf_counter(), event)))
        self._running: dict[str, Course] = {}
        self._results: dict[str, Result] = {}
        self._agenda = Agenda(())
        self._on_result: Callable[[Result], None] = lambda result: None
        self._began = 0.0
        self._flushed: Flushed | None = None
        self._model: ModelInfo
        self.tally = Tally()
        self.interrupted = False
        self.left_out = 0

    def __enter__(self) -> Player:
        self._engine.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close(CLOSE_SECONDS)

    def load(self, path: Path, on_event: OnEvent, draft: Path | None = None) -> ModelInfo:
        """Load a model, and what drafts for it; `on_event` gets the progress. Raises RequestFailed."""
        self._engine.submit(load_command(_LOAD, path, NOTHING_SET, draft))
        while True:
            _, event = self._inbox.get()
            if isinstance(event, Failed) and event.id == _LOAD:
                raise RequestFailed(event.error, event.kind, event.detail)
            if isinstance(event, ModelReady):
                return event.model
            if not isinstance(event, _Interrupt):
                on_event(event)

    def play(self, steps: Iterable[Step], model: ModelInfo, on_result: Callable[[Result], None]) -> None:
        """Play `steps` on the loaded `model`; `on_result` gets each request as it ends, in order of ending.

        The first Ctrl-C cancels what runs and begins nothing more; the second raises KeyboardInterrupt.
        Raises AppError when the engine does not say at the end what it still holds.
        """
        agenda = self._agenda = Agenda(steps)
        self._model, self._on_result = model, on_result
        self._began = time.perf_counter()
        with first_interrupt(lambda: self._inbox.put((time.perf_counter(), _Interrupt()))):
            while agenda or self._running:
                while (step := agenda.due(self._now())) is not None:
                    self._begin(step)
                if agenda or self._running:
                    self._hear(agenda.seconds_left(self._now()))
            self._let_write()

    def _now(self) -> float:
        return time.perf_counter() - self._began

    def _begin(self, step: Step) -> None:
        if isinstance(step.action, Ask):
            self._ask(step, step.action)
            return
        self._engine.submit(step.action)
        self._agenda.ended(step.id)

    def _ask(self, step: Step, ask: Ask) -> None:
        before = self._results.get(step.after) if step.after is not None and ask.continues else None
        try:
            request = self._request(ask, before)
        except AppError as error:
            course = Course(ask, ask.request, self._now())
            self._end(course, Failed(step.id, str(error), "NothingToContinue"), self._now())
            return
        if ask.predicts:
            self._engine.submit(Predict(replace(request, id=_PREDICTION + step.id)))
        self._running[step.id] = Course(ask, request, self._now())
        self._engine.submit(request)
        if ask.cancel_after == 0:
            self._cancel(step.id)

    def _request(self, ask: Ask, before: Result | None) -> Generate:
        """What the engine gets for `ask`, which goes on from `before`. Raises AppError when it cannot."""
        own, chats = ask.request, is_chat(ask) and self._model.has_chat_template
        if before is None:
            return replace(own, prompt=None, messages=chat_messages(ask)) if chats else own
        if isinstance(before.end, Failed):
            raise AppError(f"{before.end.id} failed, so that there is nothing to go on from; mend it first")
        past = before.end.prompt_tokens + before.end.tokens
        if own.tokens is not None:
            return replace(own, tokens=past + own.tokens)
        if not chats:
            raise AppError(f"{self._model.name} has no chat template; give the next turn as tokens")
        said = before.messages
        history = History(past, len(said), self._model.path)
        return replace(own, prompt=None, messages=said + chat_messages(ask), history=history)

    def _cancel(self, request_id: str) -> None:
        self._running[request_id].cancelled = True
        self._engine.submit(Cancel(request_id))

    def _hear(self, seconds: float | None) -> bool:
        """Wait for an event, at most so long, and take it in. Returns whether one came."""
        try:
            wait = None if seconds is None else min(seconds, LONGEST_WAIT)
            when, event = self._inbox.get(timeout=wait)
        except Empty:
            return False
        if isinstance(event, _Interrupt):
            self.interrupted = True
            self.left_out += self._agenda.clear()
            for request_id in self._running:
                self._cancel(request_id)
            return True
        self.tally.take(event)
        self._take(event, when)
        return True

    def _take(self, event: Event, when: float) -> None:
        match event:
            case Flushed():
                self._flushed = event
            case Predicted() if event.id.startswith(_PREDICTION):
                if course := self._running.get(event.id.removeprefix(_PREDICTION)):
                    course.predicted = event
            case CacheReport() if course := self._running.get(event.id):
                course.report = event
            case TextChunk() if course := self._running.get(event.id):
                if course.arrived(event, when):
                    self._cancel(event.id)
            case Finished() | Failed() if course := self._running.pop(event.id, None):
                self._end(course, event, when - self._began)
            case KernelsChosen():
                self._model = event.model
            case _:
                pass

    def _end(self, course: Course, end: Finished | Failed, when: float) -> None:
        result = self._results[end.id] = course.ended(end, when, self._model)
        self._agenda.ended(end.id)
        self._on_result(result)

    def _let_write(self) -> None:
        """Hear the last figures, once what spilled is written or CLOSING_SECONDS have gone by."""
        until = self._now() + CLOSING_SECONDS
        while not self._flush() and self._now() < until:
            pass

    def _flush(self) -> bool:
        """Hear how things stand behind all that was sent. Returns whether nothing waits to be written."""
        self._flushed = None
        self._engine.submit(Flush())
        while self._flushed is None:
            if not self._hear(CLOSING_SECONDS):
                raise AppError(
                    f"the engine did not say within {CLOSING_SECONDS:.0f} s what it holds at the end; "
                    "this is a mistake of MLXR: please report it with the file"
                )
        return self._flushed.is_all
