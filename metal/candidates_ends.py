"""The two ends of a decode step with their candidates: rows of the embedding, and the greedy choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import mlx.core as mx
import numpy as np

from metal.candidates_parts import BUILTIN, digest, dtype_of, integer, name_of, normal, wide
from metal.embed import Embed
from metal.executors import Executor
from metal.matvec_weight import AffineWeight, DenseWeight, Weight
from metal.pick import Pick
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


def embed_spec(width: int, rows: int, dtype: str, bits: int = 0, group: int = 0) -> CaseSpec:
    """`rows` rows of a table: dense with `bits` 0, else in MLX's affine packing."""
    params = {"width": width, "rows": rows, "dtype": dtype, "bits": bits, "group": group}
    return CaseSpec("metal.candidates", "embed", params)


def embed(params: Params, executor: Executor) -> Case:
    """Builds the case of `embed_spec`."""
    width, rows, dtype = integer(params, "width"), integer(params, "rows"), dtype_of(params, "dtype")
    bits, group = integer(params, "bits"), integer(params, "group")

    def builtin(parts: Arrays) -> Step:
        if not bits:
            return lambda ids: [parts[0][ids]]
        return lambda ids: [
            mx.dequantize(*(part[ids] for part in parts), group_size=group, bits=bits).astype(dtype)
        ]

    def ours(parts: Arrays) -> Step:
        table: Weight = DenseWeight(parts[0])
        if bits:
            packed, scales, biases = parts
            table = AffineWeight(packed, scales, biases, group, bits)
        kernel = Embed(executor, Counter(), table, dtype)
        return lambda ids: [kernel(ids)]

    def data() -> Data:
        table = normal((_VOCAB, width), dtype, 0)
        ids = mx.arange(7, 7 + 90 * rows, 90).astype(mx.uint32)
        parts = mx.quantize(table, group_size=group, bits=bits) if bits else (table,)
        whole = table
        if bits:
            scales, biases = (part.astype(mx.float32) for part in parts[1:])
            whole = mx.dequantize(parts[0], scales, biases, group_size=group, bits=bits)
        return Data(ids, (tuple(parts),), against(wide(whole[ids])))

    form = f"{bits}bit group{group}" if bits else "dense"
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
