"""Heads normed and rotated by the host against numpy's in float64, and against MLX's operations."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from engine.cpu.crew import Crew
from engine.kv.heads import heads_on_host, rotated_heads
from engine.layers import host_math
from engine.layers.attention import AttentionLayer
from engine.layers.host_math import normalised, rotated
from engine.layers.linear import Linear
from engine.layers.norm import RMSNorm
from engine.layers.ops import BuiltinOps
from engine.layers.rope import Rope, attention_magnitude, rope_periods
from engine.layers.waiting_ops import WaitingOps
from engine.loading.config import RopeConfig
from engine.machine.machine import device_kind
from metal.attention_shape import AttentionShape, HeadNorms

pytestmark = pytest.mark.skipif(device_kind() != "CPU", reason="for CPUs only")

YARN = RopeConfig(kind="yarn", factor=4.0, original_context=64)
EPS = 1e-5


def random(*shape: int, seed: int) -> mx.array:
    return mx.array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def normed64(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return weight * x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + EPS)


@pytest.mark.parametrize("rows", [1, 255, 256, 257, 1000])
def test_a_norm_of_any_number_of_rows(rows: int) -> None:
    """256 of them are worked on at a time."""
    x, weight = 5 * random(rows, 256, seed=rows), random(256, seed=0)
    before = np.array(x)
    np.testing.assert_allclose(normalised(x, weight, EPS), normed64(before, np.array(weight)), rtol=2e-6)
    np.testing.assert_array_equal(np.array(x), before)


def test_a_row_that_is_not_finite_spoils_no_other() -> None:
    x = np.array(random(4, 64, seed=1))
    x[1, 5], x[2, 7], x[3] = np.nan, np.inf, 1e30  # whose squares are infinite
    found = np.array(normalised(mx.array(x), mx.ones(64), EPS))
    np.testing.assert_allclose(found[0], normed64(x[:1], np.ones(64))[0], rtol=2e-6)
    assert np.isnan(found[1]).all()
    theirs = np.array(mx.fast.rms_norm(mx.array(x), mx.ones(64), EPS))
    np.testing.assert_array_equal(found[2:], theirs[2:])


def test_a_norm_of_zeros_is_zero() -> None:
    assert not np.array(normalised(mx.zeros((3, 64)), mx.ones(64), EPS)).any()


@pytest.mark.parametrize("config", [RopeConfig(), YARN], ids=["plain", "yarn"])
@pytest.mark.parametrize("start", [0, 70])
def test_it_rotates_as_complex_numbers_do(config: RopeConfig, start: int) -> None:
    dim, tokens = 64, 103
    x, rope = np.array(random(2, tokens, dim, seed=2)), Rope(config, dim)
    pairs = x[..., : dim // 2].astype(np.float64) + 1j * x[..., dim // 2 :]
    positions = np.arange(start, start + tokens)
    turned = pairs * np.exp(1j * positions[:, None] / np.array(rope_periods(config, dim)))
    turned *= attention_magnitude(config)
    found = np.stack([rotated(head, *rope.angles(range(start, start + tokens))) for head in x])
    # An angle of 1,000 in float32 is off by 3e-5.
    assert np.abs(found - np.concatenate([turned.real, turned.imag], axis=-1)).max() <= 3e-4


@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (1, 1), (6, 1)])
@pytest.mark.parametrize("tokens", [1, 2, 300])
def test_heads_are_what_mlx_makes_of_them(norms: bool, heads: int, kv_heads: int, tokens: int) -> None:
    dim, start = 32, 17
    epsilon = EPS if norms else None
    shape = AttentionShape(heads, kv_heads, dim, dim, 16, mx.float32, 0.2, None, norm_epsilon=epsilon)
    weights = HeadNorms(random(dim, seed=3), random(dim, seed=4)) if norms else None
    layer = AttentionLayer(0, shape, Rope(YARN, dim), weights)
    qkv = random(tokens, (heads + 2 * kv_heads) * dim, seed=5)
    theirs = rotated_heads(layer, qkv[None], start)
    mx.eval(theirs)
    ours = heads_on_host(layer, qkv, layer.rope.angles(range(start, start + tokens)), Crew(2))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other.squeeze(0)), atol=3e-6)


@pytest.mark.parametrize("rows", [host_math.MANY // 64 - 1, host_math.MANY // 64])
def test_ops_that_wait_norm_as_others_do(rows: int) -> None:
    """On both sides of the size from which the host does."""
    x, norm, product = random(rows, 64, seed=6), RMSNorm(random(64, seed=7), EPS), random(64, 96, seed=8)

    def linear(x: mx.array) -> mx.array:
        return x @ product

    def results(ops: BuiltinOps, linear: Linear) -> list[np.ndarray]:
        return [np.array(ops.project(x, norm, linear)), np.array(ops.gated(x, norm, linear))]

    for ours, theirs in zip(results(WaitingOps(), linear), results(BuiltinOps(), linear), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-5)
