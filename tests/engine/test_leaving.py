"""A model that leaves memory beside another's answer is written to SSD a little at each turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from engine.commands import Generate, LoadModel
from engine.events.cache import ChatsCached
from engine.events.events import CacheReport, Event, Finished
from engine.events.models import ModelUnloaded
from engine.kv.arena import Arena
from engine.kv.page_data import PageData, SpilledRun
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.tier import SsdTier
from engine.requests.accepting import accept_command
from engine.residents.residents import Residents
from engine.settings import EngineSettings
from tests.engine.watched import restore_always
from tests.fakes.random_model import write_random_model

RUN = 16
PATIENCE = 60.0


class Two:
    """Two models in memory, and a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.now, self.events = 1000.0, list[Event]()
        ssd = SsdSettings(folder / "kv", cap_bytes=64 << 20, floor_bytes=0)
        settings = EngineSettings(ssd=ssd, cache=folder / "cache", kv_bytes=64 << 20, unload_after=10.0)
        self.models = Residents(
            settings, self.events.append, lambda: False, lambda: None, clock=lambda: self.now
        )
        self.idle, self.working = (
            str(write_random_model(folder / name, max_position_embeddings=16384))
            for name in ("idle", "working")
        )
        for path in (self.idle, self.working):
            self.models.load(LoadModel(path, path))

    def ask(self, model: str, name: str, tokens: int, answer: int) -> None:
        serving = self.models.wanted(model)
        ids = tuple(3 + (7 * place + place // 290) % 290 for place in range(tokens))
        command = Generate(name, tokens=ids, max_tokens=answer, ignore_eos=True, chat=name)
        serving.add(
            accept_command(
                command, serving.model, lambda prompt: serving.chats.capacity(), time.perf_counter()
            )
        )

    @property
    def has_left(self) -> bool:
        return any(isinstance(event, ModelUnloaded) for event in self.events)


def pages_of(runs: Sequence[SpilledRun]) -> int:
    return sum(len(run.keys) for run in runs)


def test_an_answer_is_not_held_up_by_a_model_that_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_always(monkeypatch)
    monkeypatch.setattr("engine.kv.ssd.runs.run_pages", lambda page_bytes: RUN)
    two = Two(tmp_path)
    two.ask(two.idle, "chat", 1600, 2)
    while two.models.busy:
        two.models.take_turn()
    taken, put = list[SpilledRun](), SsdTier.put

    def noted(tier: SsdTier, run: SpilledRun) -> bool:
        taken.append(run)
        return put(tier, run)

    monkeypatch.setattr(SsdTier, "put", noted)
    two.ask(two.working, "answer", 20, 15000)
    two.now += 11.0
    spilled, until = [pages_of(taken)], time.monotonic() + PATIENCE
    while not two.has_left:
        assert two.models.busy
        assert time.monotonic() < until
        two.models.take_turn()
        spilled.append(pages_of(taken))
    assert spilled[0] == 0
    assert max(after - before for before, after in pairwise(spilled)) == RUN
    assert spilled[-1] == 100
    two.models.servings[0].cancel_all()
    while two.models.busy:
        two.models.take_turn()
    two.ask(two.idle, "chat", 1600, 1)
    while two.models.busy:
        two.models.take_turn()
    report = [event for event in two.events if isinstance(event, CacheReport)][-1]
    assert report.restored_tokens == 1584
    two.models.close()


def test_pages_that_cannot_be_read_end_no_other_model_s_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    two = Two(tmp_path)
    two.ask(two.idle, "chat", 160, 2)
    while two.models.busy:
        two.models.take_turn()
    broken, read = two.models.wanted(two.idle).model.arena, Arena.read

    def lost(self: Arena, pages: Sequence[int]) -> PageData:
        if self is broken:
            raise RuntimeError("the device was lost")
        return read(self, pages)

    monkeypatch.setattr(Arena, "read", lost)
    two.ask(two.working, "answer", 20, 30)
    two.now += 11.0
    while two.models.busy:
        two.models.take_turn()
    end = next(event for event in two.events if isinstance(event, Finished) and event.id == "answer")
    assert len(end.tokens) == 30
    assert [event.path for event in two.events if isinstance(event, ModelUnloaded)] == [two.idle]
    assert "pages could not be put away" in caplog.text
    *_, told = [event.chats for event in two.events if isinstance(event, ChatsCached)]
    assert set(told) == {"answer"}  # of the other chat nothing is anywhere
    two.models.close()
