"""A model at rest frees memory when it is time or needed, and goes on as before."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import mlx.core as mx
import pytest

from engine.commands import LoadModel
from engine.events.models import ModelReady
from engine.kv.ssd.folder import SsdFolder
from engine.machine.machine import memory_bytes
from engine.rest.tidying import FREE_AFTER, GROW_AFTER, LOOK_EVERY, SPILL_AFTER, STUCK_AFTER
from engine.settings import EngineSettings
from tests.engine.held_disk import held_writes
from tests.engine.served_model import Model, long_prompt
from tests.engine.watched import guess_always
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model


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
    monkeypatch.setattr(model.serving._tidying, "_is_short", lambda more: True)
    model.rest(SPILL_AFTER)
    assert model.model.memory.cached_pages == 0
    assert model.model.arena.pages == 0
    again, report = model.ask("b")
    assert report.cached_tokens == 0
    assert again.tokens == first.tokens


def test_a_shortage_sends_pages_to_disk_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(tmp_path, tmp_path / "kv")
    model.ask("a")
    monkeypatch.setattr(model.serving._tidying, "_is_short", lambda more: True)
    model.rest(SPILL_AFTER)
    assert model.model.memory.cached_pages == 0
    _, report = model.ask("b")
    assert report.restored_tokens == 192
    model.serving.close()


@pytest.mark.parametrize("way", ["shortage", "long rest", "put away"])
def test_what_a_draft_model_has_read_leaves_memory_with_the_model_s_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    guess_always(monkeypatch)
    model = Model(tmp_path, tmp_path / "kv", has_draft=True)
    assert model.draft is not None
    first, _ = model.ask("a", answer=12, chat="c")
    model.ask("b", long_prompt(1, 5), answer=12, chat="d")
    assert 0 < first.drafted_tokens == first.accepted_tokens
    before = model.draft.memory.cached_pages
    assert before > 12
    if way == "put away":
        model.serving.release("c", 60.0)
        assert 5 <= model.draft.memory.cached_pages <= before - 12
    else:
        monkeypatch.setattr(model.serving._tidying, "_is_short", lambda more: way == "shortage")
        model.rest(FREE_AFTER if way == "long rest" else SPILL_AFTER)
        assert model.draft.arena.pages == 0
        assert model.serving.next_tidying is None
    again, _ = model.ask("again", answer=12, chat="c")
    assert again.tokens == first.tokens
    assert 0 < again.drafted_tokens == again.accepted_tokens
    model.serving.close()


@pytest.mark.parametrize("cap", [0, 500_000, None])
def test_what_the_ssd_has_not_taken_stays_through_a_long_rest_but_not_through_a_shortage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cap: int | None
) -> None:
    """It has no room, or not for all, or cannot be written."""
    if cap is None:
        (tmp_path / "kv").write_text("")
    model, prompt = Model(tmp_path, tmp_path / "kv", cap=cap or 0), long_prompt(0, 60)
    assert model.model.tier is not None
    assert bool(model.model.tier.reason) == (cap is None)
    model.ask("a", prompt)
    for seconds in (SPILL_AFTER, FREE_AFTER, 2 * FREE_AFTER):
        model.rest(seconds)
        assert model.model.memory.cached_pages == 60
        assert model.serving.next_tidying == LOOK_EVERY
    _, report = model.ask("b", prompt)
    assert report.cached_tokens == len(prompt) - 1
    monkeypatch.setattr(model.serving._tidying, "_is_short", lambda more: True)
    model.rest(SPILL_AFTER)
    assert model.model.memory.cached_pages == 0
    assert model.model.arena.pages == 0
    model.serving.close()


def test_a_disk_that_hangs_keeps_no_memory_from_a_system_that_is_short_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write = Event()
    monkeypatch.setattr(SsdFolder, "write", lambda *_: may_write.wait(60))
    model = Model(tmp_path, tmp_path / "kv")
    tier, memory = model.model.tier, model.model.memory
    assert tier is not None
    monkeypatch.setattr(tier._writer, "_queue_bytes", 64 * model.model.arena.page_bytes)
    for number in range(3):
        model.ask(f"{number}", long_prompt(number, 60))
    model.serving.tidy(GROW_AFTER)  # doubles the arena
    is_short = [False, True]
    monkeypatch.setattr(model.serving._tidying, "_is_short", lambda more: is_short[0])
    for seconds in (SPILL_AFTER, STUCK_AFTER):
        model.serving.tidy(seconds)
        assert memory.cached_pages == 3 * 60
    is_short.reverse()
    model.serving.tidy(STUCK_AFTER - 1)
    assert memory.cached_pages == 3 * 60
    model.serving.tidy(STUCK_AFTER)
    assert memory.cached_pages == model.model.arena.pages == 0
    may_write.set()
    model.serving.close()


def test_memory_that_another_model_needs_is_written_first_however_small_the_queue_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(tmp_path, tmp_path / "kv")
    tier, memory = model.model.tier, model.model.memory
    assert tier is not None
    monkeypatch.setattr(tier._writer, "_queue_bytes", 1)
    for number in range(4):
        model.ask(f"{number}", long_prompt(number, 60))
    model.serving.limit_pages(64, 60)
    assert memory.cached_pages == 0
    assert [memory.lookup(long_prompt(number, 60)).stored_tokens for number in range(4)] == [16 * 59] * 4
    model.serving.close()


def test_a_chat_that_is_released_leaves_at_rest_what_could_not_be_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, prompt = Model(tmp_path, tmp_path / "kv", max_position_embeddings=4096), long_prompt(0, 200)
    tier, memory = model.model.tier, model.model.memory
    assert tier is not None
    may_write = held_writes(monkeypatch)
    monkeypatch.setattr(tier._writer, "_queue_bytes", 64 * model.model.arena.page_bytes)
    model.ask("a", prompt, chat="a")
    model.serving.release("a", 0.0)
    assert memory.cached_pages == 200
    may_write.set()
    for _ in range(9):
        model.rest(SPILL_AFTER)
        assert tier.flush(60)
    assert memory.cached_pages == 0
    assert memory.lookup(prompt).stored_tokens == 16 * 199
    model.serving.close()


def test_what_the_allocator_keeps_goes_back_once_a_rest_and_not_before_the_next_turn_may_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, given_back = Model(tmp_path, None), list[int]()
    monkeypatch.setattr(mx, "clear_cache", lambda: given_back.append(1))
    for number in range(2):
        model.ask(f"{number}")
        assert model.serving.next_tidying == SPILL_AFTER
        assert len(given_back) == number
        model.rest(SPILL_AFTER)
        model.rest(SPILL_AFTER + LOOK_EVERY)
        assert len(given_back) == number + 1


@pytest.mark.parametrize("kind", ["CPU", "Metal"])
def test_on_a_gpu_an_eighth_of_the_memory_is_kept_for_reuse_at_most(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = mx.set_cache_limit(1 << 25)
    monkeypatch.setattr("engine.machine.machine.device_kind", lambda: kind)
    try:
        with running_engine(EngineSettings()) as listener:
            listener.submit(LoadModel("load", str(write_random_model(tmp_path / "model"))))
            assert isinstance(listener.end_of("load"), ModelReady)
        assert mx.set_cache_limit(1 << 25) == (1 << 25 if kind == "CPU" else memory_bytes() // 8)
    finally:
        mx.set_cache_limit(usual)
