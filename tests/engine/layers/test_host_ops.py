"""The linear parts of a few tokens in the host's memory, against MLX's and against numpy's in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from engine.cpu.crew import Crew
from engine.layers import host_math
from engine.layers.host_math import FEWEST_COLUMNS, TURNED_AT_ONCE
from engine.layers.host_ops import FEW, HostOps, times
from engine.layers.linear import DenseEmbedding, DenseLinear, JoinedLinear, Linear
from engine.layers.norm import RMSNorm
from engine.layers.ops import BuiltinOps
from engine.machine.machine import device_kind

pytestmark = pytest.mark.skipif(device_kind() != "CPU", reason="for CPUs only")

INPUTS = 24


def random(*shape: int, seed: int) -> mx.array:
    return mx.array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def dense(outputs: int, *, bias: bool = False) -> DenseLinear:
    return DenseLinear(random(outputs, INPUTS, seed=3), random(outputs, seed=4) if bias else None)


class Doubled:
    """Of packed weights it is only known how MLX multiplies by them."""

    def __call__(self, x: mx.array) -> mx.array:
        return mx.concatenate([2 * x, x], axis=-1)


@pytest.mark.parametrize(
    "rows", [1, FEW, FEW + 1, TURNED_AT_ONCE // FEWEST_COLUMNS, TURNED_AT_ONCE // FEWEST_COLUMNS + 1]
)
@pytest.mark.parametrize("outputs", [2, 30, 600, 1030])
@pytest.mark.parametrize("kind", ["plain", "bias", "joined", "packed"])
def test_they_give_what_mlx_gives(rows: int, outputs: int, kind: str) -> None:
    linear: Linear = dense(outputs, bias=kind == "bias")
    if kind == "joined":
        linear = JoinedLinear([dense(outputs // 2), dense(outputs - outputs // 2, bias=True)])
    if kind == "packed":
        linear, outputs = Doubled(), 2 * INPUTS
    x, residual, norm = (
        random(rows, INPUTS, seed=1),
        random(rows, outputs, seed=5),
        RMSNorm(random(INPUTS, seed=2), 1e-5),
    )
    ours, theirs, given = HostOps(), BuiltinOps(), np.array(x)
    np.testing.assert_allclose(ours.project(given, norm, linear), theirs.project(x, norm, linear), atol=3e-5)
    np.testing.assert_allclose(ours.gated(given, norm, linear), theirs.gated(x, norm, linear), atol=3e-4)
    np.testing.assert_allclose(
        ours.add(np.array(residual), given, linear), theirs.add(residual, x, linear), atol=3e-5
    )
    logits = ours.logits(given, norm, linear)
    assert logits.dtype == mx.float32
    np.testing.assert_allclose(np.array(logits), theirs.logits(x, norm, linear), atol=3e-5)
    np.testing.assert_array_equal(given, np.array(x))


@pytest.mark.parametrize("rows", range(1, 70))
def test_a_product_of_few_rows_in_pieces_is_the_product(rows: int) -> None:
    x, weight = np.array(random(rows, 40, seed=1)), np.array(random(1500, 40, seed=2))
    exact = x.astype(np.float64) @ weight.astype(np.float64).T
    assert np.abs(times(x, weight) - exact).max() <= 4e-5


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("rows", [FEW, FEW + 1, 28, 64])
def test_a_crew_may_share_its_columns(rows: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_math, "WORTH", 1 << 10)
    x, weight = np.array(random(rows, 40, seed=1)), np.array(random(1501, 40, seed=2))
    exact = x.astype(np.float64) @ weight.astype(np.float64).T
    assert np.abs(times(x, weight, Crew(size)) - exact).max() <= 4e-5


def test_embeddings_are_looked_up_plain_or_packed() -> None:
    table, ids = random(9, INPUTS, seed=1), mx.array([3, 0, 8, 3], dtype=mx.uint32)

    class Packed:
        dtype = mx.float16

        def __call__(self, tokens: mx.array) -> mx.array:
            return table[tokens].astype(mx.float16)

        def as_linear(self) -> Linear:
            return DenseLinear(table, None)

    expected = np.array(table)[np.array(ids)]
    np.testing.assert_array_equal(HostOps().embed(ids, DenseEmbedding(table)), expected)
    found = HostOps().embed(ids, Packed())
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected.astype(np.float16).astype(np.float32))


def test_a_step_changes_no_weights() -> None:
    linear, table = dense(INPUTS, bias=True), random(9, INPUTS, seed=1)
    before = [np.array(each) for each in (linear.weight, linear.bias, table)]
    ops, norm = HostOps(), RMSNorm(mx.ones(INPUTS), 1e-5)
    x = ops.embed(mx.array([1], dtype=mx.uint32), DenseEmbedding(table))
    ops.add(x, x, linear)
    ops.gated(x, norm, linear)
    for was, now in zip(before, (linear.weight, linear.bias, table), strict=True):
        np.testing.assert_array_equal(was, np.array(now))
