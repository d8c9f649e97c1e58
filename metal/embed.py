"""Launches embed.metal: rows of an embedding table by token, dense, in MLX's affine packing or in blocks."""

from __future__ import annotations

from collections import Counter

import mlx.core as mx

from metal.errors import KernelError
from metal.executors import Executor, Output
from metal.kernel import LANES, Kernel
from metal.matvec_weight import AffineWeight, BlockWeight, Weight


class Embed:
    """One table's rows, in one launch.

    Args:
        executor: what runs the kernel.
        launches: counts launches by kernel name.
        table: (vocab, width), as a weight of Matvec.
        dtype: of the rows; a dense table's own.

    Raises:
        KernelError: a table that the kernel does not take.
    """

    def __init__(self, executor: Executor, launches: Counter[str], table: Weight, dtype: mx.Dtype) -> None:
        table.check()
        if not table.takes(dtype):
            raise KernelError(f"embed: rows in {dtype} out of a table of {table.arrays['weight'].dtype}")
        self._table, self._dtype = table, dtype
        packing, self._lane = {"BITS": 0, "BLOCK": 0}, 8
        if isinstance(table, AffineWeight):
            packing = {"BITS": table.bits, "GROUP": table.group_size, "BLOCK": 0}
        elif isinstance(table, BlockWeight):
            packing, self._lane = {"BITS": 0, "BLOCK": table.type.number}, table.lane_width
        self._arrays = {("table" if name == "weight" else name): a for name, a in table.arrays.items()}
        self._kernel = Kernel(
            "embed",
            inputs=(*self._arrays, "ids"),
            outputs=("rows",),
            executor=executor,
            launches=launches,
            features=packing,
        )

    def __call__(self, ids: mx.array) -> mx.array:
        """Rows (ids, width) of `ids`, uint32 (ids,), each within the vocabulary: that is not checked.

        Raises:
            KernelError: ids of another shape or dtype.
        """
        if ids.ndim != 1 or ids.size == 0 or ids.dtype != mx.uint32:
            raise KernelError(f"embed: ids {ids.shape} {ids.dtype}; (ids,) of uint32 is taken")
        width = self._table.width
        threads = -(-width // (self._lane * LANES)) * LANES
        (rows,) = self._kernel(
            {**self._arrays, "ids": ids},
            grid=(threads, ids.size, 1),
            threadgroup=(LANES, 1, 1),
            outputs=[Output((ids.size, width), self._dtype)],
            template={"T": self._dtype, "WIDTH": width},
        )
        return rows
