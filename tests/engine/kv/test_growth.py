"""Larger arrays, built before they take the place of those that are there, against what was written."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, current_thread, main_thread

import mlx.core as mx
import numpy as np
import pytest

from engine.kv.arena import Arena
from engine.kv.growth import settle
from engine.kv.page_table import Span
from engine.machine.machine import device_kind
from engine.machine.processors import ENGINE_THREAD, name_thread
from engine.worker import end_workers
from tests.engine.kv.arenas import BITS, DIM, HEADS, LAYERS, SIZE, address, kept, some


@BITS
def test_what_is_built_ahead_takes_the_place_of_what_is_there_with_all_that_was_written(
    bits: int | None,
) -> None:
    rng, arena = np.random.default_rng(0), Arena(LAYERS, HEADS, DIM, SIZE, mx.float32, bits)
    arena.reserve(64, limit=1000)
    rows = [some(rng, 20) for _ in range(LAYERS)]
    for layer in range(LAYERS):
        arena.write_layer(layer, *rows[layer], [Span(990, 1010)])
    built = list[int]()
    while not arena.growing.build_ahead(100, limit=1000):
        built.append(arena.growing.ahead_bytes)
        settle()
        for layer in range(LAYERS):  # work goes on where it was
            rows[layer] = some(rng, 20)
            arena.write_layer(layer, *rows[layer], [Span(990, 1010)])
    assert built == sorted(set(built))
    whole = LAYERS * len(arena.growing.arrays)
    assert len(built) == (whole if device_kind() == "CPU" else whole - 1)  # a CPU's last is on its way still
    assert arena.growing.ahead_bytes == 136 * arena.page_bytes
    addresses = {address(array) for array in arena.state()}
    assert arena.growing.build_ahead(100, limit=1000)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    arena.reserve(90, limit=1000)
    assert mx.get_peak_memory() - before < arena.page_bytes
    assert (arena.pages, arena.growing.ahead_bytes) == (136, 0)
    assert not addresses & {address(pool) for pools in arena.growing.arrays.values() for pool in pools}
    for layer, (keys, values) in enumerate(rows):
        for stored, row in zip(arena.read_layer(layer, [Span(990, 1010)]), (keys, values), strict=True):
            np.testing.assert_array_equal(np.array(stored), kept(arena, row))
    empty = arena.read_layer(0, [Span(68 * SIZE, 136 * SIZE)])
    assert not any(np.array(part).any() for part in empty)


def test_a_few_arrays_built_ahead_are_used_and_the_others_built_then() -> None:
    arena = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32)
    assert not arena.growing.build_ahead(10, limit=1000)
    arena.reserve(10, limit=1000)
    assert arena.pages == 64
    assert [pool.shape for pools in arena.growing.arrays.values() for pool in pools] == 4 * [
        (HEADS, 64 * SIZE, DIM)
    ]


needs_cpu = pytest.mark.skipif(device_kind() != "CPU", reason="a device's memory is there without a thread")


@needs_cpu
def test_on_a_cpu_nobody_waits_for_what_is_built_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    arena, may_end = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32), Event()
    growing = arena.growing
    (keys, make), *others = growing._makers.items()

    def slow(slots: int) -> mx.array:
        if current_thread() is not main_thread():
            assert may_end.wait(60)
        return make(slots)

    monkeypatch.setattr(growing, "_makers", {keys: slow, **dict(others)})
    assert not growing.build_ahead(10, limit=1000)
    for _ in range(3):  # it is one and the same
        assert growing.is_building
        assert growing.ahead_bytes == 64 * arena.page_bytes // (LAYERS * len(growing.arrays))
        assert not growing.build_ahead(10, limit=1000)
    may_end.set()
    settle()
    assert not growing.is_building
    arena.reserve(10, limit=1000)
    assert (arena.pages, growing.ahead_bytes) == (64, 0)


needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux lists a process's threads, MLX's too"
)


@needs_cpu
@needs_linux
def test_of_two_processors_it_is_built_on_the_one_that_answers_leave(two: set[int]) -> None:
    """By a thread that the engine's starts, and by MLX's for it: beside answers, which wait for neither."""
    end_workers()
    arena = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32)
    with ThreadPoolExecutor(1, "", name_thread, (ENGINE_THREAD,)) as engine:
        assert not engine.submit(arena.growing.build_ahead, 10, 1000).result()
        settle()
        tasks = [task for task in Path("/proc/self/task").iterdir() if _name(task) == "mlxr-arena"]
        assert len(tasks) >= 2
        assert all(os.sched_getaffinity(int(task.name)) == {max(two)} for task in tasks)
    end_workers()


def _name(task: Path) -> str:
    try:
        return (task / "comm").read_text().strip()
    except OSError:  # it is over by now
        return ""


@needs_cpu
@needs_linux
def test_many_arenas_leave_no_more_threads_than_one() -> None:
    """MLX ends none of its own, of which each thread that has it compute has one."""
    threads = list[int]()
    for _ in range(8):
        arena = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32)
        assert not arena.growing.build_ahead(10, limit=1000)
        settle()
        del arena
        threads.append(sum(1 for _ in Path("/proc/self/task").iterdir()))
    assert threads[-1] <= threads[0]


def test_nothing_is_built_ahead_that_both_sizes_have_no_room_for() -> None:
    arena = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32)
    arena.reserve(64, limit=200)
    assert arena.growing.build_ahead(68, limit=200)
    assert arena.growing.build_ahead(69, limit=203)  # 68 and 136
    assert arena.growing.ahead_bytes == 0
    assert not arena.growing.build_ahead(69, limit=204)
    assert arena.growing.ahead_bytes > 0
    arena.reserve(69, limit=100)  # less than when it was begun
    assert (arena.pages, arena.growing.ahead_bytes) == (100, 0)


def test_what_was_built_ahead_for_less_is_not_enough() -> None:
    arena = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32)
    for _ in range(3):
        arena.growing.build_ahead(65, limit=1000)
        settle()
    assert not arena.growing.build_ahead(500, limit=2000)
    arena.reserve(500, limit=2000)
    assert arena.pages == 531


@pytest.mark.parametrize("how", ["drop_ahead", "release"])
def test_what_was_built_ahead_can_be_given_back(how: str) -> None:
    arena = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32)
    arena.growing.build_ahead(65, limit=1000)
    getattr(arena.growing, how)()
    assert arena.growing.ahead_bytes == 0
