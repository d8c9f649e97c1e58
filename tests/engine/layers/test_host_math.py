"""Exponentials by the host against numpy's in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from engine.layers import host_math
from engine.layers.host_math import FEWEST
from engine.layers.ops import BuiltinOps
from engine.layers.waiting_ops import WaitingOps
from engine.machine.machine import device_kind

pytestmark = pytest.mark.skipif(device_kind() != "CPU", reason="for CPUs only")


def silu64(both: np.ndarray) -> np.ndarray:
    gate, up = np.split(both.astype(np.float64), 2, axis=-1)
    return gate / (1 + np.exp(-gate)) * up


@pytest.mark.parametrize("rows", [1, 3, 127, 128, 129, 300])
def test_silu_of_any_number_of_rows(rows: int) -> None:
    both = (4 * np.random.default_rng(rows).standard_normal((rows, 1024))).astype(np.float32)
    np.testing.assert_allclose(host_math.gated(mx.array(both)), silu64(both), rtol=1e-6, atol=1e-30)


def test_silu_of_what_an_exponential_is_too_large_for() -> None:
    gates = [-700.0, -89.0, -88.0, -0.0, 0.0, 88.0, 89.0, 700.0]
    both = np.array([gates + [2.0] * len(gates)], np.float32)
    found = np.array(host_math.gated(mx.array(both)))
    assert found[0, 0] == 0
    np.testing.assert_allclose(found, silu64(both), rtol=1e-6, atol=1e-36)


def test_silu_leaves_what_it_is_given() -> None:
    both = mx.random.normal((16, 1024))
    before = np.array(both)
    host_math.gated(both)
    np.testing.assert_array_equal(np.array(both), before)


@pytest.mark.parametrize("rows", [1, 2, FEWEST // 256])
def test_ops_that_wait_give_what_others_give(rows: int) -> None:
    """On both sides of the size from which they wait."""
    x, weight = mx.random.normal((rows, 64)), mx.random.normal((64, 512))
    found, expected = (
        ops.gated(x, lambda x: x, lambda x: x @ weight) for ops in (WaitingOps(), BuiltinOps())
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
