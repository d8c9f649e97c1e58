"""The arena against a plain numpy array indexed by slot."""

from __future__ import annotations

from threading import Event, current_thread, main_thread
from threading import enumerate as enumerate_threads

import mlx.core as mx
import numpy as np
import pytest

from engine.errors import EngineError
from engine.kv.arena import Arena
from engine.kv.growth import settle
from engine.kv.page_table import PageCopy, Span
from engine.kv.takes_pages import takes_pages
from engine.machine import device_kind

LAYERS, HEADS, DIM, SIZE = 2, 3, 32, 16
BITS = pytest.mark.parametrize("bits", [None, 8, 4])


def some(rng: np.random.Generator, tokens: int) -> tuple[mx.array, mx.array]:
    shape = (HEADS, tokens, DIM)
    return mx.array(rng.standard_normal(shape).astype(np.float32)), mx.array(
        rng.standard_normal(shape).astype(np.float32)
    )


def kept(arena: Arena, rows: mx.array) -> np.ndarray:
    """What is left of rows that are stored."""
    return np.array(arena.coding.decode(arena.coding.encode(rows)))


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
    for pages in (3, 2, 200, 201):
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
    assert [view.ctypes.data for view in views] == [_address(array) for array in arena.state()]


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
        addresses = [_address(array) for array in arena.state()]
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        data.read([0, 1]).copy_into(arena.memory([0, 1])(0, 2))
        assert mx.get_peak_memory() - before < arena.pages * arena.page_bytes / (2 * LAYERS)
        assert [_address(array) for array in arena.state()] == addresses
        assert held is arena.pools
        assert np.array(held.slots)[0] == arena.pages * SIZE
        for layer in range(LAYERS):
            keys, values = arena.read_layer(layer, [Span(0, SIZE)])
            assert mx.array_equal(held.layer(layer).keys, keys[0])
            assert mx.array_equal(held.layer(layer).values, values[0])
            assert mx.any(keys != 0)


def _address(array: mx.array) -> int:
    return np.array(array, copy=False).ctypes.data


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
    assert len(built) == LAYERS * len(arena.growing.arrays)
    assert arena.growing.ahead_bytes == 136 * arena.page_bytes
    addresses = {_address(array) for array in arena.state()}
    assert arena.growing.build_ahead(100, limit=1000)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    arena.reserve(90, limit=1000)
    assert mx.get_peak_memory() - before < arena.page_bytes
    assert (arena.pages, arena.growing.ahead_bytes) == (136, 0)
    assert not addresses & {_address(pool) for pools in arena.growing.arrays.values() for pool in pools}
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


def test_the_thread_that_builds_ends_with_the_arena() -> None:
    before, arena = set(enumerate_threads()), Arena(LAYERS, HEADS, DIM, SIZE, mx.float32)
    assert not arena.growing.build_ahead(10, limit=1000)
    (thread,) = set(enumerate_threads()) - before
    del arena
    thread.join(60)
    assert not thread.is_alive()


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
