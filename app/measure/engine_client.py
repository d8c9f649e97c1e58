"""An engine's client that measures: several requests at once, each answer with the moments of its tokens."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType

from app.errors import AppError, RequestFailed
from engine import (
    CacheReport,
    Cancel,
    Engine,
    EngineSettings,
    Event,
    Failed,
    Finished,
    Flush,
    Flushed,
    Forget,
    Generate,
    LoadModel,
    ModelInfo,
    ModelReady,
    ModelUnloaded,
    Predict,
    Predicted,
    Stats,
    TextChunk,
    UnloadModel,
)

CLOSE_SECONDS = 10.0
SILENCE_SECONDS = 300.0
"""A healthy engine is never silent for as long while it works."""


@dataclass(frozen=True, slots=True)
class Mark:
    """At `at` (time.perf_counter), `tokens` were there."""

    at: float
    tokens: int


@dataclass(slots=True)
class Answer:
    """A request so far.

    Attributes:
        sent: when it was submitted, in seconds of time.perf_counter.
        marks: each piece of text that came, in order.
        report: what it found in the cache; None until its turn comes.
        finished: None until it has ended; `ended` says when that was.
    """

    id: str
    sent: float
    marks: list[Mark] = field(default_factory=list[Mark])
    report: CacheReport | None = None
    finished: Finished | None = None
    ended: float = 0.0

    @property
    def end(self) -> Finished:
        """How it ended."""
        assert self.finished is not None
        return self.finished

    @property
    def first_token(self) -> float:
        """Seconds to its first token."""
        return self.end.timing.ttft_ms / 1000

    def generated_at(self, moment: float) -> float:
        """Tokens that had been generated at `moment`, between two marks in proportion."""
        known = [Mark(self.sent + self.first_token, 1), *self.marks, Mark(self.ended, len(self.end.tokens))]
        for before, after in pairwise(known):
            if before.at <= moment <= after.at and before.at < after.at:
                share = (moment - before.at) / (after.at - before.at)
                return before.tokens + share * (after.tokens - before.tokens)
        return 0.0 if moment < known[0].at else float(known[-1].tokens)

    @property
    def computed(self) -> int:
        """Tokens of its prompt that were computed."""
        return self.end.timing.prefill_tokens

    @property
    def cached(self) -> int:
        """Tokens of its prompt that were in memory."""
        return self.report.cached_tokens if self.report else 0

    @property
    def restored(self) -> int:
        """Tokens of its prompt that came back from SSD."""
        return self.report.restored_tokens if self.report else 0


class EngineClient:
    """An engine for the length of a `with` block; every event gets the time at which it was emitted.

    Attributes:
        stats: the newest Stats event, or None.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._events: SimpleQueue[tuple[float, Event]] = SimpleQueue()
        self._engine = Engine(lambda event: self._events.put((time.perf_counter(), event)), settings)
        self._numbers = itertools.count(1)
        self._answers: dict[str, Answer] = {}
        self.stats: Stats | None = None

    def __enter__(self) -> EngineClient:
        self._engine.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close(CLOSE_SECONDS)

    def load(self, path: Path, draft: Path | None = None) -> ModelInfo:
        """Load a model, and the one that is to draft for it. Raises RequestFailed."""
        name = f"load-{next(self._numbers)}"
        self._engine.submit(LoadModel(name, str(path), draft_model="" if draft is None else str(draft)))
        while not (isinstance(event := self._next(), ModelReady) and event.id == name):
            pass
        return event.model

    def unload(self) -> None:
        """Free the model; its pages go to SSD where that is on."""
        self._engine.submit(UnloadModel())
        while not isinstance(self._next(), ModelUnloaded):
            pass

    def send(self, command: Generate) -> Answer:
        """Submit under an id of its own, and do not wait."""
        name = f"request-{next(self._numbers)}"
        answer = self._answers[name] = Answer(name, time.perf_counter())
        self._engine.submit(replace(command, id=name))
        return answer

    def finish(self, answer: Answer) -> Answer:
        """Wait for its end. Raises RequestFailed."""
        while answer.finished is None:
            self._next()
        return self._answers.pop(answer.id)

    def run(self, command: Generate) -> Answer:
        """Submit, and wait for the end. Raises RequestFailed."""
        return self.finish(self.send(command))

    def wait_for_tokens(self, answer: Answer, count: int) -> None:
        """Wait until text of at least `count` tokens has come, or the end."""
        while answer.finished is None and (not answer.marks or answer.marks[-1].tokens < count):
            self._next()

    def cancel(self, answer: Answer) -> Answer:
        """End it, and wait for that."""
        self._engine.submit(Cancel(answer.id))
        return self.finish(answer)

    def predict(self, command: Generate) -> Predicted:
        """What the engine expects of `command`. Raises RequestFailed."""
        name = f"predicted-{next(self._numbers)}"
        self._engine.submit(Predict(replace(command, id=name)))
        while not (isinstance(event := self._next(), Predicted) and event.id == name):
            pass
        return event

    def wait_until_warm(self, at_most: float = math.inf) -> None:
        """Wait until the engine, at rest after a request, has compiled what it does not need at first.

        Or for `at_most` seconds: steps that check drafts come last, and take NVIDIA's compiler minutes.
        """
        until = time.perf_counter() + at_most
        while self.stats is None or self.stats.cold_steps or self.stats.active_id:
            self._next()
            if time.perf_counter() > until:
                return

    def forget(self, chat: str) -> None:
        """Drop the cached pages of `chat`, and wait for that: it is not to be taken for the next prompt's."""
        self._engine.submit(Forget(chat))
        self._engine.submit(Flush())
        while not isinstance(self._next(), Flushed):
            pass

    def _next(self) -> Event:
        """The next event, taken in."""
        try:
            at, event = self._events.get(timeout=SILENCE_SECONDS)
        except Empty:
            raise AppError(f"the engine has said nothing for {SILENCE_SECONDS:.0f} s") from None
        self._take(at, event)
        return event

    def _take(self, at: float, event: Event) -> None:
        match event:
            case Failed():
                raise RequestFailed(event.error, event.kind, event.detail)
            case Stats():
                self.stats = event
            case CacheReport() if event.id in self._answers:
                self._answers[event.id].report = event
            case TextChunk() if event.id in self._answers:
                self._answers[event.id].marks.append(Mark(at, event.generated_tokens))
            case Finished() if event.id in self._answers:
                answer = self._answers[event.id]
                answer.finished, answer.ended = event, at
            case _:
                pass
