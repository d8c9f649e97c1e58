"""Launches page_gather.metal: keys and values of one sequence, out of its pages into contiguous arrays."""

from __future__ import annotations

from collections import Counter

import mlx.core as mx

from metal.attention_shape import AttentionShape
from metal.constants import device_integers
from metal.errors import KernelError
from metal.executors import Executor, Output
from metal.kernel import Kernel
from metal.pools import Pools, check_arrays, next_fence
from metal.touched import Launched, Touched

_THREADS = 256
_BYTES = 16  # that a thread moves of the keys, and as many of the values


class PageGather:
    """Copies runs of tokens out of pages: for MLX's attention over a history, and for what leaves memory."""

    def __init__(self, executor: Executor, launches: Counter[str], shape: AttentionShape) -> None:
        """Raises KernelError for a shape that the kernel is not written for."""
        shape.check()
        self._shape = shape
        self._kernel = Kernel(
            "page_gather",
            inputs=("keys", "values", "table", "first", "fence", "pool", "sizes"),
            outputs=("out_keys", "out_values", "next_fence"),
            executor=executor,
            launches=launches,
        )

    def __call__(
        self, pools: Pools, table: mx.array, first: mx.array, tokens: int, padded: int = 0
    ) -> tuple[mx.array, mx.array, mx.array]:
        """Returns keys and values (kv_heads, tokens, head_dim), bit for bit, and the next fence.

        With `padded`, at least `tokens`, there are as many of both, and zeros behind the tokens.

        Args:
            pools: only read.
            table: int32 (pages,), the sequence's pages; a token of page -1 comes out as zeros.
            first: int32 (1,), the first token; table · page_size holds first + tokens at least, unchecked.
            tokens: how many.

        Raises:
            KernelError: arrays that do not fit together.
        """
        if not 0 < tokens <= table.size * self._shape.page_size:
            raise KernelError(
                f"page gather: {tokens} tokens of {table.size} pages of {self._shape.page_size} tokens"
            )
        rows = max(tokens, padded)
        return self.rows(pools, table, first, rows, device_integers(rows, tokens))

    def rows(
        self, pools: Pools, table: mx.array, first: mx.array, rows: int, sizes: mx.array
    ) -> tuple[mx.array, mx.array, mx.array]:
        """The same where only the device knows how many tokens there are: `rows` come out, zeros behind them.

        `sizes`: int32 (4,): `rows`, the tokens, and anything; unchecked.
        """
        shape = self._shape
        pools.check("page gather", shape)
        row = (table.size,)
        check_arrays(
            "page gather",
            {
                "table": (table, row, mx.int32),
                "first": (first, (1,), mx.int32),
                "sizes": (sizes, (4,), mx.int32),
            },
        )
        pieces = rows * shape.head_dim * shape.dtype.size // _BYTES
        out = Output((shape.kv_heads, rows, shape.head_dim), shape.dtype)
        keys, values, fence = self._kernel(
            {
                "keys": pools.keys,
                "values": pools.values,
                "table": table,
                "first": first,
                "fence": pools.fence,
                "pool": pools.slots,
                "sizes": sizes,
            },
            grid=(-(-pieces // _THREADS) * _THREADS, shape.kv_heads, 1),
            threadgroup=(_THREADS, 1, 1),
            outputs=[out, out, next_fence(shape.dtype)],
            template={"T": shape.dtype, "HEAD_DIM": shape.head_dim, "PAGE": shape.page_size},
        )
        return keys, values, fence


def touched(launch: Launched) -> Touched:
    """Reads the tokens that it copies."""
    first, tokens = int(launch.integers("first")[0]), int(launch.integers("sizes")[1])
    return Touched(reads=launch.pages(launch.integers("table"), first, first + tokens) - {-1})
