"""How much of a larger arena is built before each step of an answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event, current_thread, main_thread
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from engine.batcher import Batcher
from engine.kv.growth import settle
from engine.machine.machine import device_kind
from tests.engine.cache.test_arena_room import PAGES, beside_an_answer
from tests.engine.served_model import Model, long_prompt

ARRAYS = 6


def steps_before(model: Model, arrays: int = ARRAYS) -> int:
    """That an answer makes until the long prompt begins: its arena is of so many arrays."""
    assert model.model.config.layers * len(model.model.arena.growing.arrays) == arrays
    long, worked = model.request("long", long_prompt(1, PAGES)), 0
    model.serving.add(long)
    while not long.clock.prefill_began:
        model.serving.work()
        worked += 1
    model.serving.cancel_all()
    return worked


@pytest.mark.parametrize(("at_once", "steps"), [(100.0, 1), (1.5, 3), (0.0, 6)])
def test_where_steps_take_long_more_is_built_before_each(
    at_once: float, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`at_once`: as many arrays may be built before one."""
    monkeypatch.setattr("engine.cache.arena_room.SHARE", 1e6)
    monkeypatch.setattr("engine.cache.arena_room.LONGEST_S", 60.0)
    monkeypatch.setattr("engine.kv.growth.device_kind", lambda: "CUDA")  # a CPU has a thread for it
    model, _ = beside_an_answer(tmp_path)
    array_bytes = PAGES * model.model.arena.page_bytes / ARRAYS
    monkeypatch.setattr("engine.cache.arena_room.AT_ONCE", int(at_once * array_bytes))
    assert steps_before(model) == steps


@pytest.mark.parametrize(("step", "array", "steps"), [(0.02, 0.004, 2), (0.02, 0.02, 6), (9.0, 0.03, 3)])
def test_half_of_what_a_step_took_is_given_to_building_and_no_more_than_a_moment(
    step: float, array: float, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds of a `step`, and of an `array` that is built before it."""
    now = [1000.0]

    def clock() -> float:
        return now[0]

    def takes(work: Callable[..., Any], seconds: float) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            now[0] += seconds
            return work(*given)

        return timed

    monkeypatch.setattr("engine.kv.growth.device_kind", lambda: "CUDA")
    monkeypatch.setattr("engine.cache.arena_room.time", SimpleNamespace(perf_counter=clock))
    model, _ = beside_an_answer(tmp_path)
    model.serving.work()
    growing = model.model.arena.growing
    monkeypatch.setattr(
        growing, "_makers", {name: takes(make, array) for name, make in growing._makers.items()}
    )
    monkeypatch.setattr(Batcher, "send", takes(Batcher.send, step))
    now[0] += step  # of the one before
    assert steps_before(model) == steps


@pytest.mark.skipif(device_kind() != "CPU", reason="only there a thread builds")
def test_nobody_waits_for_the_thread_that_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.cache.arena_room.LONGEST_S", 1e6)
    monkeypatch.setattr("engine.cache.arena_room.SHARE", 1e3)
    model, chat = beside_an_answer(tmp_path)
    growing, may_build, looks = model.model.arena.growing, Event(), count()
    makers = {name: partial(when, may_build, make) for name, make in growing._makers.items()}
    monkeypatch.setattr(growing, "_makers", makers)
    monkeypatch.setattr(
        "engine.cache.arena_room.time", SimpleNamespace(perf_counter=lambda: 1e4 * next(looks))
    )
    model.serving.add(model.request("long", long_prompt(1, PAGES)))
    before = len(chat.sequences[0].generated)
    for _ in range(3):
        model.serving.work()
    may_build.set()
    assert next(looks) < 30
    assert len(chat.sequences[0].generated) > before
    model.serving.cancel_all()
    settle()


def when(event: Event, make: Callable[[int], mx.array], slots: int) -> mx.array:
    if current_thread() is not main_thread():
        assert event.wait(60)
    return make(slots)
