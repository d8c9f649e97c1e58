"""Commands about cached pages, on an engine with two models."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine import (
    Cancel,
    EngineSettings,
    Flush,
    Flushed,
    Generate,
    Release,
    SsdSettings,
    Stats,
    TextChunk,
)
from tests.engine.held_disk import held_writes
from tests.engine.served_model import PROMPT
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model


def flush(listener: Listener) -> tuple[bool, dict[str, tuple[int, int]]]:
    """Whether all is written; of each model told of, pages that wait and pages that are written."""
    seen = len(listener.drain())
    listener.submit(Flush())
    flushed = listener.wait(lambda event: isinstance(event, Flushed))
    assert isinstance(flushed, Flushed)
    told = [event for event in listener.events[seen:] if isinstance(event, Stats)]
    return flushed.is_all, {
        Path(stats.model).name: (stats.cache.waiting_pages, stats.cache.spilled_pages) for stats in told
    }


def test_flush_is_answered_behind_figures_of_each_model_and_says_when_all_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write = held_writes(monkeypatch)
    ssd = SsdSettings(tmp_path / "kv", cap_bytes=64 << 20, floor_bytes=0)
    with running_engine(EngineSettings(ssd=ssd, cache=tmp_path / "cache")) as listener:
        assert flush(listener) == (True, {})
        for seed, name in enumerate("ab"):
            listener.load(write_random_model(tmp_path / name, seed=seed), name)
        assert flush(listener) == (True, {"a": (0, 0), "b": (0, 0)})
        listener.submit(Generate("asks", tokens=PROMPT, max_tokens=1, chat="c", model=str(tmp_path / "a")))
        listener.finished("asks")
        listener.submit(Release("c"))
        pages = len(PROMPT) // 16
        assert flush(listener) == (False, {"a": (pages, 0), "b": (0, 0)})
        may_write.set()
        is_all, told = flush(listener)
        while not is_all:
            is_all, told = flush(listener)
        assert told == {"a": (0, pages), "b": (0, 0)}


def test_who_waits_for_the_disk_holds_up_no_answer_of_another_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write = held_writes(monkeypatch)
    monkeypatch.setattr("engine.residents.cache_commands._TELL_WITHIN", 30.0)
    ssd = SsdSettings(tmp_path / "kv", cap_bytes=64 << 20, floor_bytes=0)
    with running_engine(EngineSettings(ssd=ssd, cache=tmp_path / "cache")) as listener:
        rests = write_random_model(tmp_path / "rests")
        answers = write_random_model(tmp_path / "answers", seed=1, max_position_embeddings=1 << 17)
        for model in (rests, answers):
            listener.load(model, model.name)
        listener.submit(Generate("asks", tokens=PROMPT, max_tokens=1, chat="c", model=str(rests)))
        listener.finished("asks")
        endless = Generate(
            "endless", tokens=PROMPT, max_tokens=1 << 16, ignore_eos=True, chat="d", model=str(answers)
        )
        listener.submit(endless)
        listener.wait(lambda event: isinstance(event, TextChunk))
        began = time.monotonic()
        listener.submit(Release("c"))
        assert flush(listener)[0] is False
        listener.wait(lambda event: isinstance(event, TextChunk))
        assert time.monotonic() - began < 10
        listener.submit(Cancel("endless"))
        listener.finished("endless")
        may_write.set()
