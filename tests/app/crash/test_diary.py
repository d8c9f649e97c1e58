"""The diary says what the engine was asked and did, in numbers, without a word of a chat or a path."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.crash.diary import Diary
from app.crash.report import doing_lines
from engine import (
    Cancel,
    Event,
    Failed,
    Generate,
    KernelTrials,
    LoadModel,
    LoadProgress,
    MemoryUse,
    Message,
    ModelReady,
    ModelUnloaded,
    RequestStats,
    Stats,
)
from tests.fakes.scripted_engine import ScriptedEngine, model_info

PATH = "/home/ada/models/tiny-chat"
TYPED = "my diagnosis is private"


class Kept:
    """A diary of an engine that is never started."""

    def __init__(self) -> None:
        self.notes: list[dict[str, Any]] = []
        self.events: list[Event] = []
        self.emit: Callable[[Event], None] = self.events.append
        self.engine = Diary(self.notes.append).watching(self._make)(self.events.append)

    def _make(self, emit: Callable[[Event], None]) -> ScriptedEngine:
        self.emit = emit
        return ScriptedEngine(emit)

    def said(self) -> str:
        return "\n".join(doing_lines(self.notes[-1]))


def test_what_is_asked_and_done_is_told_in_numbers() -> None:
    kept = Kept()
    kept.engine.submit(LoadModel("load-1", PATH))
    assert "Asked last: LoadModel tiny-chat" in kept.said()
    kept.emit(LoadProgress("load-1", 3, 4))
    assert "Loading: 75 %" in kept.said()
    kept.emit(ModelReady("load-1", model_info(PATH)))
    assert "Loading" not in kept.said()
    assert "reference on CPU" in kept.said()
    kept.emit(KernelTrials(PATH, 3, 17, is_running=True))
    kept.engine.submit(Generate("r", messages=(Message("user", TYPED),), model=PATH))
    request = RequestStats("r", "chat-9", 1204, 512, 7, 0.0, 0.0, 0.0)
    memory = MemoryUse(process_bytes=1_800_000_000, is_short=True)
    kept.emit(Stats("r", 2, 7, 1.0, 1.0, 32, 512, 10, 20, running=1, requests=(request,), memory=memory))
    for words in (
        "Asked last: Generate tiny-chat",
        "prompt 1,204 tokens, 512 in pages, 7 written",
        "32 in use, 0 cached, of 512",
        "short of it",
        "3 of 17 done, running",
    ):
        assert words in kept.said()
    kept.emit(ModelUnloaded(PATH))
    assert "32 in use" not in kept.said()
    for secret in (TYPED, "/home", "ada", "chat-9"):
        assert secret not in json.dumps(kept.notes)


@pytest.mark.parametrize("end", [Failed("load-1", "no", "ModelError"), ModelUnloaded(PATH, "idle")])
def test_a_load_that_breaks_or_that_nobody_waits_for_is_over(end: Event) -> None:
    kept = Kept()
    kept.emit(LoadProgress("load-1", 3, 4))
    kept.emit(Failed("another", "no", "Refused"))
    assert "Loading: 75 %" in kept.said()
    kept.emit(end)
    assert "Loading" not in kept.said()


def test_the_engine_hears_and_says_all_of_it() -> None:
    kept = Kept()
    kept.engine.submit(Cancel("r"))
    assert kept.notes == []
    event = LoadProgress("load-1", 1, 2)
    kept.emit(event)
    assert kept.events == [event]
