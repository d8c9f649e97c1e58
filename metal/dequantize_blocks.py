"""Launches dequantize_blocks.metal: floats of a weight in GGUF's blocks, which MLX multiplies."""

from __future__ import annotations

from collections import Counter
from typing import cast

import mlx.core as mx

from metal.constants import device_integers
from metal.errors import KernelError
from metal.executors import Executor, Output
from metal.kernel import LANES, Kernel
from metal.matvec_weight import DTYPES, BlockWeight

_SIMDGROUPS = 4
_BAND_BYTES = 64 << 20
"""Floats of a weight that lie in memory at once."""
_WHOLE_ROWS = 64
"""Bands have a multiple of these: odd sizes are slow in matrix products."""


class BlockFloats:
    """Rows of one weight as floats: the bits of `metal.dequantize`, rounded to nearest, ties to even.

    Args:
        executor: what runs the kernel.
        launches: counts launches by kernel name.
        weight: (N, K).

    Raises:
        KernelError: a weight that the kernel does not take.
    """

    def __init__(self, executor: Executor, launches: Counter[str], weight: BlockWeight) -> None:
        weight.check()
        self._weight, (self._blocks,) = weight, weight.arrays.values()
        self._kernel = Kernel(
            "dequantize_blocks",
            inputs=("weight", "sizes"),
            outputs=("floats",),
            executor=executor,
            launches=launches,
            features={"BLOCK": weight.type.number},
        )

    def __call__(self, rows: range, dtype: mx.Dtype, *, after: mx.array) -> mx.array:
        """Neighbouring `rows` (rows, K) in float32, float16 or bfloat16.

        They wait for `after`: MLX computes what waits for nothing at once, and the floats of a whole model
        would lie in memory together.

        Raises:
            KernelError: rows that the weight has not, or another dtype.
        """
        weight = self._weight
        if rows.step != 1 or not 0 <= rows.start < rows.stop <= weight.rows or dtype not in DTYPES:
            raise KernelError(f"dequantize: {rows} in {dtype} of a weight of {weight.rows} rows")
        row_blocks = weight.width // weight.type.block_weights
        threads, group = len(rows) * weight.width // weight.lane_width, _SIMDGROUPS * LANES
        blocks = cast("list[mx.array]", mx.depends([self._blocks], [after]))
        (floats,) = self._kernel(
            {"weight": blocks[0], "sizes": device_integers(rows.start * row_blocks, len(rows) * row_blocks)},
            grid=(-(-threads // group) * group, 1, 1),
            threadgroup=(group, 1, 1),
            outputs=[Output((len(rows), weight.width), dtype)],
            template={"T": dtype, "SIMDGROUPS": _SIMDGROUPS},
        )
        return floats


class DequantizedMatmul:
    """y = x Wᵀ for one weight W: a launch makes its floats, or those of a band of rows, and MLX the product.

    Args:
        executor: what runs the kernel.
        launches: counts launches by kernel name.
        weight: W, (N, K).

    Raises:
        KernelError: a weight that the kernel does not take.
    """

    def __init__(self, executor: Executor, launches: Counter[str], weight: BlockWeight) -> None:
        self._floats, self._weight = BlockFloats(executor, launches, weight), weight

    def __call__(self, x: mx.array) -> mx.array:
        """The product (m, N) of x (m, K), m rows of float32, float16 or bfloat16.

        Raises:
            KernelError: x of another shape or dtype.
        """
        rows, width = self._weight.rows, self._weight.width
        if x.dtype not in DTYPES or x.ndim != 2 or x.shape[1] != width or x.size == 0:
            raise KernelError(f"matmul: x {x.shape} {x.dtype} for a weight of width {width}")
        step, products = _band(rows, width * x.dtype.size), list[mx.array]()
        for first in range(0, rows, step):
            band, before = range(first, min(first + step, rows)), products[-1] if products else x
            products.append(x @ self._floats(band, x.dtype, after=before).T)
        return products[0] if len(products) == 1 else mx.concatenate(products, axis=-1)


def _band(rows: int, row_bytes: int) -> int:
    """Rows of a band: all, or as many as there may be at once, bands being about equal."""
    most = max(1, _BAND_BYTES // row_bytes)
    even = -(-rows // -(-rows // most))
    return min(most, -(-even // _WHOLE_ROWS) * _WHOLE_ROWS)
