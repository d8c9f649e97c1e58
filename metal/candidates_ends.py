"""The two ends of a decode step with their candidates: rows of the embedding, and the greedy choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import mlx.core as mx
import numpy as np

from metal.candidates_parts import BUILTIN, digest, dtype_of, integer, name_of, normal, wide
from metal.dequantize import dequantize
from metal.embed import Embed
from metal.executors import Executor
from metal.matvec_weight import AffineWeight, BlockWeight, DenseWeight, Weight, block_named
from metal.pick import Pick
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

_VOCAB = 4096
"""Rows of the table that embeddings are tried on; how many there are changes nothing."""


def embed_spec(width: int, rows: int, dtype: str, bits: int = 0, group: int = 0, block: str = "") -> CaseSpec:
    """`rows` rows of a table: in GGUF's blocks of format `block`, or dense with `bits` 0, or MLX's affine."""
    params = {"width": width, "rows": rows, "dtype": dtype, "bits": bits, "group": group, "block": block}
    return CaseSpec("metal.candidates", "embed", params)


def embed(params: Params, executor: Executor) -> Case:
    """Builds the case of `embed_spec`."""
    width, rows, dtype = integer(params, "width"), integer(params, "rows"), dtype_of(params, "dtype")
    bits, group, block = integer(params, "bits"), integer(params, "group"), str(params.get("block") or "")

    def table(parts: Arrays) -> Weight:
        if block:
            return BlockWeight(parts[0], block_named(block))
        if bits:
            packed, scales, biases = parts
            return AffineWeight(packed, scales, biases, group, bits)
        return DenseWeight(parts[0])

    def unpacked(parts: Arrays) -> mx.array:
        if block:
            return dequantize(parts[0], block_named(block))
        return mx.dequantize(*parts, group_size=group, bits=bits) if bits else parts[0]

    def builtin(parts: Arrays) -> Step:
        return lambda ids: [unpacked(tuple(part[ids] for part in parts)).astype(dtype)]

    def ours(parts: Arrays) -> Step:
        kernel = Embed(executor, Counter(), table(parts), dtype)
        return lambda ids: [kernel(ids)]

    def data() -> Data:
        ids = mx.arange(7, 7 + 90 * rows, 90).astype(mx.uint32)
        parts: Arrays = (normal((_VOCAB, width), dtype, 0),)
        if block:
            parts = (random_blocks(block_named(block), _VOCAB, width, mx.random.key(0)),)
        elif bits:
            parts = tuple(mx.quantize(parts[0], group_size=group, bits=bits))
        exact = unpacked((parts[0], *(part.astype(mx.float32) for part in parts[1:])))
        return Data(ids, (parts,), against(wide(exact[ids])))

    form = block or (f"{bits}bit group{group}" if bits else "dense")
    return OpCase(
        CaseSpec("metal.candidates", "embed", params),
        f"embed {form} {name_of(dtype)} width{width} rows{rows}",
        [OpCandidate(BUILTIN, builtin), OpCandidate("embed", ours, digest("embed"))],
        data=data,
        tolerance=TOLERANCE[name_of(dtype)],
        follow=lambda ids, outputs: ids + (outputs[0][:, 0] * 0).astype(mx.uint32),
    )


def pick_spec(vocab: int, rows: int) -> CaseSpec:
    """The likeliest token of `rows` rows of `vocab` logits, and the log of their mass."""
    return CaseSpec("metal.candidates", "pick", {"vocab": vocab, "rows": rows})


def pick(params: Params, executor: Executor) -> Case:
    """Builds the case of `pick_spec`."""
    vocab, rows = integer(params, "vocab"), integer(params, "rows")
    kernel = Pick(executor, Counter())

    def builtin(_none: Arrays) -> Step:
        return lambda x: [mx.argmax(x, axis=-1), mx.logsumexp(x, axis=-1)]

    def ours(_none: Arrays) -> Step:
        return lambda x: list(kernel(x))

    def data() -> Data:
        x = normal((rows, vocab), mx.float32, 0, scale=4.0)
        exact = wide(x)
        top = exact.max(axis=1, keepdims=True)
        mass = top[:, 0] + np.log(np.exp(exact - top).sum(axis=1))
        return Data(x, ((),), against(exact.argmax(axis=1).astype(np.float64), mass))

    return OpCase(
        CaseSpec("metal.candidates", "pick", params),
        f"pick float32 vocab{vocab} rows{rows}",
        [OpCandidate(BUILTIN, builtin), OpCandidate("pick", ours, digest("pick"))],
        data=data,
        tolerance=TOLERANCE["float32"],
        follow=lambda x, outputs: x + 0 * outputs[1][:, None],
    )


CASES: Mapping[str, CaseBuilder] = {"embed": embed, "pick": pick}
