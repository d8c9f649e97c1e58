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

from engine.host_view import host_view

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

_CACHED = 1 << 16
"""Numbers that are worked on at a time, and stay in the processor's second cache: 256 KiB."""

Floats = NDArray[np.float32]


def exponentiate(scores: Floats) -> Floats:
    """Replace each row of (rows, width) by exp(score - the row's largest).

    Returns:
        Their sums, (rows, 1): softmax is the rows divided by these. NaN for a row that has NaN, or infinity.
    """
    sums = np.empty((len(scores), 1), np.float32)
    rows = max(1, _CACHED // scores.shape[1])
    with np.errstate(invalid="ignore"):  # the request ends where its logits are found not to be finite
        for begin in range(0, len(scores), rows):
            part = scores[begin : begin + rows]
            part -= part.max(axis=-1, keepdims=True)
            np.exp(part, out=part)
            part.sum(axis=-1, keepdims=True, out=sums[begin : begin + rows])
    return sums


def gated(both: mx.array) -> mx.array:
    """silu(g) · u, where g and u are the two halves of each row of float32 (rows, 2 · width); evaluated."""
    gate, up = mx.split(both, 2, axis=-1)
    out = gate * up
    mx.eval(gate, out)
    gates, outs = host_view(gate), host_view(out)
    rows = max(1, _CACHED // out.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # g · u / infinity is the 0 that silu comes to
        for begin in range(0, len(outs), rows):
            part = np.negative(gates[begin : begin + rows])
            np.exp(part, out=part)
            part += 1
            outs[begin : begin + rows] /= part
    return out


def normalised(x: mx.array, weight: mx.array, eps: float) -> mx.array:
    """w · x / sqrt(mean(x²) + eps) of each row of float32 (rows, width), as RMSNorm has it; evaluated."""
    out = x * weight
    mx.eval(x, out)
    numbers, outs = host_view(x), host_view(out)
    width = numbers.shape[1]
    rows = max(1, _CACHED // width)
    with np.errstate(over="ignore", invalid="ignore"):  # as above, of rows that are not finite
        for begin in range(0, len(outs), rows):
            part = numbers[begin : begin + rows]
            size = np.einsum("ij,ij->i", part, part)
            size /= width
            size += eps
            outs[begin : begin + rows] /= np.sqrt(size, out=size)[:, None]
    return out


def rotate(heads: Floats, cos: Floats, sin: Floats) -> None:
    """Rotate the pairs (i, i + d/2) of heads (heads, tokens, d), in place.

    cos, sin: of each token's angles, (tokens, d/2), or what they are to be multiplied by.
    """
    half = cos.shape[1]
    tokens = max(1, _CACHED // (2 * half))
    for head in heads:
        for begin in range(0, len(head), tokens):
            part = slice(begin, begin + tokens)
            first, second = head[part, :half], head[part, half:]
            turned = first * sin[part]
            first *= cos[part]
            first -= second * sin[part]
            second *= cos[part]
            second += turned
