"""The parts of a block that MLX computes in one launch on a GPU are what they are in several."""

from __future__ import annotations

import mlx.core as mx
import pytest

from engine.layers import ops
from engine.steps.graph import operations


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever computes here, products' halves are put together as on a GPU."""
    monkeypatch.setattr(ops, "swiglu", ops.fused_swiglu)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.usefixtures("fused")
def test_a_gated_product_is_the_same_in_one_launch(dtype: mx.Dtype) -> None:
    for rows in (1, 7, 64):  # one trace serves for all
        both = 4 * mx.random.normal((rows, 96), key=mx.random.key(rows)).astype(dtype)
        mx.eval(both)
        gate, up = both[:, :48], both[:, 48:]
        found = ops.gated(both)
        assert sum(operations([found]).values()) == 1
        assert found.dtype == dtype
        assert mx.array_equal(found, gate * mx.sigmoid(gate) * up).item()
        exact = gate.astype(mx.float32) / (1 + mx.exp(-gate.astype(mx.float32))) * up.astype(mx.float32)
        assert mx.allclose(found.astype(mx.float32), exact, rtol=8 * mx.finfo(dtype).eps, atol=1e-3).item()
