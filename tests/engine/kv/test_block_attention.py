"""Attention in pieces against numpy's in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from engine.cpu.crew import Crew
from engine.kv import block_attention
from engine.kv.arena import Arena
from engine.kv.block_attention import FEWEST_QUERIES, ROWS, SCORES, attend_in_blocks
from engine.kv.page_table import PageTable
from engine.kv.pager import Pager
from engine.kv.step import FunctionalStep
from engine.layers.attention import AttentionLayer
from engine.layers.rope import Rope
from engine.loading.config import RopeConfig
from engine.machine.machine import device_kind
from metal.attention_shape import AttentionShape

pytestmark = pytest.mark.skipif(device_kind() != "CPU", reason="for CPUs only")

DIM, SCALE = 16, 0.25
KV_HEADS = 2
CREW = Crew(2)
KEYS, QUERIES = 256, 130
"""Of a part, where it is made so small, and of one piece: enough that keys are met in parts."""


def random(*shape: int, seed: int, size: float = 1.0) -> mx.array:
    return mx.array((size * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32))


def parted(*arrays: mx.array) -> list[list[np.ndarray]]:
    """Each of (heads, n, head_dim) in two parts, one of a third of it."""
    return [np.array_split(np.array(array), [array.shape[1] // 3], axis=1) for array in arrays]


def expected(q: mx.array, keys: mx.array, values: mx.array, window: int | None) -> np.ndarray:
    """All of it at once, in float64."""
    q64, k64, v64 = (np.array(each, dtype=np.float64) for each in (q, keys, values))
    group, tokens, seen = q.shape[0] // keys.shape[0], q.shape[1], keys.shape[1]
    scores = SCALE * q64 @ np.repeat(k64, group, axis=0).swapaxes(1, 2)
    position, key = np.arange(seen - tokens, seen)[:, None], np.arange(seen)
    hidden = (key > position) | (False if window is None else key <= position - window)
    scores[:, hidden] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    out = weights @ np.repeat(v64, group, axis=0) / weights.sum(axis=-1, keepdims=True)
    return out.swapaxes(0, 1).reshape(tokens, -1)


def assert_right(
    heads: int, history: int, tokens: int, window: int | None, *, size: float = 1.0, most: float = 1e-5
) -> None:
    q = random(heads, tokens, DIM, seed=1, size=size)
    keys = random(KV_HEADS, history + tokens, DIM, seed=2, size=size)
    values = random(KV_HEADS, history + tokens, DIM, seed=3)
    found = np.array(attend_in_blocks(q, *parted(keys, values), SCALE, window, CREW))
    assert np.abs(found - expected(q, keys, values, window)).max() <= most


@pytest.mark.parametrize("heads", [2, 4, 16])
@pytest.mark.parametrize("history", [0, 1, 75])
@pytest.mark.parametrize("window", [None, 1, 9, 76, 1000])
def test_of_any_heads_history_and_window(heads: int, history: int, window: int | None) -> None:
    for tokens in (1, 2, 33):
        assert_right(heads, history, tokens, window)


@pytest.mark.parametrize("window", [None, 40, ROWS // 2, ROWS // 2 + 1])
@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_where_pieces_end(pieces: int, more: int, window: int | None) -> None:
    assert_right(4, 70, pieces * ROWS // 2 + more, window)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_where_the_smallest_pieces_end(more: int) -> None:
    assert_right(4, 70, 2 * FEWEST_QUERIES + more, None)
    assert_right(4, 70, 2 * FEWEST_QUERIES + more, 50)


@pytest.mark.parametrize("window", [None, 1, 90, KEYS - 1, KEYS, KEYS + 1, 1500])
@pytest.mark.parametrize(
    "history", [KEYS - QUERIES - 1, KEYS - QUERIES, KEYS - QUERIES + 1, 2 * KEYS, 3 * KEYS - 1]
)
def test_where_keys_are_met_in_parts(
    history: int, window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of queries that see all of a part, some of it, and none."""
    monkeypatch.setattr(block_attention, "SCORES", KEYS * 2 * QUERIES)
    assert_right(4, history, QUERIES, window)


@pytest.mark.parametrize("size", [1, 3])
def test_by_any_number_of_threads(size: int) -> None:
    q, keys, values = (random(2, 700, DIM, seed=seed) for seed in (1, 2, 3))
    found = np.array(attend_in_blocks(q, *parted(keys, values), SCALE, None, Crew(size)))
    assert np.abs(found - expected(q, keys, values, None)).max() <= 1e-5


def test_scores_of_ten_thousand_stay_finite() -> None:
    """Most weights are 0 or 1 then. Where two scores are close, float32 of that size is too coarse."""
    q, keys = random(2, 200, DIM, seed=1, size=100), random(KV_HEADS, 200, DIM, seed=2, size=100)
    scores = SCALE * np.array(q @ keys.swapaxes(1, 2))
    assert np.abs(scores).max() > 1e4
    assert_right(2, 0, 200, None, size=100, most=2e-2)


def test_what_is_not_finite_stays_in_its_row() -> None:
    q, keys, values = (random(2, 64, DIM, seed=seed) for seed in (1, 2, 3))
    q[0, 5, 0] = float("inf")
    found = np.isfinite(np.array(attend_in_blocks(q, *parted(keys, values), SCALE, None, CREW))).all(axis=-1)
    assert [int(token) for token in np.flatnonzero(~found)] == [5]


def test_what_scores_take_does_not_grow_with_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, hide = list[int](), block_attention._hide

    def note(scores: np.ndarray, own: int, window: int | None) -> None:
        sizes.append(scores.size)
        hide(scores, own, window)

    monkeypatch.setattr(block_attention, "_hide", note)
    q = random(4, 600, DIM, seed=1)
    keys, values = (random(KV_HEADS, 5000, DIM, seed=seed) for seed in (2, 3))
    attend_in_blocks(q, *parted(keys, values), SCALE, None, CREW)
    assert SCORES // 4 < max(sizes) <= SCORES


@pytest.mark.parametrize("bits", [None, 8])
@pytest.mark.parametrize("window", [None, 50])
def test_a_step_that_waits_equals_one_that_does_not(bits: int | None, window: int | None) -> None:
    shape = AttentionShape(4, KV_HEADS, 32, 32, 16, mx.float32, SCALE, window, None)
    layer = AttentionLayer(0, shape, Rope(RopeConfig(), 32), None)
    arena, pager, table, other = (
        Arena(1, KV_HEADS, 32, 16, mx.float32, bits),
        Pager(40, 16),
        PageTable(),
        PageTable(),
    )
    arena.reserve(40, 40)
    for tokens in (60, 100, 1, 200):
        pager.grow(other, other.length + 16)  # so that pages are no neighbours
        other.length += 16
        pager.grow(table, table.length + tokens)
        qkv = random(tokens, 8 * 32, seed=tokens)
        outs = [
            np.array(FunctionalStep(arena, [(table, tokens)], crew=crew)(layer, qkv)) for crew in (None, CREW)
        ]
        np.testing.assert_allclose(outs[1], outs[0], atol=2e-6)
        table.length += tokens


@pytest.mark.parametrize("window", [None, 900])
def test_scores_of_earlier_keys_may_be_so_much_larger_that_exponentials_overflow(
    window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are met first are each query's own and some before; one far before is 300 times as large."""
    monkeypatch.setattr(block_attention, "SCORES", KEYS * 2 * QUERIES)
    q, values = random(4, 300, DIM, seed=1), random(KV_HEADS, 1500, DIM, seed=3)
    keys = np.array(random(KV_HEADS, 1500, DIM, seed=2))
    keys[:, 650] *= 300
    found = np.array(attend_in_blocks(q, *parted(mx.array(keys), values), SCALE, window, CREW))
    exact = expected(q, mx.array(keys), values, window)
    assert np.isfinite(found).all()
    assert np.abs(found - exact).max() <= 2e-4  # a score of 300 is off by 3e-5
    assert np.abs(exact - np.array(values)[:, 650].repeat(2, axis=0).reshape(-1)).min() < 1e-6


def test_queries_that_are_not_finite_spoil_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_attention, "SCORES", KEYS * 2 * QUERIES)
    q = np.array(random(4, 300, DIM, seed=1))
    keys, values = random(KV_HEADS, 700, DIM, seed=2), random(KV_HEADS, 700, DIM, seed=3)
    right = np.array(attend_in_blocks(mx.array(q), *parted(keys, values), SCALE, None, CREW))
    q[1, 7] = np.nan
    found = np.array(attend_in_blocks(mx.array(q), *parted(keys, values), SCALE, None, CREW))
    assert np.isnan(found[7, DIM : 2 * DIM]).all()
    found[7, DIM : 2 * DIM] = right[7, DIM : 2 * DIM]
    np.testing.assert_allclose(found, right, atol=2e-6)
