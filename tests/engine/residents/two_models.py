"""Requests of small models that share an engine, and what it tells of them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine import (
    EngineSettings,
    Event,
    Generate,
    LetRest,
    ModelUnloaded,
    SamplingParams,
    Stats,
    TextChunk,
)
from engine.kv.arena import Arena
from tests.fakes.listener import Listener, running_engine

PROMPT = tuple(3 + (7 * place) % 290 for place in range(200))
CONTEXT_PAGES = 32
PAGE_BYTES = 12_288
ONE = CONTEXT_PAGES * PAGE_BYTES
"""Bytes of a chat of the whole context."""


def ask(
    name: str, model: Path | None, answer: int = 8, chat: str = "c", prompt: tuple[int, ...] = PROMPT
) -> Generate:
    greedy = SamplingParams(temperature=0)
    path = str(model) if model else ""
    return Generate(
        name, tokens=prompt, max_tokens=answer, sampling=greedy, ignore_eos=True, chat=chat, model=path
    )


def is_chunk(name: str) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, TextChunk) and event.id == name


def unloaded(events: list[Event]) -> list[ModelUnloaded]:
    return [event for event in events if isinstance(event, ModelUnloaded)]


@contextmanager
def one_at_rest(first: Path, second: Path) -> Generator[Listener]:
    """An engine with room for one of two models: the first rests, and the second is there."""
    settings = EngineSettings(prefill_chunk=64, kv_bytes=ONE + PAGE_BYTES, unload_after=0.2)
    with running_engine(settings) as listener:
        listener.load(first, "first")
        listener.wait(lambda event: event == ModelUnloaded(str(first), "idle"))
        listener.submit(LetRest(None))
        listener.load(second, "second")
        yield listener


class Arenas:
    """All that get pages from now on, and the most bytes that they had together."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.all, self.most = list[Arena](), 0
        reserve = Arena.reserve

        def reserve_and_note(arena: Arena, pages: int, limit: int) -> None:
            if arena not in self.all:
                self.all.append(arena)
            reserve(arena, pages, limit)
            self.most = max(self.most, sum(other.pages * other.page_bytes for other in self.all))

        monkeypatch.setattr(Arena, "reserve", reserve_and_note)


def pages_of(listener: Listener, model: Path) -> int:
    """The pages that the model may have, as it told last."""
    told = [
        event.total_pages
        for event in listener.drain()
        if isinstance(event, Stats) and event.model == str(model)
    ]
    return told[-1]
