"""A model at rest writes its pages to SSD, once, as soon as there is a place for them, and tells of it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.events.cache import CacheCounts
from engine.events.events import Stats
from engine.rest.tidying import LOOK_EVERY, SPILL_AFTER
from tests.engine.held_disk import held_writes
from tests.engine.kv.spilled import owners_in
from tests.engine.served_model import PROMPT, Model, long_prompt


@dataclass
class Disk:
    free: int


def cache_of(model: Model) -> CacheCounts:
    """As the newest Stats tell it."""
    return next(event.cache for event in reversed(model.events) if isinstance(event, Stats))


def test_pages_are_written_ahead_and_stay_in_memory(tmp_path: Path) -> None:
    model = Model(tmp_path, tmp_path / "kv")
    assert model.serving.next_tidying is None
    model.ask("a")
    assert model.serving.next_tidying == SPILL_AFTER
    model.rest(SPILL_AFTER)
    assert model.model.tier is not None
    assert model.model.tier.flush(60)
    assert model.model.tier.written_pages == 12
    assert model.model.memory.cached_pages == 13
    assert model.serving.next_tidying == LOOK_EVERY
    model.serving.close()


def test_a_branch_s_pages_on_ssd_are_its_own_after_a_crash_once_it_has_rested(tmp_path: Path) -> None:
    model = Model(tmp_path, tmp_path / "kv")
    model.ask("a", chat="chat")
    model.rest(SPILL_AFTER)
    assert model.model.tier is not None
    assert model.model.tier.flush(60)
    model.serving.chats.share("branch", PROMPT)
    assert owners_in(tmp_path / "kv") == {"chat"}
    model.rest(SPILL_AFTER)
    assert model.model.tier.flush(60)
    assert owners_in(tmp_path / "kv") == {"chat", "branch"}
    model.serving.close()


def test_what_could_not_be_written_is_once_it_can_be_though_nobody_asks_for_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kv"
    model = Model(tmp_path, folder)
    tier = model.model.tier
    assert tier is not None
    monkeypatch.setattr("engine.kv.ssd.problem.AGAIN_S", 0.0)
    shutil.rmtree(folder)
    model.ask("a")
    for seconds in (SPILL_AFTER, SPILL_AFTER + LOOK_EVERY):
        model.rest(seconds)
        assert tier.flush(60)
        assert model.serving.next_tidying == LOOK_EVERY
    assert (tier.written_pages, bool(tier.reason)) == (0, True)
    folder.mkdir()
    model.rest(SPILL_AFTER + 2 * LOOK_EVERY)
    assert tier.flush(60)
    model.rest(SPILL_AFTER + 3 * LOOK_EVERY)
    assert (cache_of(model).spilled_pages, cache_of(model).ssd_problem) == (12, "")
    assert model.model.memory.is_on_ssd
    model.serving.close()


def test_without_cached_pages_too_it_is_told_when_a_disk_has_room_again(tmp_path: Path) -> None:
    model = Model(tmp_path, tmp_path / "kv")
    tier = model.model.tier
    assert tier is not None
    free = 0
    tier._files._folder._disk_usage = lambda folder: Disk(free)
    model.ask("a")
    model.serving._tidying._is_short = lambda more: True
    model.rest(SPILL_AFTER)
    assert model.model.arena.pages == 0
    assert cache_of(model).ssd_problem == "the disk has 0.0 MB free; saving goes on when there is more"
    assert model.serving.next_tidying == LOOK_EVERY
    free = 1 << 30
    model.rest(SPILL_AFTER + LOOK_EVERY)
    assert (cache_of(model).ssd_problem, model.serving.next_tidying) == ("", None)
    model.serving.close()


def test_pages_count_as_spilled_once_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(tmp_path, tmp_path / "kv")
    assert model.model.tier is not None
    may_write = held_writes(monkeypatch)
    model.ask("a")
    model.serving.tidy(SPILL_AFTER)
    assert (cache_of(model).waiting_pages, cache_of(model).spilled_pages) == (12, 0)
    due = model.serving.next_tidying
    assert due is not None
    assert due <= 0.1  # who looks at it need not wait for the next look at the machine
    may_write.set()
    assert model.model.tier.flush(60)
    model.rest(SPILL_AFTER)
    assert (cache_of(model).waiting_pages, cache_of(model).spilled_pages) == (0, 12)
    assert model.serving.next_tidying == LOOK_EVERY
    model.serving.close()


def test_what_the_ssd_has_no_room_for_is_not_written_again_and_again(tmp_path: Path) -> None:
    """Nor at the end, and what is written is the beginning of the chat."""
    model = Model(tmp_path, tmp_path / "kv", cap=2_000_000, max_position_embeddings=4096)
    tier, prompt = model.model.tier, long_prompt(0, 250)
    assert tier is not None
    model.ask("a", prompt)
    for name in "bcd":
        model.serving.tidy(SPILL_AFTER)  # doubles the arena
        for _ in range(9):
            model.serving.tidy(SPILL_AFTER)
            assert tier.flush(60)
        assert model.serving.next_tidying == LOOK_EVERY
        assert tier.usage.written_today <= 2_000_000
        model.ask(name, prompt)
    model.serving.close()
    assert tier.usage.written_today <= 2_000_000
    again = Model(tmp_path, tmp_path / "kv", cap=2_000_000, max_position_embeddings=4096)
    assert again.model.memory.lookup(prompt).stored_tokens == 16 * 128
    again.serving.close()


def test_writing_ahead_goes_on_as_soon_as_there_is_a_place_for_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(tmp_path, tmp_path / "kv")
    tier = model.model.tier
    assert tier is not None
    may_write = held_writes(monkeypatch)
    monkeypatch.setattr(tier._writer, "_queue_bytes", 64 * model.model.arena.page_bytes)
    model.ask("a", long_prompt(0, 60))
    model.ask("b", long_prompt(1, 60))
    model.serving.tidy(SPILL_AFTER)  # doubles the arena
    for _ in range(3):
        model.serving.tidy(SPILL_AFTER)
        assert (tier.waiting_pages, tier.written_pages) == (59, 0)
        assert (model.serving.next_tidying or 0) < 1
    may_write.set()
    assert tier.flush(60)
    model.rest(SPILL_AFTER)
    assert tier.flush(60)
    assert (tier.waiting_pages, tier.written_pages) == (0, 2 * 59)
    assert model.serving.next_tidying == LOOK_EVERY
    model.serving.close()
