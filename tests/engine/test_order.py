"""Launches on pages are ordered by arrays, through all that the engine does with pages; memory stays put."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import mlx.core as mx
import pytest

from engine.kv.arena import Arena
from engine.kv.page_table import PageTable
from engine.runner import Runner
from metal.recorder import Recorder, bytes_of, unordered, without
from metal.replay import Replay, latest_first, order
from tests.engine.order_scenes import SCENES, Chat, forgetting, recording
from tests.fakes.random_model import VOCAB
from tests.metal.forgetful import Forgetful, Way

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("g++") is None, reason="the emulator needs Linux and g++"
)
KERNELS = {
    "long_decode": {"page_write", "decode_attention"},
    "taking_turns": {"page_write", "decode_attention"},
    "one_after_the_other": {"page_write", "decode_attention"},
    "cancelled": {"page_write", "decode_attention"},
    "window": {"page_write", "page_gather", "decode_attention"},
    "window_in_place": {"page_write", "prefill_attention", "decode_attention"},
    "chunks": {"page_write", "page_gather", "decode_attention"},
    "growth": {"page_write", "decode_attention", "growth", "wait"},
    "growth_at_rest": {"page_write", "decode_attention", "growth", "wait"},
    "shared": {"page_write", "page_copy", "decode_attention"},
    "beside": {"page_write", "page_gather", "decode_attention"},
    "gives_way": {"page_write", "decode_attention"},
}


@pytest.fixture(autouse=True)
def _products_on_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products touch no pool, and emulated ones take most of a step's time."""
    monkeypatch.setattr("engine.kernels.ops.MAX_ROWS", 0)


def recorded(scene: str, folder: Path) -> Recorder:
    with recording() as recorder:
        SCENES[scene](folder)
    return recorder


@pytest.mark.parametrize("scene", SCENES)
def test_every_two_launches_on_a_page_are_ordered(scene: str, tmp_path: Path) -> None:
    """As one fence serves all layers, a launch comes after the one before it: no other order is allowed."""
    recorder = recorded(scene, tmp_path / "model")
    assert {step.name for step in recorder.steps} >= KERNELS[scene]
    assert unordered(recorder.steps) == []
    launches = [number for number, step in enumerate(recorder.steps) if step.name not in ("wait", "growth")]
    latest = order(recorder.steps, latest_first)
    assert [number for number in latest if number in launches] == launches
    assert Replay(recorder).run(latest) == []


@pytest.mark.parametrize(
    ("kernel", "way", "at", "scene"),
    [
        ("decode_attention", "to take it", 70, "long_decode"),
        ("decode_attention", "to hand it on", 71, "long_decode"),
        ("decode_attention", "to hand it on", 13, "cancelled"),
        ("page_write", "to take it", 2, "cancelled"),
        ("page_write", "to hand it on", 0, "long_decode"),
        ("page_write", "to hand it on", 5, "chunks"),
        ("page_gather", "to take it", 3, "chunks"),
        ("page_gather", "to hand it on", 2, "window"),
        ("prefill_attention", "to hand it on", 2, "window_in_place"),
        ("page_copy", "to take it", 2, "shared"),
        ("page_copy", "to hand it on", 3, "shared"),
    ],
)
def test_one_forgotten_fence_is_found(kernel: str, way: Way, at: int, scene: str, tmp_path: Path) -> None:
    with recording() as recorder, forgetting(Forgetful(kernel, way, at)):
        SCENES[scene](tmp_path / "model")
    assert unordered(recorder.steps)
    assert Replay(recorder).run(order(recorder.steps, latest_first))


@pytest.mark.parametrize("scene", ["growth", "growth_at_rest"])
def test_growing_an_arena_without_waiting_is_found(
    scene: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait_for_nothing(arena: Arena) -> None:
        pass

    monkeypatch.setattr(Arena, "synchronize", wait_for_nothing)
    recorder = recorded(scene, tmp_path / "model")
    assert {recorder.steps[pair.second].name for pair in unordered(recorder.steps)} == {"growth"}
    assert Replay(recorder).run(order(recorder.steps, latest_first))


def test_no_fence_of_a_chat_can_be_left_out(tmp_path: Path) -> None:
    """But that of a launch for which the host has waited: the wait orders as much."""
    recorder = recorded("long_decode", tmp_path / "model")
    replay, edges, waited_for = Replay(recorder), 0, 0
    waits = {number: step for number, step in enumerate(recorder.steps) if step.name == "wait"}
    for number, step in enumerate(recorder.steps):
        for earlier in step.after - waits.keys() if number not in waits else ():
            edges += 1
            if any(earlier in wait.after for wait in waits.values()):
                waited_for += 1
                continue
            torn = without(recorder.steps, earlier, number)
            assert unordered(torn)
            if edges % 10 == 0:
                assert replay.run(order(torn, latest_first))
    assert edges == len(recorder.steps) - len(waits) - 1
    assert waited_for <= len(waits) <= 1


def addresses(arena: Arena) -> list[int]:
    return [bytes_of(pool).ctypes.data for pool in (*arena.pools.keys, *arena.pools.values)]


@pytest.mark.usefixtures("settled_memory")
def test_memory_does_not_move_during_500_steps(tmp_path: Path) -> None:
    chat = Chat(tmp_path / "model")
    arena = chat.model.arena
    arena.reserve(32, limit=32)
    places = addresses(arena)
    runner, table = Runner(chat.model), PageTable()
    token, seen = mx.array([7], dtype=mx.uint32), list[int]()
    for step in range(500):
        token = mx.argmax(runner.decode([table], token), axis=-1)
        mx.async_eval(token)
        if step >= 20:
            mx.synchronize()  # the step's own temporaries are gone then
            seen.append(mx.get_active_memory())
        else:
            mx.reset_peak_memory()
    assert table.length == 500
    assert addresses(arena) == places
    assert max(seen) - min(seen) <= 4 * VOCAB
    assert mx.get_peak_memory() - min(seen) < arena.pools.keys[0].nbytes  # no pool was copied on the way
