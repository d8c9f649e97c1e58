"""Products whose rows or columns a crew shares, against MLX's and against numpy's in float64."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from engine.crew import Crew
from engine.layers import waiting_ops
from engine.layers.linear import DenseLinear, Linear
from engine.layers.norm import RMSNorm
from engine.layers.ops import BuiltinOps
from engine.layers.waiting_ops import WaitingOps, is_shared
from engine.machine import device_kind

pytestmark = pytest.mark.skipif(device_kind() != "CPU", reason="for CPUs only")

INPUTS = 24


def random(*shape: int, seed: int) -> mx.array:
    return mx.array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


@pytest.fixture
def worth(monkeypatch: pytest.MonkeyPatch) -> int:
    """Multiplications that are worth a piece, so few that small products have several."""
    monkeypatch.setattr(waiting_ops, "WORTH", 1 << 12)
    return 1 << 12


@pytest.mark.usefixtures("worth")
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(("rows", "outputs"), [(50, 50), (51, 30), (333, 6), (6, 334), (30, 52)])
def test_they_give_what_others_give(rows: int, outputs: int, size: int, has_bias: bool) -> None:
    """Rows are shared where there are as many of them as columns, else columns; the last piece is shorter."""
    x, norm = random(rows, INPUTS, seed=1), RMSNorm(random(INPUTS, seed=2), 1e-5)
    bias = random(outputs, seed=4) if has_bias else None
    linear = DenseLinear(random(outputs, INPUTS, seed=3), bias)
    residual = random(rows, outputs, seed=5)
    assert is_shared(linear, x)
    ours, theirs = WaitingOps(Crew(size)), BuiltinOps()
    np.testing.assert_allclose(ours.project(x, norm, linear), theirs.project(x, norm, linear), atol=3e-5)
    np.testing.assert_allclose(ours.gated(x, norm, linear), theirs.gated(x, norm, linear), atol=3e-4)
    np.testing.assert_allclose(ours.add(residual, x, linear), theirs.add(residual, x, linear), atol=3e-5)
    exact = np.array(x, np.float64) @ np.array(linear.weight, np.float64).T
    exact += np.array(residual) + (0 if bias is None else np.array(bias))
    np.testing.assert_allclose(ours.add(residual, x, linear), exact, atol=3e-5)


def test_small_products_are_left_to_mlx_and_so_are_other_weights(worth: int) -> None:
    linear = DenseLinear(random(64, INPUTS, seed=1), None)
    enough = 2 * worth // linear.weight.size + 1
    assert is_shared(linear, random(enough, INPUTS, seed=2))
    assert not is_shared(linear, random(enough - 1, INPUTS, seed=2))
    assert not is_shared(linear, random(enough, INPUTS, seed=2).astype(mx.float16))
    half = DenseLinear(linear.weight.astype(mx.bfloat16), None)
    assert not is_shared(half, random(enough, INPUTS, seed=2))

    class Doubling:
        def __call__(self, x: mx.array) -> mx.array:
            return 2 * x

    other: Linear = Doubling()
    assert not is_shared(other, random(enough, INPUTS, seed=2))


@pytest.mark.usefixtures("worth")
def test_pieces_are_whole_rows_or_whole_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes, each = list[tuple[int, ...]](), Crew.each

    def note(
        self: Crew,
        pieces: int,
        compute: Callable[[int], np.ndarray],
        keep: Callable[[int, np.ndarray], None],
        *,
        most: int,
    ) -> None:
        def kept(piece: int, computed: np.ndarray) -> None:
            shapes.append(computed.shape)
            keep(piece, computed)

        each(self, pieces, compute, kept, most=most)

    monkeypatch.setattr(Crew, "each", note)
    linear, ops = DenseLinear(random(20, INPUTS, seed=1), None), WaitingOps(Crew(1))
    ops.add(mx.zeros((100, 20)), random(100, INPUTS, seed=2), linear)
    assert len(shapes) > 4
    assert {columns for _, columns in shapes} == {20}
    assert sum(rows for rows, _ in shapes) == 100
    shapes.clear()
    wide = DenseLinear(random(200, INPUTS, seed=1), None)
    ops.add(mx.zeros((19, 200)), random(19, INPUTS, seed=2), wide)
    assert len(shapes) > 4
    assert {rows for rows, _ in shapes} == {19}
    assert sum(columns for _, columns in shapes) == 200
