"""What a CPU computes of each of many numbers: by numpy, in place.

MLX's CPU build computes exponentials one at a time, 19 to 40 ns each; numpy's vector code takes 1 ns. Norms
and rotations it puts together from a dozen operations, each of which goes through all of memory, and through
a queue that all threads count together. To get at the numbers the step is evaluated as far as them: this is
for steps that somebody waits for anyway.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.cpu.host_view import host_view

FEWEST = 1 << 14
"""Exponentials from which waiting for their arguments costs less than MLX's own take.

Alone, silu(g) · u of 2,048, 4,096, 8,192 and 16,384 numbers took MLX 80, 127, 230 and 567 µs, and this way
56, 60, 79 and 175. In a whole prompt each wait costs more: with 4,096 here, one of 16 tokens to the guide
(8,192 numbers) took 1.09 times the processor time, one of 28 tokens (14,336) 1.02 and one of 64 tokens 0.91.
(Medians, MLX 0.32.4, two virtual cores of an Intel Xeon with AVX-512.)
"""

MANY = 1 << 17
"""Numbers from which norms and rotations are better computed by the host.

Alone, a norm of 131,072, 524,288 and 1,048,576 numbers took MLX 202, 653 and 1,557 µs, and this way 224, 636
and 1,050; a rotation of 65,536, 262,144 and 1,048,576 309, 954 and 4,087, and 291, 774 and 3,117. Whole
prompts of 512 and 4,096 tokens took 0.92 and 0.94 of their time. (Medians, a model of the guide's size, MLX
0.32.4, two virtual cores.)
"""

WORTH = 1 << 24
"""Multiplications that are worth a thread: they take a third of a millisecond."""

_CACHED = 1 << 16
"""Numbers that are worked on at a time, and stay in the processor's second cache: 256 KiB."""

AT_ONCE = 10**6
"""Multiplications of a product that OpenBLAS computes from where its factors lie, row after row.

For more it copies these first, which takes longer than few rows do: 4,096 keys of 64 times 16 queries took
97 µs in pieces of 512 keys, and 125 at once; in pieces with the keys turned 304 (medians, one thread,
OpenBLAS 0.3.31, AMD EPYC with AVX-512).
"""

TURNED_AT_ONCE = 1 << 10
"""Numbers in a product, whose second factor is turned, that it computes so.

4 rows times (4,096, 256) took 1,100 µs, and 490 in pieces of 256 columns.
"""

FEWEST_COLUMNS = 32
"""Of a piece of such a product: of narrower ones calling takes longer."""

Floats = NDArray[np.float32]


def gated(both: mx.array) -> mx.array:
    """silu(g) · u, where g and u are the two halves of each row of float32 (rows, 2 · width); evaluated."""
    result = mx.zeros((len(both), both.shape[1] // 2))
    mx.eval(both, result)
    given, out = host_view(both), host_view(result)
    for part in _parts(given):
        out[part] = gated_rows(*np.split(given[part], 2, axis=1))
    return result


def normalised(x: mx.array, weight: mx.array, eps: float) -> mx.array:
    """w · x / sqrt(mean(x²) + eps) of each row of float32 (rows, width), as RMSNorm has it; evaluated."""
    result = mx.zeros(x.shape)
    mx.eval(x, weight, result)
    given, scale, out = host_view(x), host_view(weight), host_view(result)
    for part in _parts(given):
        out[part] = normalised_rows(given[part], scale, eps)
    return result


def gated_rows(gate: Floats, up: Floats) -> Floats:
    """silu(gate) · up."""
    with np.errstate(over="ignore", invalid="ignore"):  # g · u / infinity is the 0 that silu comes to
        sigmoid = np.negative(gate)
        np.exp(sigmoid, out=sigmoid)
        sigmoid += 1
        out = gate * up
        out /= sigmoid
    return out


def normalised_rows(x: Floats, weight: Floats, eps: float) -> Floats:
    """As `normalised`, of some rows."""
    with np.errstate(over="ignore", invalid="ignore"):  # of rows that are not finite
        size = np.einsum("ij,ij->i", x, x)
        size /= x.shape[1]
        size += eps
        out = x * weight
        out /= np.sqrt(size, out=size)[:, None]
    return out


def _parts(rows: Floats) -> list[slice]:
    """Of which each stays in the cache."""
    size = max(1, _CACHED // rows.shape[1])
    return [slice(begin, begin + size) for begin in range(0, len(rows), size)]


def turning(cos: Floats, sin: Floats) -> Floats:
    """Matrices (…, d, d): heads (…, n, d) times them are rotated by angles (…, d/2), the same for all n.

    For few heads one product takes less than the six operations of `rotated`.
    """
    half = cos.shape[-1]
    first = np.arange(half, dtype=np.int32)
    second = first + half
    out = np.zeros((*cos.shape[:-1], 2 * half, 2 * half), np.float32)
    out[..., first, first] = out[..., second, second] = cos
    out[..., first, second], out[..., second, first] = sin, -sin
    return out


def rotated(heads: Floats, cos: Floats, sin: Floats) -> Floats:
    """Heads (…, d) with their pairs (i, i + d/2) rotated.

    cos, sin: of each one's angles, (…, d/2).
    """
    half = cos.shape[-1]
    out = np.empty(heads.shape, np.float32)
    first, second = heads[..., :half], heads[..., half:]
    np.multiply(first, cos, out=out[..., :half])
    np.multiply(second, cos, out=out[..., half:])
    out[..., :half] -= second * sin
    out[..., half:] += first * sin
    return out
