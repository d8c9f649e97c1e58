"""Launches matmul_blocks.metal: many rows times a weight in GGUF's blocks, which are unpacked in the tile."""

from __future__ import annotations

from collections import Counter

import mlx.core as mx

from metal.constants import device_integers
from metal.errors import KernelError
from metal.executors import Executor, Output
from metal.kernel import LANES, Kernel
from metal.matvec_weight import BlockWeight

_SIMDGROUPS = 4
_TILES = {mx.float32: (16, 32), mx.float16: (32, 64), mx.bfloat16: (32, 64)}
"""Rows and columns that a threadgroup makes: what 32 KB of threadgroup memory hold."""


class BlockMatmul:
    """y = x Wᵀ for one weight W; its weights are rounded to x's dtype, sums are float32.

    Args:
        executor: what runs the kernel.
        launches: counts launches by kernel name.
        weight: W, (N, K).

    Raises:
        KernelError: a weight that the kernel does not take.
    """

    def __init__(self, executor: Executor, launches: Counter[str], weight: BlockWeight) -> None:
        weight.check()
        self._executor, self._launches, self._weight = executor, launches, weight
        self._arrays = dict(weight.arrays)
        self._kernels: dict[mx.Dtype, Kernel] = {}

    def __call__(self, x: mx.array) -> mx.array:
        """The product (m, N) of x (m, K), m rows of float32, float16 or bfloat16.

        Raises:
            KernelError: x of another shape or dtype.
        """
        weight = self._weight
        if x.dtype not in _TILES or x.ndim != 2 or x.shape[1] != weight.width or x.size == 0:
            raise KernelError(f"matmul: x {x.shape} {x.dtype} for a weight of width {weight.width}")
        rows, (tall, wide) = x.shape[0], _TILES[x.dtype]
        threads = _SIMDGROUPS * LANES
        (y,) = self._kernel(x.dtype)(
            {"x": x, **self._arrays, "sizes": device_integers(rows)},
            grid=(-(-weight.rows // wide) * threads, -(-rows // tall), 1),
            threadgroup=(threads, 1, 1),
            outputs=[Output((rows, weight.rows), x.dtype)],
            template={
                **{"T": x.dtype, "N": weight.rows, "K": weight.width},
                **{"TALL": tall, "WIDE": wide, "SIMDGROUPS": _SIMDGROUPS},
            },
        )
        return y

    def _kernel(self, dtype: mx.Dtype) -> Kernel:
        if dtype not in self._kernels:
            self._kernels[dtype] = Kernel(
                "matmul_blocks",
                inputs=("x", *self._arrays, "sizes"),
                outputs=("y",),
                executor=self._executor,
                launches=self._launches,
                features={"BLOCK": self._weight.type.number},
            )
        return self._kernels[dtype]
