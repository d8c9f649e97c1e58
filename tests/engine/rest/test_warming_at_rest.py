"""A rest in which much is to be compiled, and pages are to be put away: neither waits for the other."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from engine.kv.ssd.settings import SsdSettings
from engine.kv.stores import Spilled
from engine.rest.tidying import LOOK_EVERY, SPILL_AFTER
from engine.rest.warming import PAUSE_S
from engine.serving import Serving
from tests.engine.counting_device import TEXT, Device

_LATE = 0.001
"""Seconds by which a thread wakes up late."""

pytestmark = pytest.mark.usefixtures("slow_compiler")


def rest(serving: Serving, idle: float, until: float) -> float:
    """Nobody has asked for anything for `idle` seconds, nor does `until` then; returns how long that was."""
    while idle < until:
        due = serving.next_tidying
        assert due is not None
        idle += due + _LATE
        serving.tidy(idle)
    return idle


def test_pages_are_put_away_when_it_is_time_though_much_is_left_to_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(tmp_path, ssd=SsdSettings(tmp_path / "kv", cap_bytes=64 << 20, floor_bytes=0))
    memory, serving, tier = device.model.memory, device.serving, device.model.tier
    assert tier is not None
    is_short = [False]
    monkeypatch.setattr("engine.rest.tidying.LOOK_EVERY", PAUSE_S)
    monkeypatch.setattr(serving._tidying, "_is_short", lambda more: is_short[0])
    device.ask(TEXT * 9)
    idle = rest(serving, 0.0, SPILL_AFTER - PAUSE_S)
    assert (tier.waiting_pages, tier.written_pages) == (0, 0)
    idle = rest(serving, idle, SPILL_AFTER + PAUSE_S)
    assert tier.flush(60)
    assert tier.written_pages == memory.cached_pages - 1 > 0
    assert serving._warming.cold_steps
    is_short[0] = True
    while memory.cached_pages and idle < SPILL_AFTER + 3 * PAUSE_S:
        idle = rest(serving, idle, idle + _LATE)  # once
    assert memory.cached_pages == device.model.arena.pages == 0
    assert serving._warming.cold_steps
    serving.close()


def test_what_is_left_is_compiled_though_a_disk_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(tmp_path, ssd=SsdSettings(tmp_path / "kv", cap_bytes=64 << 20, floor_bytes=0))
    asked, is_awake = list[int](), [False]
    monkeypatch.setattr(device.serving._tidying, "_is_short", lambda more: False)

    def spill(pages: int) -> Spilled:
        asked.append(pages)
        return Spilled(0, is_all=is_awake[0])

    monkeypatch.setattr(device.model.memory, "spill", spill)
    device.ask(TEXT * 9)
    cold = device.serving._warming.cold_steps
    idle = rest(device.serving, 0.0, SPILL_AFTER)
    before = device.serving._warming.cold_steps
    assert before < cold
    idle = rest(device.serving, idle, SPILL_AFTER + 4 * PAUSE_S)
    assert device.serving._warming.cold_steps < before
    assert len(asked) > 1
    is_awake[0] = True
    rest(device.serving, idle, SPILL_AFTER + 6 * PAUSE_S)
    assert device.serving._tidying.due == LOOK_EVERY
    device.serving.close()


def test_what_compiling_leaves_in_the_allocator_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, given_back = Device(tmp_path), list[int]()
    monkeypatch.setattr(device.serving._tidying, "_is_short", lambda more: False)
    assert device.serving._warming.cold_steps
    monkeypatch.setattr(mx, "clear_cache", lambda: given_back.append(device.serving._warming.cold_steps))
    idle = 0.0
    while (due := device.serving.next_tidying) is not None:
        idle += due + _LATE
        device.serving.tidy(idle)
    assert given_back[-1] == 0
    assert device.serving._warming.cold_steps == 0
