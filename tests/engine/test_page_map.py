"""Pages as they are told, at every sample, against the pager, the tree and the tables of that moment."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from pathlib import Path

import pytest

from engine.commands import Generate, LoadModel, MeasureBandwidth, WatchPages
from engine.events.events import Event, Stats
from engine.events.pages import CACHED, ON_SSD, PINNED, RUNNING, SHARED, Bandwidth, PageMap
from engine.kv.page_map import PageWatch, StampTimes
from engine.kv.page_table import NO_PAGE
from engine.kv.ssd.settings import SsdSettings
from engine.kv.stores import Found
from engine.loading.model import load_model
from engine.requests.accepting import accept_command
from engine.sampling.params import SamplingParams
from engine.serving import Serving
from engine.settings import EngineSettings
from tests.engine.kv.memory_world import Shape, World
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model

PREFIX = tuple(3 + (7 * place) % 290 for place in range(40))


class Watched:
    """A served model whose every PageMap is checked when it is told."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
        monkeypatch.setattr("engine.stats.INTERVAL", 0.0)
        monkeypatch.setattr("engine.kv.page_map.SHARE", 1e9)
        settings = EngineSettings(
            cache=folder / "cache",
            speculation=False,
            prefill_chunk=16,
            kv_pages=pages,
            ssd=SsdSettings(folder / "ssd", floor_bytes=0),
        )
        self.model = load_model(write_random_model(folder / "model"), settings, lambda done, total: None)
        self.maps: list[PageMap] = []
        self.stats: Stats | None = None
        self.serving = Serving(self.model, settings, self._heard)
        self.serving._tidying._is_short = lambda more: False  # whatever else runs on this machine
        self.pinned: set[str] = set()

    def _heard(self, event: Event) -> None:
        if isinstance(event, Stats):
            self.stats = event
        elif isinstance(event, PageMap):
            self.maps.append(event)
            self._check(event)

    def _check(self, told: PageMap) -> None:
        pager, assert_stats = self.model.pager, self.stats
        assert assert_stats is not None
        states, owner_of = list(told.states), array("I", told.owner_of)
        assert len(states) == len(owner_of) == len(told.used_at) / 8 <= pager.total_pages == told.total_pages
        assert not any(pager.references(page) for page in range(len(states), pager.total_pages))
        running = set(self.serving._batcher.running)
        held = Counter(page for s in running for page in s.table.pages if page != NO_PAGE)
        owners = {n.page: set(n.owners) for n in self.model.memory.tree.nodes() if n.page != NO_PAGE}
        keys = {n.page: n.key for n in self.model.memory.tree.nodes() if n.page != NO_PAGE}
        for sequence in running:
            for page in set(sequence.table.pages) - {NO_PAGE}:
                owners.setdefault(page, set()).add(sequence.request.command.chat)
        tier = self.model.tier
        assert tier is not None
        for page, state in enumerate(states):
            whose = owners.get(page, set[str]())
            assert bool(state) == bool(pager.references(page))
            assert bool(state & CACHED) == pager.is_cached(page)
            assert bool(state & RUNNING) == (held[page] > 0)
            assert bool(state & SHARED) == (len(whose) > 1 or held[page] > 1)
            assert bool(state & PINNED) == (page in keys and bool(whose & self.pinned))
            assert bool(state & ON_SSD) == (bool(keys.get(page)) and tier.find(keys[page]))
            assert told.owners[owner_of[page]] == tuple(sorted(whose))
        runs = sum(bool(state & RUNNING) for state in states)
        assert runs == assert_stats.pages_used == pager.pages_used
        assert sum(state != 0 for state in states) - runs == assert_stats.cached_pages

    def ask(self, name: str, tokens: tuple[int, ...], n: int = 1) -> None:
        command = Generate(
            name,
            tokens=tokens,
            sampling=SamplingParams(temperature=1, seed=1),
            max_tokens=24,
            ignore_eos=True,
            chat=name,
            n=n,
        )
        self.serving.add(
            accept_command(command, self.model, lambda _: self.serving.chats.capacity(), time.perf_counter())
        )

    def work(self) -> None:
        while self.serving.busy:
            self.serving.work()


@pytest.mark.parametrize("pages", [64, 14])
def test_every_map_is_the_pagers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    watched = Watched(tmp_path, monkeypatch, pages)
    watched.serving.watch_pages(True)
    watched.ask("a", PREFIX)
    watched.work()
    watched.pinned.add("a")
    watched.serving.chats.pin("a", True)
    for name, own in (("b", (5, 6, 7)), ("c", (8, 9))):
        watched.ask(name, PREFIX + own, n=2)
    watched.work()
    watched.pinned.clear()
    watched.serving.chats.pin("a", False)
    watched.serving.release("b", 0.25)
    watched.serving.chats.forget("c")
    watched.serving.tidy(10.0)
    watched.serving.watch_pages(False)
    seen = {state for told in watched.maps for state in told.states}
    for bit in (CACHED, RUNNING, SHARED, PINNED, ON_SSD):
        assert any(state & bit for state in seen), bit
    assert 0 in seen or pages == 14
    count = len(watched.maps)
    assert count > 15
    watched.ask("d", PREFIX)
    watched.work()
    assert len(watched.maps) == count
    watched.serving.close()


def test_an_engine_tells_at_once_and_of_models_that_come_later(folder: Path) -> None:
    with running_engine() as listener:
        listener.submit(WatchPages(True))
        listener.submit(LoadModel("load", str(folder)))
        told = listener.wait(lambda event: isinstance(event, PageMap))
        assert isinstance(told, PageMap)
        assert told.model == str(folder)
        assert not any(told.states)
        listener.submit(Generate("a", tokens=PREFIX, max_tokens=3, ignore_eos=True, chat="a"))
        listener.finished("a")
        told = listener.wait(
            lambda event: isinstance(event, PageMap) and not any(s & RUNNING for s in event.states)
        )
        assert isinstance(told, PageMap)
        used = [time for time in array("d", told.used_at) if time]
        assert len(used) == 3
        assert time.perf_counter() - 60 < min(used) <= max(used) <= told.at
        listener.submit(MeasureBandwidth())
        measured = listener.wait(lambda event: isinstance(event, Bandwidth))
        assert isinstance(measured, Bandwidth)
        assert measured.bytes_per_second is None or 2e8 < measured.bytes_per_second < 2e13


def test_nothing_is_told_twice_and_a_long_look_is_followed_by_a_long_rest() -> None:
    world = World(Shape(32, 4, None, False))
    watch = PageWatch("m", world.memory.tree, world.pager, None)
    assert not watch.is_due(1.0, is_at_rest=True)
    watch.switch(True)
    world.run(tuple(range(20)), "chat")
    watch.note(1.0)
    assert watch.is_due(1.0, is_at_rest=False)
    assert watch.look([], 1.0) is not None
    watch.took(1.0, 1.005)
    assert not watch.is_due(1.4, is_at_rest=False)
    assert watch.is_due(1.4, is_at_rest=True)
    assert watch.is_due(1.51, is_at_rest=False)
    assert watch.look([], 1.51) is None


def test_a_stamp_has_the_time_at_which_it_was_seen() -> None:
    times = StampTimes()
    for clock, now in ((3, 10.0), (3, 11.0), (7, 12.0)):
        times.note(clock, now)
    assert [times.of(stamp) for stamp in (1, 3, 4, 7)] == [10.0, 10.0, 12.0, 12.0]


def test_of_many_stamps_the_latest_are_kept() -> None:
    times = StampTimes()
    for clock in range(20_000):
        times.note(clock, float(clock))
    assert times.of(19_000) == 19_000.0
    assert times.of(0) > 0


@pytest.mark.parametrize("has_tier", [True, False])
def test_a_released_chat_leaves_memory_and_comes_back_from_ssd(has_tier: bool) -> None:
    world = World(Shape(32, 4, None, has_tier))
    world.run(tuple(range(30)), "mine")
    world.run(tuple(range(12)), "other")
    world.pin("kept", True)
    world.run(tuple(range(50, 60)), "kept")
    held = world.memory.cached_pages
    assert world.memory.put_away("kept", 0.0) == 0
    assert world.memory.put_away("mine", 0.0) == 8 - 3
    assert world.memory.cached_pages == held - 5
    assert world.memory.lookup((*range(30), 1)) == Found(12, 28 - 12 if has_tier else 0)
    world.check()
