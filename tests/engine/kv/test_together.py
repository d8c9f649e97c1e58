"""A token each of several sequences: those that see little attend at once, and each sees its own alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest

from engine.cpu.host_view import host_view
from engine.kv import together
from engine.kv.arena import Arena
from engine.kv.page_table import PageTable, token_spans
from engine.kv.pager import Pager
from engine.kv.step import FunctionalStep
from engine.kv.together import Beside, Together
from engine.layers.attention import AttentionLayer
from engine.layers.rope import Rope
from engine.loading.config import RopeConfig
from engine.steps.graph import operations
from metal.attention_shape import AttentionShape

KV_HEADS, DIM, PAGE, PAGES = 2, 32, 16, 200


def shape_of(heads: int = 4, window: int | None = None, dtype: mx.Dtype = mx.float32) -> AttentionShape:
    return AttentionShape(heads, KV_HEADS, DIM, DIM, PAGE, dtype, 0.2, window, None)


def values(*shape: int, seed: int) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed))


class World:
    """Sequences whose pages lie among each other's."""

    def __init__(
        self,
        lengths: Sequence[int],
        layer: AttentionLayer,
        bits: int | None = None,
        *,
        scattered: bool = True,
    ) -> None:
        self.layer = layer
        self.arena = Arena(1, KV_HEADS, DIM, PAGE, layer.shape.dtype, bits)
        self.pager = Pager(PAGES, PAGE)
        self.arena.reserve(PAGES, PAGES)
        self.tables = [PageTable() for _ in lengths]
        grown = [0] * len(lengths)
        rows = [values(length, self.width, seed=20 + row) for row, length in enumerate(lengths)]
        chance = random.Random(1)
        while left := [row for row, length in enumerate(lengths) if grown[row] < length]:
            row = chance.choice(left) if scattered else left[0]
            grown[row] = min(lengths[row], grown[row] + (PAGE if scattered else lengths[row]))
            self.pager.grow(self.tables[row], grown[row])
        for table, row in zip(self.tables, rows, strict=True):
            self._write(table, row)

    @property
    def width(self) -> int:
        return (self.layer.shape.heads + 2 * KV_HEADS) * DIM

    def step(self) -> tuple[mx.array, FunctionalStep]:
        """The next token of all at once; their tables stay."""
        qkv = values(len(self.tables), self.width, seed=9).astype(self.layer.shape.dtype)
        for table in self.tables:
            self.pager.grow(table, table.length + 1)
        step = FunctionalStep(self.arena, [(table, 1) for table in self.tables])
        return step(self.layer, qkv), step

    def one_by_one(self) -> mx.array:
        qkv = values(len(self.tables), self.width, seed=9).astype(self.layer.shape.dtype)
        return mx.concatenate(
            [
                FunctionalStep(self.arena, [(table, 1)])(self.layer, qkv[row : row + 1])
                for row, table in enumerate(self.tables)
            ]
        )

    def _write(self, table: PageTable, rows: mx.array) -> None:
        rows = rows.astype(self.layer.shape.dtype)
        mx.eval(FunctionalStep(self.arena, [(table, len(rows))])(self.layer, rows))
        table.length = len(rows)


def layer_of(shape: AttentionShape) -> AttentionLayer:
    return AttentionLayer(0, shape, Rope(RopeConfig(), DIM), None)


@pytest.mark.parametrize("bits", [None, 8, 4])
@pytest.mark.parametrize("window", [None, 21])
@pytest.mark.parametrize("heads", [2, 4, 18])
def test_all_at_once_are_what_each_is_alone(heads: int, window: int | None, bits: int | None) -> None:
    world = World([70, 3, 150, 90, 1, 100, 129], layer_of(shape_of(heads, window)), bits)
    out, step = world.step()
    groups = [group.members for group in step._beside[window].groups]
    assert groups == ([[0, 3, 5], [1, 4], [2, 6]] if window is None else [[0, 1, 2, 3, 4, 5, 6]])
    np.testing.assert_allclose(np.array(out), np.array(world.one_by_one()), atol=3e-6)


@pytest.mark.parametrize(("dtype", "most"), [(mx.float32, 2e-6), (mx.float16, 2e-3)])
def test_it_is_attention_in_float64(dtype: mx.Dtype, most: float) -> None:
    shape = shape_of(dtype=dtype)
    world = World([40, 64, 17], layer_of(shape))
    seen = [token_spans(table, PAGE, 0, table.length) for table in world.tables]
    q = values(3, shape.heads, 1, DIM, seed=3).astype(dtype)
    found = np.array(Together(world.arena, [0, 1, 2], seen).attend(0, shape, q).astype(mx.float32))
    for row, spans in enumerate(seen):
        keys, stored = (
            np.repeat(np.array(each.astype(mx.float32)).astype(np.float64), shape.group, axis=0)
            for each in world.arena.read_layer(0, spans)
        )
        rows = np.array(q[row].astype(mx.float32)).astype(np.float64)
        scores = shape.scale * rows @ keys.swapaxes(1, 2)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        right = (weights / weights.sum(axis=-1, keepdims=True)) @ stored
        np.testing.assert_allclose(found[row], right.reshape(-1), atol=most)


def test_what_others_have_left_behind_a_sequence_does_not_reach_it() -> None:
    world = World([40, 90, 17], layer_of(shape_of()))
    expected = np.array(world.one_by_one())
    used = {
        slot
        for table in world.tables
        for span in token_spans(table, PAGE, 0, table.length)
        for slot in range(span.begin, span.end)
    }
    for pool in world.arena.state()[:2]:
        host = host_view(pool)
        host[:, [slot for slot in range(host.shape[1]) if slot not in used]] = np.nan
    np.testing.assert_allclose(np.array(world.step()[0]), expected, atol=3e-6)


def test_a_step_of_more_sequences_launches_no_more() -> None:
    def launched(count: int) -> int:
        return sum(operations([World([70] * count, layer_of(shape_of())).step()[0]]).values())

    assert launched(12) == launched(3)


def test_who_sees_much_in_a_row_attends_to_it_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([200, 40, 300, 50], layer_of(shape_of()), scattered=False)
    token_bytes = 2 * KV_HEADS * DIM * 4
    monkeypatch.setattr(together, "WORTH_ALONE", 250 * token_bytes)
    out, step = world.step()
    assert (step._beside[None].alone, [group.members for group in step._beside[None].groups]) == (
        [0, 2],
        [[1, 3]],
    )
    np.testing.assert_allclose(np.array(out), np.array(world.one_by_one()), atol=3e-6)


def test_who_would_copy_too_much_attends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([200, 210, 300, 310], layer_of(shape_of()))
    seen = [token_spans(table, PAGE, 0, table.length) for table in world.tables]
    monkeypatch.setattr(together, "MOST_COPIED", 250 * world.arena.token_bytes)
    beside = Beside(world.arena, seen)
    assert ([group.members for group in beside.groups], beside.alone, beside.order) == (
        [[0, 1]],
        [2, 3],
        None,
    )
