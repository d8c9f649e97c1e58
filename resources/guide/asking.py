"""Asks the guide through MLXR's own engine, the way the app does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType

from app.chat_sampling import CHAT_SAMPLING
from engine import (
    Engine,
    Event,
    Failed,
    Finished,
    Generate,
    LoadModel,
    Message,
    ModelReady,
    SamplingParams,
)
from resources.guide.checks import MOST_TOKENS

GREEDY = SamplingParams(temperature=0.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the guide said: the text, its length in tokens, and whether it ended by itself."""

    text: str
    tokens: int
    ended: bool


class Guide:
    """A loaded guide; use it in a `with`."""

    def __init__(self, folder: Path) -> None:
        """`folder` holds the model."""
        self._folder = folder
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._engine = Engine(self._events.put)
        self._asked = 0

    def __enter__(self) -> Guide:
        self._engine.start()
        self._engine.submit(LoadModel("load", str(self._folder)))
        self._wait("load")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close()

    def answer(self, messages: Sequence[Message], sampling: SamplingParams = GREEDY) -> Answer:
        """The guide's answer to a chat. Raises RuntimeError with the engine's line when it fails."""
        self._asked += 1
        name = f"ask-{self._asked}"
        self._engine.submit(
            Generate(name, messages=tuple(messages), sampling=sampling, max_tokens=MOST_TOKENS)
        )
        done = self._wait(name)
        if not isinstance(done, Finished):
            raise RuntimeError(f"{name}: {done}")
        return Answer(done.text, len(done.tokens), done.reason == "stop")

    def ask(self, question: str, sampling: SamplingParams = GREEDY) -> Answer:
        """The answer to a single question."""
        return self.answer([Message("user", question)], sampling)

    def _wait(self, name: str) -> Event:
        while True:
            event = self._events.get()
            if isinstance(event, Failed):
                raise RuntimeError(f"{event.id}: {event.error}")
            if isinstance(event, Finished | ModelReady) and event.id == name:
                return event


def as_in_chats(seed: int) -> SamplingParams:
    """The sampling of MLXR's chats, seeded."""
    return replace(CHAT_SAMPLING, seed=seed)
