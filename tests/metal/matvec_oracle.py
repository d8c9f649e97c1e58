"""Products of a weight and a few rows in float64, and random arrays to make them of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal.matvec import Activation, Norm
from tests.metal.numbers import normal, wide

EPSILON = 1e-5
_ACTIVATIONS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "silu": lambda g: g / (1 + np.exp(-g)),
    "gelu": lambda g: g / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3))),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """What goes with a weight in one product."""

    x: mx.array
    norm: Norm | None
    bias: mx.array | None
    activation: Activation | None
    residual: mx.array | None


def make_scene(
    dtype: mx.Dtype, rows: int, columns: int, width: int, options: str, side_dtype: mx.Dtype | None = None
) -> Scene:
    """Random arrays for the options named in `options`: norm, bias, silu, gelu, residual.

    Args:
        dtype: of x and the residual.
        rows, columns, width: of the product.
        options: their names, separated by spaces.
        side_dtype: of the norm's weight and the bias; `dtype` when None.
    """
    named = options.split()
    activation: Activation | None = "silu" if "silu" in named else "gelu" if "gelu" in named else None
    side = side_dtype or dtype
    return Scene(
        normal((rows, width), dtype, 1),
        Norm(normal((width,), side, 2), EPSILON) if "norm" in named else None,
        normal((columns * (2 if activation else 1),), side, 3) if "bias" in named else None,
        activation,
        normal((rows, columns), dtype, 4) if "residual" in named else None,
    )


def exact(weight: NDArray[np.float64], scene: Scene) -> NDArray[np.float64]:
    """The product in float64."""
    x = wide(scene.x)
    if scene.norm is not None:
        x = x * wide(scene.norm.weight) / np.sqrt((x * x).mean(-1, keepdims=True) + scene.norm.epsilon)
    y = x @ weight.T
    if scene.bias is not None:
        y = y + wide(scene.bias)
    if scene.activation is not None:
        gate, up = np.split(y, 2, axis=-1)
        y = _ACTIVATIONS[scene.activation](gate) * up
    return y if scene.residual is None else y + wide(scene.residual)
