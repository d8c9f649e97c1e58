"""Heads rotated by a product with a matrix, on a CPU, against complex numbers and MLX's own rotation."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest

from engine.graph import operations
from engine.kv import step
from engine.kv.arena import Arena
from engine.kv.page_table import PageTable
from engine.kv.pager import Pager
from engine.kv.step import FunctionalStep
from engine.layers.attention import AttentionLayer
from engine.layers.rope import Rope, attention_magnitude, rope_periods
from engine.loading.config import RopeConfig
from engine.machine import device_kind
from metal.attention_shape import AttentionShape, HeadNorms

pytestmark = pytest.mark.skipif(device_kind() != "CPU", reason="for CPUs only")

LLAMA3 = RopeConfig(kind="llama3", factor=8.0, original_context=64, theta=500000.0)
YARN = RopeConfig(kind="yarn", factor=4.0, original_context=64)
KV_HEADS, DIM = 2, 32


def random(*shape: int, seed: int) -> mx.array:
    return mx.array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("config", [RopeConfig(), LLAMA3, YARN], ids=["plain", "llama3", "yarn"])
@pytest.mark.parametrize("dim", [16, 64, 128])
def test_a_product_rotates_as_complex_numbers_do(config: RopeConfig, dim: int) -> None:
    positions = [0, 1, 63, 64, 1000, 5]
    x = random(len(positions), 3, dim, seed=1)
    found = np.array(x @ Rope(config, dim).turns(positions))
    pairs = np.array(x, np.float64)
    pairs = pairs[..., : dim // 2] + 1j * pairs[..., dim // 2 :]
    angles = np.array(positions)[:, None, None] / np.array(rope_periods(config, dim))
    turned = attention_magnitude(config) * pairs * np.exp(1j * angles)
    # An angle of 1,000 in float32 is off by 3e-5.
    assert np.abs(found - np.concatenate([turned.real, turned.imag], axis=-1)).max() <= 3e-4
    assert np.abs(found - np.concatenate([turned.real, turned.imag], axis=-1))[:2].max() <= 2e-6


@pytest.mark.parametrize("position", [0, 1, 4095, 131071])
def test_it_rotates_by_the_very_angle_of_mlxs_rotation(position: int) -> None:
    """Keys of a chunk and of an answer meet in the same products, however long the chat."""
    rope, x = Rope(RopeConfig(), 64), random(1, 8, 1, 64, seed=2)
    found, theirs = np.array(x.squeeze(2) @ rope.turns([position])), np.array(rope(x, position))
    assert np.abs(found - theirs.reshape(found.shape)).max() <= 1e-6


@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("tokens", [(1,), (1, 1, 1), (3,), (1, 1, 4), (5, 2)])
def test_a_step_stores_and_attends_as_with_mlxs_rotation(
    norms: bool, tokens: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    epsilon = 1e-5 if norms else None
    shape = AttentionShape(6, KV_HEADS, DIM, DIM, 16, mx.float32, 0.2, None, norm_epsilon=epsilon)
    heads = HeadNorms(random(DIM, seed=3), random(DIM, seed=4)) if norms else None
    layer = AttentionLayer(0, shape, Rope(YARN, DIM), heads)
    history = [random(40 + 7 * row, 10 * DIM, seed=5 + row) for row in range(len(tokens))]
    qkv = random(sum(tokens), 10 * DIM, seed=9)

    def run(most: int) -> tuple[np.ndarray, list[np.ndarray], bool]:
        """What comes out, what is stored, and whether MLX rotates in it."""
        monkeypatch.setattr(step, "MOST_TURNED", most)
        arena, pager = Arena(1, KV_HEADS, DIM, 16, mx.float32), Pager(40, 16)
        arena.reserve(40, 40)
        tables = [PageTable() for _ in tokens]
        for table, rows in zip(tables, history, strict=True):
            pager.grow(table, len(rows))
            mx.eval(FunctionalStep(arena, pager, [(table, len(rows))])(layer, rows))
            table.length = len(rows)
        parts = list(zip(tables, tokens, strict=True))
        for table, count in parts:
            pager.grow(table, table.length + count)
        out = FunctionalStep(arena, pager, parts)(layer, qkv)
        rotates = bool(operations([out]).get("mlx.RoPE", 0) or operations([out]).get("mlx.Cos", 0))
        spans = [pager.spans(table, 0, table.length + count) for table, count in parts]
        stored = [np.array(each) for each in spans for each in arena.read_layer(0, each)]
        return np.array(out), stored, rotates

    (found, kept, is_theirs), (theirs, stored, has_theirs) = run(DIM**2 * sum(tokens)), run(0)
    assert (is_theirs, has_theirs) == (False, True)
    np.testing.assert_allclose(found, theirs, atol=2e-6)
    for ours, other in zip(kept, stored, strict=True):
        np.testing.assert_allclose(ours, other, atol=2e-6)
