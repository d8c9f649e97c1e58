"""Attention in float64, and what agreement makes of it when it looks at some rows."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from metal import exact_attention, reference_attention
from metal.attention_shape import AttentionShape
from metal.candidates_scene import Attention, make_scene
from metal.trial_case import SomeRows, relative_error

ATTENTIONS = [
    Attention(6, 2, 64, "float32", "30", "5"),
    Attention(4, 4, 64, "float32", "3", "20", window=7),
    Attention(4, 1, 64, "float32", "9", "4", softcap=2.0, sinks=True),
]


@pytest.mark.parametrize("attention", ATTENTIONS, ids=lambda one: one.words)
def test_it_is_what_mlx_computes_of_whichever_rows(attention: Attention) -> None:
    shape: AttentionShape = attention.shape
    (before,), (new,) = attention.lengths()
    random = np.random.default_rng(0)
    q, k, v = (
        random.normal(size=(before + new, heads, 64)) for heads in (shape.heads, *[shape.kv_heads] * 2)
    )
    sinks = random.normal(size=shape.heads) if shape.sinks else None
    expected = reference_attention.attend(
        mx.array(q[before:], mx.float32),
        *(mx.array(part.transpose(1, 0, 2), mx.float32) for part in (k, v)),
        shape,
        None if sinks is None else mx.array(sinks, mx.float32),
    )
    positions = before + np.array([0, 1, new - 1])
    found = exact_attention.attend(q[positions], k, v, positions, shape, sinks)
    assert np.allclose(np.array(expected)[positions - before], found, atol=1e-5)


@pytest.mark.parametrize("new", [224, 225, 256])
def test_a_scene_looks_at_each_tile_and_at_each_row_of_a_tile(new: int) -> None:
    out = make_scene(Attention(1, 1, 64, "float32", "16,3", f"{new},2"), 512).out
    rows = out.rows[out.rows < new]
    assert {*rows // 8} == {*range(-(-new // 8))}
    assert {*rows % 32} == {*range(32)}
    assert len(rows) == new or len(rows) < new / 2 + 8
    assert {*out.rows[out.rows >= new]} == {new, new + 1}
    assert (out.total, out.values.shape) == (new + 2, (len(out.rows), 64))


def test_rows_that_are_not_looked_at_must_be_finite() -> None:
    right = np.arange(12.0).reshape(6, 2)
    expected = SomeRows(np.array([0, 5]), right[[0, 5]], 6)

    def error(row: int, value: float) -> float:
        changed = right.copy()
        changed[row, 1] = value
        return relative_error(mx.array(changed, mx.float32), expected)

    assert error(3, 100.0) == 0.0
    assert error(5, 0.0) == 1.0
    assert error(3, math.inf) == math.inf
    assert math.isnan(error(3, math.nan))
    assert relative_error(mx.array(right[:5], mx.float32), expected) == math.inf
