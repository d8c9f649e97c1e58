"""The arena against a plain numpy array indexed by slot."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from engine.kv.arena import Arena
from engine.kv.pager import Span

LAYERS, HEADS, DIM, SIZE = 2, 3, 4, 16


def some(rng: np.random.Generator, tokens: int) -> tuple[mx.array, mx.array]:
    shape = (HEADS, tokens, DIM)
    return mx.array(rng.standard_normal(shape).astype(np.float32)), mx.array(
        rng.standard_normal(shape).astype(np.float32)
    )


def test_what_is_written_is_read_back_in_token_order_through_growth() -> None:
    rng, arena = np.random.default_rng(0), Arena(LAYERS, HEADS, DIM, SIZE, mx.float32)
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
            plain[layer, 0][:, slots], plain[layer, 1][:, slots] = np.array(keys), np.array(values)
        mx.eval(arena.state())
    for layer in range(LAYERS):
        for spans in ([Span(0, 60)], [Span(900, 1000), Span(3, 11)]):
            slots = [slot for span in spans for slot in range(span.begin, span.end)]
            keys, values = arena.read_layer(layer, spans)
            np.testing.assert_array_equal(np.array(keys), plain[layer, 0][:, slots])
            np.testing.assert_array_equal(np.array(values), plain[layer, 1][:, slots])


def test_a_page_s_bytes_are_what_the_arrays_take() -> None:
    arena = Arena(LAYERS, HEADS, DIM, SIZE, mx.float16)
    arena.reserve(100, limit=100)
    pools = arena.pools
    assert sum(array.nbytes for array in [*pools.keys, *pools.values]) == 100 * arena.page_bytes


def test_a_write_reuses_the_pool_s_memory() -> None:
    arena, rng = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32), np.random.default_rng(0)
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


def test_released_memory_comes_back_empty() -> None:
    arena, rng = Arena(LAYERS, HEADS, DIM, SIZE, mx.float32), np.random.default_rng(0)
    arena.reserve(4, limit=4)
    keys, values = some(rng, 2)
    arena.write_layer(0, keys, values, [Span(0, 2)])
    arena.release()
    assert arena.pages == 0
    arena.reserve(1, limit=4)
    assert np.array(arena.read_layer(0, [Span(0, 2)])[0]).tolist() == np.zeros((HEADS, 2, DIM)).tolist()
