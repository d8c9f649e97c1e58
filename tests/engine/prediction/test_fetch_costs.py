"""What a device takes to fetch pages that the host has written: measured at rest, once, without a trace."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.kv.arena import Arena
from engine.prediction.fetch_costs import PAGES, fetch_costs
from engine.rest.tidying import FREE_AFTER
from tests.engine.served_model import PROMPT, Model


def test_pages_of_two_sizes_are_fetched_and_given_back(tmp_path: Path) -> None:
    model = Model(tmp_path, None)
    before, _ = model.ask("before")
    used, arena = model.model.pager.pages_used, model.model.arena
    kept = arena.read(range(12))
    costs = list(fetch_costs(model.model))
    assert [tokens for tokens, _, _ in costs] == [16 * pages for pages in PAGES]
    assert all(0 < seconds < 1 for _, *both in costs for seconds in both)
    assert model.model.pager.pages_used == used
    for name, array in arena.read(range(12)).arrays.items():
        np.testing.assert_array_equal(array, kept.arrays[name])
    again, report = model.ask("again")
    assert report.cached_tokens == len(PROMPT) - 1
    assert again.tokens == before.tokens


def test_the_first_read_of_what_was_written_is_what_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any read takes as long again, and the first of so many pages compiles something."""
    compiled = set[int]()
    model, slow, new, written = Model(tmp_path, None), 0.02, set[int](), list[int]()
    memory, gathered = Arena.memory, Arena.gathered

    def noted(self: Arena, pages: Sequence[int]) -> Any:
        new.update(pages)
        written.append(len(pages))
        return memory(self, pages)

    def slowly(self: Arena, pages: Sequence[int]) -> dict[str, list[mx.array]]:
        time.sleep(slow * (1 + len(new.intersection(pages)) / PAGES[-1]) + 0.1 * (len(pages) not in compiled))
        compiled.add(len(pages))
        new.difference_update(pages)
        return gathered(self, pages)

    monkeypatch.setattr(Arena, "memory", noted)
    monkeypatch.setattr(Arena, "gathered", slowly)
    (_, _, few), (_, _, many) = fetch_costs(model.model)
    assert sorted(set(written)) == sorted(PAGES)
    assert many == pytest.approx(slow, abs=0.5 * slow)
    assert few < many


def test_nobody_gives_way_for_it(tmp_path: Path) -> None:
    model = Model(tmp_path, None, pages=PAGES[-1] + 10)
    model.ask("kept")
    cached = model.model.memory.cached_pages
    assert not list(fetch_costs(model.model))
    assert model.model.memory.cached_pages == cached > 10
    assert len(list(fetch_costs(Model(tmp_path, None, pages=PAGES[-1]).model))) == len(PAGES)


@pytest.mark.parametrize("device", ["CPU", "Metal", "CUDA"])
def test_it_is_known_once_a_model_with_chats_on_ssd_was_loaded_where_memory_is_apart(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.cache.finding.device_kind", lambda: device)
    measured = list[int]()

    def costs(model: object) -> list[tuple[int, float, float]]:
        measured.append(1)
        return [(64, 0.003, 0.004)]

    monkeypatch.setattr("engine.cache.finding.fetch_costs", costs)
    for _ in range(3):
        model = Model(tmp_path, tmp_path / "kv")
        model.rest(0.0)
        model.ask("chat", PROMPT, chat="chat")
        model.rest(FREE_AFTER)
        model.serving.close()
    (rates,) = (tmp_path / "cache" / "rates").glob("*.json")
    known = json.loads(rates.read_text())
    if device == "CUDA":
        assert len(measured) == 1
        ((features, seconds),) = known["fetched"]
        assert features == [1.0, 4.0 * model.model.arena.page_bytes]
        assert seconds == 0.004
        assert [features, 0.003] in known["restore"]
    else:
        assert not measured
        assert known["fetched"] == []
