"""The arena is built while nobody waits, for what is expected, and within what the system can spare."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from engine.commands import Generate, LoadModel
from engine.events.events import Stats
from engine.events.models import ModelReady
from engine.rest.tidying import FREE_AFTER, GROW_AFTER, LOOK_EVERY, SPILL_AFTER
from engine.settings import EngineSettings
from tests.engine.served_model import Model, long_prompt
from tests.engine.watched import restore_always
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model


@pytest.fixture(autouse=True)
def _fetching_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is apart that takes 64 pages: see test_fetch_costs.py."""
    monkeypatch.setattr("engine.cache.finding.device_kind", lambda: "CPU")


def test_an_arena_more_than_half_full_is_doubled_at_rest_and_the_next_request_grows_nothing(
    tmp_path: Path,
) -> None:
    model = Model(tmp_path, None)
    arena = model.model.arena
    model.ask("a", long_prompt(0, 30))
    assert arena.pages == 64
    assert model.serving.next_tidying == SPILL_AFTER  # 30 of 64 pages are no reason to grow
    model.ask("b", long_prompt(1, 10))
    assert model.serving.next_tidying == GROW_AFTER
    first, _ = model.ask("c", long_prompt(2, 20))
    assert arena.pages == 64
    model.serving.tidy(GROW_AFTER)
    assert arena.pages == 128
    assert model.serving.next_tidying == SPILL_AFTER - GROW_AFTER
    model.serving.tidy(GROW_AFTER)
    assert arena.pages == 128
    model.ask("d", long_prompt(3, 60))
    assert arena.pages == 128
    again, report = model.ask("e", long_prompt(2, 20))
    assert again.tokens == first.tokens
    assert report.cached_tokens == len(long_prompt(2, 20)) - 1


def test_an_arena_is_built_for_a_prompt_and_its_answer_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, sizes = Model(tmp_path, None), list[int]()
    arena, reserve = model.model.arena, model.model.arena.reserve

    def watched(pages: int, limit: int) -> None:
        reserve(pages, limit)
        sizes.append(arena.pages)

    model.ask("a", long_prompt(0, 30))
    monkeypatch.setattr(arena, "reserve", watched)
    model.ask("b", long_prompt(1, 30), answer=100)
    assert len(sizes) > 6
    assert set(sizes) == {128}


def test_what_comes_back_from_ssd_finds_an_arena_of_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_always(monkeypatch)
    model, sizes = Model(tmp_path, tmp_path / "kv"), list[int]()
    arena, reserve, tier = model.model.arena, model.model.arena.reserve, model.model.tier
    assert tier is not None
    for number in range(2):
        model.ask(f"{number}", long_prompt(number, 50))
    model.rest(FREE_AFTER)
    assert arena.pages == 0
    assert tier.flush(60)
    model.ask("small", long_prompt(2, 3))

    def watched(pages: int, limit: int) -> None:
        reserve(pages, limit)
        sizes.append(arena.pages)

    monkeypatch.setattr(arena, "reserve", watched)
    for number, expected in ((0, 64), (1, 128)):
        _, report = model.ask(f"{number} again", long_prompt(number, 50))
        assert report.restored_tokens == 16 * 49
        assert len(sizes) > 1
        assert set(sizes) == {expected}
        sizes.clear()
    model.serving.close()


def test_the_arena_is_there_before_a_prompt_that_was_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_always(monkeypatch)
    model, prompt, sizes = Model(tmp_path, tmp_path / "kv"), long_prompt(0, 60), list[int]()
    arena, reserve = model.model.arena, model.model.arena.reserve
    first, _ = model.ask("a", prompt, chat="chat")
    model.rest(FREE_AFTER)
    assert model.model.tier is not None
    assert model.model.tier.flush(60)
    assert model.serving.predict(model.request("?", long_prompt(1, 60))).restored_tokens == 0
    assert model.serving.next_tidying is None  # it has to be computed, and may never be sent
    assert model.serving.predict(model.request("?", prompt, chat="chat")).restored_tokens == 16 * 59
    assert arena.pages == 0
    assert model.serving.next_tidying == 0
    model.serving.tidy(2 * FREE_AFTER)
    built = arena.pages
    assert built == 60 + 60 // 16
    model.serving.tidy(2 * FREE_AFTER + SPILL_AFTER)
    assert arena.pages == built  # one may type for long

    def watched(pages: int, limit: int) -> None:
        reserve(pages, limit)
        sizes.append(arena.pages)

    monkeypatch.setattr(arena, "reserve", watched)
    again, report = model.ask("b", prompt, chat="chat")
    assert (report.cached_tokens, report.restored_tokens) == (16 * 59, 0)  # it came back meanwhile
    assert again.tokens == first.tokens
    assert set(sizes) == {built}
    model.serving.close()


@pytest.mark.parametrize(("most", "built"), [(8192, 59 + 59 // 16), (16 * 40, 40 + 40 // 16)])
def test_the_arena_is_there_before_a_stored_chat_is_sent_to_a_model_just_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, built: int
) -> None:
    restore_always(monkeypatch)
    monkeypatch.setattr("engine.rest.tidying.STORED_TOKENS", most)
    before = Model(tmp_path, tmp_path / "kv")
    assert before.serving.next_tidying is None  # nothing is stored
    first, _ = before.ask("a", long_prompt(0, 60), chat="long")
    before.ask("b", long_prompt(1, 20), chat="short")
    before.serving.close()
    model = Model(tmp_path, tmp_path / "kv")
    assert model.model.arena.pages == 0
    assert model.serving.next_tidying == 0
    model.serving.tidy(0.0)
    assert model.model.arena.pages == built
    again, report = model.ask("b", long_prompt(0, 60), chat="long")
    assert report.restored_tokens == 16 * 59
    assert again.tokens == first.tokens
    model.rest(FREE_AFTER)
    assert model.model.arena.pages == 0
    model.serving.close()


def test_an_arena_that_was_built_for_nothing_is_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_always(monkeypatch)
    model = Model(tmp_path, tmp_path / "kv")
    model.ask("a", long_prompt(0, 60))
    model.rest(FREE_AFTER)
    for is_short, built in ((True, 0), (False, 60)):
        monkeypatch.setattr(model.serving._tidying, "_is_short", lambda more, is_short=is_short: is_short)
        model.serving.predict(model.request("?", long_prompt(0, 60), chat="new"))  # whose are no pages yet
        model.serving.tidy(2 * FREE_AFTER)
        assert model.model.arena.pages >= built
        assert bool(model.model.arena.pages) == bool(built)
    model.serving.tidy(3 * FREE_AFTER - 1)
    assert model.model.arena.pages
    assert model.serving.next_tidying == LOOK_EVERY
    model.serving.tidy(3 * FREE_AFTER)
    assert model.model.arena.pages == 0
    assert model.serving.next_tidying is None
    model.serving.close()


def test_the_engine_s_thread_grows_while_it_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.stats.INTERVAL", 3600)  # what is told is told at the end, and at rest
    monkeypatch.setattr("engine.machine.pressure._linux_has_little", lambda meminfo, more: False)
    with running_engine(EngineSettings(cache=tmp_path / "cache")) as listener:
        listener.submit(LoadModel("load", str(write_random_model(tmp_path / "model"))))
        ready = listener.end_of("load")
        listener.submit(Generate("a", tokens=long_prompt(0, 40), max_tokens=4, ignore_eos=True))
        listener.finished("a")
        before = listener.wait(lambda event: isinstance(event, Stats))
        after = listener.wait(lambda event: isinstance(event, Stats))
    assert isinstance(ready, ModelReady)
    assert isinstance(before, Stats)
    assert isinstance(after, Stats)
    assert after.memory.arena_bytes - before.memory.arena_bytes == 64 * ready.model.page_bytes


@pytest.mark.parametrize("pages", [8, 65, 100])
def test_growth_at_rest_keeps_to_the_budget(pages: int, tmp_path: Path) -> None:
    model = Model(tmp_path, None, pages)
    for number in range(2 * pages // 7):
        model.ask(f"{number}", long_prompt(number, 7))
        while model.serving.next_tidying == GROW_AFTER:
            model.serving.tidy(GROW_AFTER)
        assert model.model.arena.pages <= pages
    assert model.model.arena.pages == pages
    assert model.serving.next_tidying == SPILL_AFTER


def test_what_was_expected_before_a_share_became_less_keeps_to_the_share(tmp_path: Path) -> None:
    model = Model(tmp_path, None, 100)
    model.serving._tidying.expect(90)
    model.serving.limit_pages(40, 60)
    model.rest(0.0)
    assert model.model.arena.pages == 40
    model.serving.close()


def test_growth_at_rest_gives_way_where_memory_is_short_or_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, asked = Model(tmp_path, None), list[int]()
    arena = model.model.arena

    def is_short(more: int) -> bool:
        asked.append(more)
        return more > 0

    monkeypatch.setattr(model.serving._tidying, "_is_short", is_short)
    model.ask("a", long_prompt(0, 40))
    model.serving.tidy(GROW_AFTER)
    assert asked == [64 * arena.page_bytes]
    assert model.serving.next_tidying == SPILL_AFTER - GROW_AFTER
    model.serving.tidy(SPILL_AFTER)
    assert asked[1:] == [0]  # it is not tried again
    assert arena.pages == 64


def test_memory_that_was_freed_at_rest_is_not_built_again_before_it_is_needed(tmp_path: Path) -> None:
    model = Model(tmp_path, tmp_path / "kv")
    model.ask("a", long_prompt(0, 40))
    model.serving.tidy(GROW_AFTER)
    assert model.model.arena.pages == 128
    model.rest(FREE_AFTER)
    assert model.model.arena.pages == 0
    model.serving.tidy(GROW_AFTER)
    assert model.model.arena.pages == 0
    model.serving.close()


def test_growth_that_breaks_loses_pages_and_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(tmp_path, None)
    first, _ = model.ask("a", long_prompt(0, 40))
    arena, built = model.model.arena, list[int]()
    (keys, make), _ = makers = list(arena.growing._makers.items())

    def build_one(slots: int) -> mx.array:
        if len(built) == 1 and slots:  # the first layer has grown
            raise RuntimeError("[malloc] Unable to allocate 5 bytes.")
        built.append(slots)
        return make(slots)

    with monkeypatch.context() as patch:
        patch.setattr(arena.growing, "_makers", {**dict(makers), keys: build_one})
        with pytest.raises(RuntimeError, match="allocate"):
            model.serving.tidy(GROW_AFTER)
    assert built
    assert arena.pages == 0
    again, report = model.ask("b", long_prompt(0, 40))
    assert report.cached_tokens == 0
    assert again.tokens == first.tokens
