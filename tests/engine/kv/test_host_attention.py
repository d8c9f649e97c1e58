"""Attention of a few tokens by the host: against MLX's operations, and against numpy's in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.cpu.crew import Crew
from engine.kv.arena import Arena
from engine.kv.few_queries import FEW, KEYS, most_keys, slots
from engine.kv.host_attention import HostAttention
from engine.kv.page_table import PageTable, Span, token_spans
from engine.kv.pager import Pager
from engine.kv.step import FunctionalStep
from engine.layers import host_math
from engine.layers.attention import AttentionLayer
from engine.layers.rope import Rope
from engine.loading.config import RopeConfig
from engine.machine.machine import device_kind
from metal.attention_shape import AttentionShape, HeadNorms

pytestmark = pytest.mark.skipif(device_kind() != "CPU", reason="for CPUs only")

YARN = RopeConfig(kind="yarn", factor=4.0, original_context=64)
HEADS, KV_HEADS, DIM, SIZE = 6, 2, 32, 16
WIDTH = (HEADS + 2 * KV_HEADS) * DIM


def random(*shape: int, seed: int) -> mx.array:
    return mx.array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def layer_of(*, norms: bool = False, window: int | None = None) -> AttentionLayer:
    epsilon = 1e-5 if norms else None
    shape = AttentionShape(HEADS, KV_HEADS, DIM, DIM, SIZE, mx.float32, 0.2, window, norm_epsilon=epsilon)
    heads = HeadNorms(random(DIM, seed=3), random(DIM, seed=4)) if norms else None
    return AttentionLayer(0, shape, Rope(YARN, DIM), heads)


class World:
    """Sequences of some tokens in pages of one arena; two of equal lengths hold the same."""

    def __init__(
        self,
        layer: AttentionLayer,
        lengths: Sequence[int],
        *,
        bits: int | None = None,
        scattered: bool = False,
    ) -> None:
        self.layer = layer
        self.arena = Arena(1, KV_HEADS, DIM, SIZE, mx.float32, bits)
        self.pager = Pager(400, SIZE)
        self.arena.reserve(400, 400)
        self.tables = [PageTable() for _ in lengths]
        if scattered:  # a page each, in turns
            for length in range(0, max(lengths), SIZE):
                for table, most in zip(self.tables, lengths, strict=True):
                    self.pager.grow(table, min(length + SIZE, most))
        for table, length in zip(self.tables, lengths, strict=True):
            self.pager.grow(table, length)
            if length:
                rows = random(length, WIDTH, seed=100 + length)
                mx.eval(FunctionalStep(self.arena, [(table, length)])(layer, rows))
            table.length = length

    def parts(self, tokens: Sequence[int]) -> list[tuple[PageTable, int]]:
        parts = list(zip(self.tables, tokens, strict=True))
        for table, count in parts:
            self.pager.grow(table, table.length + count)
        return parts

    def stored(self, tokens: Sequence[int]) -> list[np.ndarray]:
        """Keys and values of each sequence, with so many new tokens."""
        spans = [token_spans(table, SIZE, 0, table.length + count) for table, count in self.parts(tokens)]
        return [np.array(each) for span in spans for each in self.arena.read_layer(0, span)]

    def by_host(self, tokens: Sequence[int], qkv: mx.array, crew: Crew | None = None) -> np.ndarray:
        mx.eval(qkv)
        return HostAttention(self.arena, self.parts(tokens), crew)(self.layer, np.array(qkv))

    def by_mlx(self, tokens: Sequence[int], qkv: mx.array) -> np.ndarray:
        return np.array(FunctionalStep(self.arena, self.parts(tokens))(self.layer, qkv))


@pytest.mark.parametrize("window", [None, 1, 20, 1000])
@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("tokens", [(1,), (1, 1, 1), (3,), (8,), (28,), (5, 2), (1, 30, 1)])
def test_it_stores_and_attends_as_mlx_does(norms: bool, tokens: Sequence[int], window: int | None) -> None:
    layer = layer_of(norms=norms, window=window)
    lengths = [40 + 7 * row for row in range(len(tokens))]
    qkv = random(sum(tokens), WIDTH, seed=9)
    ours, theirs = World(layer, lengths), World(layer, lengths)
    np.testing.assert_allclose(ours.by_host(tokens, qkv), theirs.by_mlx(tokens, qkv), atol=2e-6)
    for found, expected in zip(ours.stored(tokens), theirs.stored(tokens), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("tokens", [1, 2, 4, 8, 64])
@pytest.mark.parametrize("length", [0, KEYS - 1, KEYS, 2 * KEYS + 5])
def test_keys_that_are_met_in_several_pieces(length: int, tokens: int, scattered: bool) -> None:
    layer, counts = layer_of(), (tokens, 1)
    qkv = random(tokens + 1, WIDTH, seed=9)
    ours, theirs = (World(layer, [length, 300], scattered=scattered) for _ in range(2))
    np.testing.assert_allclose(ours.by_host(counts, qkv), theirs.by_mlx(counts, qkv), atol=3e-6)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("window", [None, 30])
@pytest.mark.parametrize("tokens", [(1,), (1, 1), (4, 20)])
def test_pages_may_be_quantised(tokens: Sequence[int], window: int | None, bits: int) -> None:
    layer, qkv = layer_of(window=window), random(sum(tokens), WIDTH, seed=9)
    lengths = [70 + 9 * row for row in range(len(tokens))]
    ours, theirs = (World(layer, lengths, bits=bits, scattered=True) for _ in range(2))
    # A key that is rounded another way is a step of its codes away.
    most = 2e-2 if bits == 8 else 0.3
    np.testing.assert_allclose(ours.by_host(tokens, qkv), theirs.by_mlx(tokens, qkv), atol=most)


@pytest.mark.parametrize("window", [None, 20])
@pytest.mark.parametrize("bits", [None, 8])
@pytest.mark.parametrize("rows", [1, 3])
def test_of_a_part_s_last_tokens(rows: int, bits: int | None, window: int | None) -> None:
    layer, qkv = layer_of(window=window), random(30, WIDTH, seed=9)
    ours, all_of_them = (World(layer, [300], bits=bits) for _ in range(2))
    mx.eval(qkv)
    attention = HostAttention(ours.arena, ours.parts((30,)))
    found = attention.last(layer, np.array(qkv), rows)
    np.testing.assert_allclose(found, all_of_them.by_host((30,), qkv)[-rows:], atol=2e-6)
    for one, other in zip(ours.stored((30,)), all_of_them.stored((30,)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("tokens", [(3,), (28,), (9, 1)])
def test_a_crew_may_share_heads(tokens: Sequence[int], size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, qkv = layer_of(window=300), random(sum(tokens), WIDTH, seed=9)
    lengths = [400 + 9 * row for row in range(len(tokens))]
    ours, theirs = World(layer, lengths), World(layer, lengths)
    expected = theirs.by_mlx(tokens, qkv)
    shared = list[int]()

    class Counting(Crew):
        def each(self, pieces: int, *others: Any, **options: Any) -> None:
            shared.append(pieces)
            super().each(pieces, *others, **options)

    monkeypatch.setattr(host_math, "WORTH", 1)
    np.testing.assert_allclose(ours.by_host(tokens, qkv, Counting(size)), expected, atol=3e-6)
    assert shared == [KV_HEADS] * len(tokens)


def test_what_is_not_finite_is_no_news_to_a_crew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a warning: a request ends where its logits are found not to be finite."""
    monkeypatch.setattr(host_math, "WORTH", 1)
    world, qkv = World(layer_of(), [400]), np.array(random(9, WIDTH, seed=9))
    qkv[-1] = np.inf
    with np.errstate(invalid="ignore"):
        found = world.by_host((9,), mx.array(qkv), Crew(2))
    assert np.isnan(found[-1]).all()


def test_it_is_attention_in_float64() -> None:
    layer = AttentionLayer(
        0, AttentionShape(4, 4, DIM, DIM, SIZE, mx.float32, 0.3, None), Rope(RopeConfig(), DIM), None
    )
    arena, pager, table = Arena(1, 4, DIM, SIZE, mx.float32), Pager(80, SIZE), PageTable()
    arena.reserve(80, 80)
    pager.grow(table, 1100)
    keys, values = arena.on_host(0)
    spans = token_spans(table, SIZE, 0, 1100)
    rng = np.random.default_rng(1)
    for pool in (keys, values):
        for span in spans:
            pool[:, span.begin : span.end] = rng.standard_normal((4, span.length, DIM)) * 3
    table.length = 1099
    del keys, values, pool
    qkv = random(1, 12 * DIM, seed=2)
    out = HostAttention(arena, [(table, 1)])(layer, np.array(qkv))
    k64, v64 = (np.array(each, np.float64) for each in arena.read_layer(0, spans))
    q = np.array(
        layer.rope(random(1, 12 * DIM, seed=2)[:, : 4 * DIM].reshape(1, 4, 1, DIM), 1099), np.float64
    )
    scores = 0.3 * q[0] @ k64.swapaxes(1, 2)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = (weights / weights.sum(axis=-1, keepdims=True)) @ v64
    rounding = np.abs(scores).max() * np.finfo(np.float32).eps  # of a score, and so relatively of a weight
    assert np.abs(out - expected.reshape(1, -1)).max() < rounding * np.abs(v64).max()


def test_scores_may_be_as_large_as_they_like() -> None:
    layer, world = layer_of(), World(layer_of(), [50])
    qkv = 1e4 * random(1, WIDTH, seed=9)
    found, expected = world.by_host((1,), qkv), World(layer, [50]).by_mlx((1,), qkv)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_what_is_not_finite_spoils_no_other() -> None:
    world, tokens = World(layer_of(), [40, 50]), (1, 1)
    qkv = np.array(random(2, WIDTH, seed=9))
    expected = World(layer_of(), [40, 50]).by_host(tokens, mx.array(qkv))
    qkv[0] = np.nan
    with np.errstate(invalid="ignore"):
        found = world.by_host(tokens, mx.array(qkv))
    assert np.isnan(found[0]).all()
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize(("rows", "most"), [(1, KEYS), (2, 512), (8, 128), (9, 1736), (56, 279), (122, 128)])
def test_few_rows_meet_so_many_keys_that_blas_copies_none(rows: int, most: int) -> None:
    assert most_keys(rows, 64) == most
    if rows <= FEW:
        assert rows * most <= host_math.TURNED_AT_ONCE
    else:
        assert rows * most * 64 <= host_math.AT_ONCE


def test_rows_for_which_it_copies_them_anyway_meet_all_keys_at_once() -> None:
    assert most_keys(123, 64) > 1 << 24


def test_slots_are_those_of_the_spans_in_order() -> None:
    spans = [Span(0, 16), Span(32, 48), Span(100, 300), Span(16, 17), Span(400, 464), Span(600, 616)]
    pieces = slots(spans, 64)
    everything = np.arange(1000)
    listed = np.concatenate([everything[piece] for piece in pieces])
    assert listed.tolist() == [slot for span in spans for slot in range(span.begin, span.end)]
    assert max(len(everything[piece]) for piece in pieces) == 64
    assert [isinstance(piece, slice) for piece in pieces] == [False, *[True] * 4, False, True, False]
    assert slots([Span(5, 6)], 64) == [slice(5, 6)]
