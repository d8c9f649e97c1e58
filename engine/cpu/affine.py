"""What MLX's affine quantisation stands for, on a CPU."""

from __future__ import annotations

import mlx.core as mx

WHOLE = (4, 8)
"""Bits of codes that never lie in two words' bytes."""


def numbers(words: mx.array, scales: mx.array, biases: mx.array, bits: int) -> mx.array:
    """scale · code + bias, (rows, columns) of words (rows, columns · bits / 32) and scales (rows, groups).

    As `mx.dequantize`, in a half or a third of the time that MLX takes on a CPU, which goes through the words
    one by one. Any number of dimensions may stand before the last. `bits`: one of WHOLE.
    """
    octets = words.view(mx.uint8)
    codes = octets if bits == 8 else mx.stack([octets & 15, octets >> 4], axis=-1)
    rows = codes.reshape(*scales.shape, -1) * scales[..., None] + biases[..., None]
    return rows.reshape(*scales.shape[:-1], -1)
