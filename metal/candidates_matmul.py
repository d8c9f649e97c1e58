"""The candidates of a product of many rows with a weight in GGUF's blocks: what a prompt runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import mlx.core as mx

from metal.candidates_parts import BUILTIN, digest, dtype_of, integer, name_of, normal, wide
from metal.dequantize import dequantize
from metal.dequantize_blocks import DequantizedMatmul
from metal.executors import Executor
from metal.matmul_blocks import BlockMatmul
from metal.matvec_weight import BlockWeight, block_named
from metal.random_weight import random_blocks
from metal.trial_case import (
    TOLERANCE,
    Arrays,
    Case,
    CaseBuilder,
    CaseSpec,
    Data,
    OpCandidate,
    OpCase,
    Params,
    Step,
    against,
)

MATMUL_ROWS = (32, 512)
"""Rows that products are tried at: what wins at the first runs up to _FEW rows, above that the second's."""

MATMULS: Mapping[str, Callable[[Executor, Counter[str], BlockWeight], Callable[[mx.array], mx.array]]] = {
    "matmul_blocks": BlockMatmul,
    "dequantize_blocks": DequantizedMatmul,
}
"""What computes such a product beside MLX's own, by the kernel that it launches."""

_FEW = 128
_TRIED_COLUMNS = 8192


def matmul_spec(block: str, width: int, columns: int, rows: int, dtype: str) -> CaseSpec:
    """x (rows, width) times a weight (columns, width) in blocks of a format, at one of MATMUL_ROWS."""
    tried = MATMUL_ROWS[0] if rows <= _FEW else MATMUL_ROWS[1]
    params = {"block": block, "width": width, "columns": columns, "rows": tried, "dtype": dtype}
    return CaseSpec("metal.candidates", "matmul", params)


def matmul(params: Params, executor: Executor) -> Case:
    """Builds the case of `matmul_spec`. Of a very large weight the first columns are tried."""
    block_type, dtype = block_named(str(params.get("block"))), dtype_of(params, "dtype")
    rows, width = integer(params, "rows"), integer(params, "width")
    columns = min(integer(params, "columns"), _TRIED_COLUMNS)

    def builtin(constants: Arrays) -> Step:
        weight = BlockWeight(constants[0], block_type)
        return lambda x: [weight.multiply(x)]

    def ours(name: str) -> Callable[[Arrays], Step]:
        def build(constants: Arrays) -> Step:
            product = MATMULS[name](executor, Counter(), BlockWeight(constants[0], block_type))
            return lambda x: [product(x)]

        return build

    def data() -> Data:
        x = normal((rows, width), dtype, 0)
        blocks = random_blocks(block_type, columns, width, mx.random.key(1))
        return Data(x, ((blocks,),), against(wide(x) @ wide(dequantize(blocks, block_type)).T))

    return OpCase(
        CaseSpec("metal.candidates", "matmul", params),
        f"matmul {block_type} {name_of(dtype)} K{width} N{integer(params, 'columns')} m{rows}",
        [OpCandidate(BUILTIN, builtin), *(OpCandidate(name, ours(name), digest(name)) for name in MATMULS)],
        data=data,
        tolerance=TOLERANCE[name_of(dtype)],
        follow=lambda _x, outputs: _fitted(outputs[0], width),
    )


def _fitted(y: mx.array, width: int) -> mx.array:
    """An answer as the next link's x."""
    times = -(-width // y.shape[1])
    return mx.contiguous(mx.concatenate([y] * times, axis=1)[:, :width])


CASES: Mapping[str, CaseBuilder] = {"matmul": matmul}
