"""The arena against a plain numpy array indexed by slot."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.errors import EngineError
from engine.kv.arena import Arena
from engine.kv.page_table import PageCopy, Span
from engine.kv.takes_pages import takes_pages
from engine.machine.machine import device_kind
from tests.engine.kv.arenas import BITS, DIM, HEADS, LAYERS, SIZE, address, kept, some


@BITS
def test_what_is_written_is_read_back_in_token_order_through_growth(bits: int | None) -> None:
    rng, arena = np.random.default_rng(0), Arena(LAYERS, HEADS, DIM, SIZE, mx.float32, bits)
    plain = np.zeros((LAYERS, 2, HEADS, 2000, DIM), np.float32)
    for spans in (
        [Span(5, 9)],
        [Span(40, 48), Span(10, 12)],
        [Span(900, 1000), Span(0, 5), Span(1500, 1501)],
    ):
        arena.reserve(-(-max(span.end for span in spans) // SIZE), limit=125)
        for layer in range(LAYERS):
            keys, values = some(rng, sum(span.length for span in spans))
            arena.write_layer(layer, keys, values, spans)
            slots = [slot for span in spans for slot in range(span.begin, span.end)]
            plain[layer, 0][:, slots], plain[layer, 1][:, slots] = kept(arena, keys), kept(arena, values)
        mx.eval(arena.state())
    for layer in range(LAYERS):
        for spans in ([Span(0, 60)], [Span(900, 1000), Span(3, 11)]):
            slots = [slot for span in spans for slot in range(span.begin, span.end)]
            keys, values = arena.read_layer(layer, spans)
            np.testing.assert_array_equal(np.array(keys), plain[layer, 0][:, slots])
            np.testing.assert_array_equal(np.array(values), plain[layer, 1][:, slots])


@BITS
def test_scattered_single_tokens_are_where_their_slots_say(bits: int | None) -> None:
    rng, arena = np.random.default_rng(0), Arena(LAYERS, HEADS, DIM, SIZE, mx.float32, bits)
    arena.reserve(8, limit=8)
    keys, values = some(rng, 3)
    arena.write_slots(1, keys.swapaxes(0, 1), values.swapaxes(0, 1), mx.array([40, 7, 100], dtype=mx.int32))
    read = arena.read_layer(1, [Span(40, 41), Span(7, 8), Span(100, 101)])
    np.testing.assert_array_equal(np.array(read[0]), kept(arena, keys))
    np.testing.assert_array_equal(np.array(read[1]), kept(arena, values))
    assert not np.array(arena.read_layer(1, [Span(8, 40)])[0]).any()
    assert not np.array(arena.read_layer(0, [Span(0, 128)])[0]).any()


@BITS
def test_a_page_s_bytes_are_what_the_arrays_take(bits: int | None) -> None:
    arena = Arena(LAYERS, HEADS, DIM, SIZE, mx.float16, bits)
    empty = sum(array.nbytes for array in arena.state())
    arena.reserve(100, limit=100)
    assert sum(array.nbytes for array in arena.state()) - empty == 100 * arena.page_bytes
    assert arena.page_bytes == LAYERS * 2 * HEADS * SIZE * {None: 64, 8: 36, 4: 20}[bits]


@BITS
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_pages_leave_and_come_back_bit_for_bit_and_copies_are_equal(
    bits: int | None, dtype: mx.Dtype
) -> None:
    rng, arena = np.random.default_rng(0), Arena(LAYERS, HEADS, DIM, SIZE, dtype, bits)
    arena.reserve(9, limit=9)
    for layer in range(LAYERS):
        keys, values = some(rng, 4 * SIZE)
        arena.write_layer(layer, keys.astype(dtype), values.astype(dtype), [Span(0, 4 * SIZE)])
    data = arena.read([3, 1, 2])
    assert data.pages == 3
    assert data.nbytes == 3 * arena.page_bytes
    assert {array.shape[:3] for array in data.arrays.values()} == {(LAYERS, HEADS, 3 * SIZE)}
    for source, target in ((3, 5), (1, 6), (2, 7)):
        arena.copy(PageCopy(source, target))
    other = Arena(LAYERS, HEADS, DIM, SIZE, dtype, bits)
    other.reserve(9, limit=9)
    memory = other.memory([8, 0, 4, 5])
    data.part(1, 2).copy_into(memory(1, 2))
    data.part(0, 1).copy_into(memory(0, 1))
    del memory
    for again in (arena.read([5, 6, 7]), other.read([8, 0, 4])):
        for name, array in data.arrays.items():
            np.testing.assert_array_equal(array, again.arrays[name], name)
    for layer in range(LAYERS):
        for before, after in zip(
            arena.read_layer(layer, [Span(48, 64)]), other.read_layer(layer, [Span(128, 144)]), strict=True
        ):
            assert mx.array_equal(before, after)
            assert mx.any(before != 0)


@BITS
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_an_arena_takes_pages_unless_its_memory_is_hidden(
    bits: int | None, dtype: mx.Dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert takes_pages(DIM, SIZE, dtype, bits)
    monkeypatch.setattr("engine.kv.arena.host_view", np.array)  # a copy
    assert not takes_pages(DIM, SIZE, dtype, bits)


def test_heads_that_cannot_be_quantised_are_refused() -> None:
    with pytest.raises(EngineError, match="80 elements"):
        Arena(LAYERS, HEADS, 80, SIZE, mx.float32, 8)


@pytest.mark.usefixtures("settled_memory")
@BITS
def test_a_write_reuses_the_pool_s_memory(bits: int | None) -> None:
    arena, rng = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32, bits), np.random.default_rng(0)
    arena.reserve(20_000, limit=20_000)
    for step in range(3):
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        for layer in range(LAYERS):
            keys, values = some(rng, 1)
            arena.write_layer(layer, keys, values, [Span(step, step + 1)])
            seen = arena.read_layer(layer, [Span(0, step + 1)])
            mx.eval(seen[0].sum() + seen[1].sum())
            del seen
        assert mx.get_peak_memory() - before < arena.page_bytes * 100


@BITS
def test_released_memory_comes_back_empty(bits: int | None) -> None:
    arena, rng = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32, bits), np.random.default_rng(0)
    arena.reserve(4, limit=4)
    keys, values = some(rng, 2)
    arena.write_layer(0, keys, values, [Span(0, 2)])
    arena.release()
    assert arena.pages == 0
    arena.reserve(1, limit=4)
    assert np.array(arena.read_layer(0, [Span(0, 2)])[0]).tolist() == np.zeros((HEADS, 2, DIM)).tolist()


def test_growth_is_told_with_all_bytes_and_as_it_was_foretold() -> None:
    arena, told = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32), list[tuple[int, float]]()
    arena.grew = lambda nbytes, seconds: told.append((nbytes, seconds))
    for pages in (3, 2, 64, 200, 201, 212):
        foretold = arena.pages_for(pages, 300)
        arena.reserve(pages, 300)
        assert arena.pages == foretold
    assert [nbytes for nbytes, _ in told] == [pages * arena.page_bytes for pages in (64, 212)]
    assert all(seconds > 0 for _, seconds in told)


@pytest.mark.skipif(device_kind() != "CPU", reason="only there threads read pools meanwhile")
@BITS
def test_a_page_is_copied_where_it_lies_though_others_read_the_pools(bits: int | None) -> None:
    arena, rng = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32, bits), np.random.default_rng(0)
    arena.reserve(64, limit=64)
    for layer in range(LAYERS):
        arena.write_layer(layer, *some(rng, SIZE), [Span(SIZE, 2 * SIZE)])
    mx.eval(arena.state())
    views = [np.array(array, copy=False) for array in arena.state()]
    arena.copy(PageCopy(1, 3))
    for layer in range(LAYERS):
        old, new = (arena.read_layer(layer, [Span(page * SIZE, (page + 1) * SIZE)]) for page in (1, 3))
        assert mx.array_equal(old[0], new[0])
        assert mx.array_equal(old[1], new[1])
        assert mx.any(new[0] != 0)
    assert [view.ctypes.data for view in views] == [address(array) for array in arena.state()]


def test_views_are_of_the_pools_as_they_are_now_and_a_write_copies_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.kv.growth.device_kind", lambda: "CUDA")
    rng, arena = np.random.default_rng(0), Arena(LAYERS, HEADS, DIM, SIZE, mx.float32)
    arena.work_in_place([], by_views=True)
    held = arena.pools  # by who computes a chunk in many steps
    for pages in (64, 200):
        arena.reserve(pages, limit=1000)
        data = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32)
        data.reserve(2, limit=2)
        for layer in range(LAYERS):
            data.write_layer(layer, *some(rng, 2 * SIZE), [Span(0, 2 * SIZE)])
        addresses = [address(array) for array in arena.state()]
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        data.read([0, 1]).copy_into(arena.memory([0, 1])(0, 2))
        assert mx.get_peak_memory() - before < arena.pages * arena.page_bytes / (2 * LAYERS)
        assert [address(array) for array in arena.state()] == addresses
        assert held is arena.pools
        assert np.array(held.slots)[0] == arena.pages * SIZE
        for layer in range(LAYERS):
            keys, values = arena.read_layer(layer, [Span(0, SIZE)])
            assert mx.array_equal(held.layer(layer).keys, keys[0])
            assert mx.array_equal(held.layer(layer).values, values[0])
            assert mx.any(keys != 0)


@pytest.mark.usefixtures("settled_memory")
def test_no_view_keeps_what_a_growth_or_its_end_has_replaced() -> None:
    """Of smaller arrays one layer's are there at most when the last of the larger ones are."""
    arena = Arena(8, HEADS, DIM, SIZE, mx.float32)
    arena.work_in_place([], by_views=True)
    arena.reserve(1000, limit=2000)
    before, smaller = mx.get_active_memory(), arena.pages * arena.page_bytes
    mx.reset_peak_memory()
    arena.reserve(2000, limit=2000)
    assert mx.get_peak_memory() - before < arena.pages * arena.page_bytes - smaller / 2
    arena.release()
    mx.synchronize()
    assert mx.get_active_memory() < before - smaller / 2


def broken(folder: Path) -> Callable[[], mx.array]:
    """Arrays that look like any other until they are evaluated."""
    mx.save(str(folder / "broken.npy"), mx.zeros((HEADS, SIZE, DIM)))
    arrays = [mx.load(str(folder / "broken.npy")) for _ in range(3)]
    os.truncate(folder / "broken.npy", 200)
    with pytest.raises(RuntimeError):
        mx.eval(arrays.pop())
    return arrays.pop  # pyright: ignore[reportReturnType]


def test_what_a_launch_broke_is_not_waited_for_any_more_when_all_is_freed(tmp_path: Path) -> None:
    arena = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32)
    arena.work_in_place([])
    arena.reserve(4, limit=4)
    arena.pools.fence = broken(tmp_path)()
    arena.release()
    arena.reserve(4, limit=4)
    assert not any(array.any() for array in arena.read([0, 3]).arrays.values())


@BITS
def test_what_was_written_is_waited_for_in_the_last_layer_and_not_held(
    bits: int | None, tmp_path: Path
) -> None:
    rng, arena = np.random.default_rng(0), Arena(LAYERS, HEADS, DIM, SIZE, mx.float32, bits)
    arena.reserve(4, limit=4)
    addresses = [address(array) for array in arena.state()]
    for _ in range(2):
        for layer in range(LAYERS):
            arena.write_layer(layer, *some(rng, SIZE), [Span(0, SIZE)])
        held = arena.written()
        mx.eval(held)
    assert [address(array) for array in arena.state()] == addresses
    arena.write_layer(LAYERS - 1, *[broken(tmp_path)()] * 2, [Span(0, SIZE)])
    with pytest.raises(RuntimeError):
        mx.eval(arena.written())


def test_kernels_that_come_later_see_the_pools_as_they_are_then() -> None:
    rng, arena = np.random.default_rng(0), Arena(LAYERS, HEADS, DIM, SIZE, mx.float32)
    arena.reserve(4, limit=4)
    for layer in range(LAYERS):
        arena.write_layer(layer, *some(rng, SIZE), [Span(0, SIZE)])
    for by_views in (True, False):
        arena.work_in_place([], by_views=by_views)
        for layer in range(LAYERS):
            keys, _ = arena.read_layer(layer, [Span(0, SIZE)])
            seen = arena.pools.layer(layer).keys
            assert mx.array_equal(seen if by_views else seen[0, :SIZE], keys[0])


def test_the_host_meets_the_arrays_of_each_growth_once() -> None:
    arena, told = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32), list[tuple[int, float]]()
    arena.met = lambda nbytes, seconds: told.append((nbytes, seconds))
    assert arena.meet() == 0
    for pages in (64, 200):
        arena.reserve(pages, limit=1000)
        assert arena.unmet_bytes == arena.pages * arena.page_bytes
        assert arena.meet() > 0
        assert arena.unmet_bytes == arena.meet() == 0
    assert [nbytes for nbytes, _ in told] == [pages * arena.page_bytes for pages in (68, 212)]
    arena.release()
    assert arena.unmet_bytes == 0
