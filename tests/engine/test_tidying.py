"""A model at rest puts its pages on SSD, frees memory when it is time or needed, and goes on as before."""

from __future__ import annotations

import time
from pathlib import Path

import mlx.core as mx
import pytest

from engine.cache_events import CacheReport
from engine.commands import Generate
from engine.events import Event, Finished
from engine.kv.ssd_settings import SsdSettings
from engine.loading.model import load_model
from engine.request import accept_command
from engine.sampling_params import SamplingParams
from engine.serving import Serving
from engine.settings import EngineSettings
from engine.tidying import FREE_AFTER, LOOK_EVERY, SPILL_AFTER
from tests.fakes.random_model import write_random_model

PROMPT = tuple(3 + (7 * place) % 290 for place in range(200))


class Model:
    """A served model, without the engine's thread."""

    def __init__(self, folder: Path, ssd: Path | None) -> None:
        stored = None if ssd is None else SsdSettings(ssd, cap_bytes=64 << 20, floor_bytes=0)
        settings = EngineSettings(ssd=stored, cache=folder / "cache")
        self.model = load_model(write_random_model(folder / "model"), settings, lambda done, total: None)
        self.events: list[Event] = []
        self.serving = Serving(self.model, settings, self.events.append)

    def ask(self, name: str) -> tuple[Finished, CacheReport]:
        command = Generate(
            name, tokens=PROMPT, max_tokens=6, sampling=SamplingParams(temperature=0), ignore_eos=True
        )
        self.serving.add(
            accept_command(command, self.model, lambda prompt: self.serving.capacity(), time.perf_counter())
        )
        while self.serving.busy:
            self.serving.work()
        (end,) = (event for event in self.events if isinstance(event, Finished) and event.id == name)
        (report,) = (event for event in self.events if isinstance(event, CacheReport) and event.id == name)
        return end, report

    def rest(self, seconds: float) -> None:
        """Tidy until it has nothing more to do now."""
        self.serving.tidy(seconds)
        while (due := self.serving.next_tidying) is not None and due < 1:
            self.serving.tidy(seconds)


def test_pages_are_written_ahead_and_stay_in_memory(tmp_path: Path) -> None:
    model = Model(tmp_path, tmp_path / "kv")
    assert model.serving.next_tidying is None
    model.ask("a")
    assert model.serving.next_tidying == SPILL_AFTER
    model.rest(SPILL_AFTER)
    assert model.model.memory.counts.spilled_pages == 12
    assert model.model.memory.cached_pages == 13
    assert model.serving.next_tidying == LOOK_EVERY
    model.serving.close()


@pytest.mark.usefixtures("settled_memory")
def test_after_a_long_rest_memory_is_free_and_the_next_prompt_comes_back(tmp_path: Path) -> None:
    model = Model(tmp_path, tmp_path / "kv")
    first, _ = model.ask("a")
    before = mx.get_active_memory()
    model.rest(FREE_AFTER)
    assert model.model.memory.cached_pages == 0
    assert model.model.arena.pages == 0
    assert mx.get_active_memory() < before
    assert model.serving.next_tidying is None
    again, report = model.ask("b")
    assert report.restored_tokens == 192
    assert again.tokens == first.tokens
    model.serving.close()


def test_without_a_disk_a_long_rest_loses_nothing_but_a_shortage_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(tmp_path, None)
    first, _ = model.ask("a")
    model.rest(10 * FREE_AFTER)
    assert model.model.memory.cached_pages == 13
    monkeypatch.setattr(model.serving._tidying, "_is_short", lambda: True)
    model.rest(SPILL_AFTER)
    assert model.model.memory.cached_pages == 0
    assert model.model.arena.pages == 0
    again, report = model.ask("b")
    assert report.cached_tokens == 0
    assert again.tokens == first.tokens


def test_a_shortage_sends_pages_to_disk_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(tmp_path, tmp_path / "kv")
    model.ask("a")
    monkeypatch.setattr(model.serving._tidying, "_is_short", lambda: True)
    model.rest(SPILL_AFTER)
    assert model.model.memory.cached_pages == 0
    _, report = model.ask("b")
    assert report.restored_tokens == 192
    model.serving.close()
