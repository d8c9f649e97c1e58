"""How a page stores keys and values: as they were computed, or quantised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from engine.cpu.affine import numbers
from engine.errors import EngineError
from engine.machine.machine import device_kind

GROUPS = (64, 32)
"""Elements of a head that share a scale and a bias, the preferred size first."""

_WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class Plane:
    """One of the arrays that keys, or values, are stored in.

    Attributes:
        suffix: of its name, behind "keys" or "values".
        width: elements for one token of one head.
        dtype: of an element.
    """

    suffix: str
    width: int
    dtype: mx.Dtype


class Coding(Protocol):
    """How rows (kv_heads, tokens, head_dim) are stored; a stored row belongs to one token of one head.

    Attributes:
        dtype: that rows are computed in.
    """

    @property
    def dtype(self) -> mx.Dtype: ...

    @property
    def planes(self) -> tuple[Plane, ...]:
        """What it stores them in."""
        ...

    def encode(self, rows: mx.array) -> tuple[mx.array, ...]:
        """What to store, (kv_heads, tokens, width) of each plane."""
        ...

    def decode(self, stored: Sequence[mx.array]) -> mx.array:
        """The rows, as near as they were stored, in the dtype that they were computed in."""
        ...


@dataclass(frozen=True, slots=True)
class AsComputed:
    """Every element as it is."""

    head_dim: int
    dtype: mx.Dtype

    @property
    def planes(self) -> tuple[Plane, ...]:
        """See Coding."""
        return (Plane("", self.head_dim, self.dtype),)

    def encode(self, rows: mx.array) -> tuple[mx.array, ...]:
        """See Coding."""
        return (rows,)

    def decode(self, stored: Sequence[mx.array]) -> mx.array:
        """See Coding."""
        return stored[0]


@dataclass(frozen=True, slots=True)
class Quantised:
    """`bits` of each element, with a scale and a bias for each group of a head: scale · code + bias.

    Codes are packed into words of 32 bits, the first element in the lowest bits (`mx.quantize`, affine).
    """

    head_dim: int
    dtype: mx.Dtype
    bits: int
    group: int

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Codes, scales, biases."""
        groups = self.head_dim // self.group
        return (
            Plane("", self.head_dim * self.bits // _WORD_BITS, mx.uint32),
            Plane("_scales", groups, self.dtype),
            Plane("_biases", groups, self.dtype),
        )

    def encode(self, rows: mx.array) -> tuple[mx.array, ...]:
        """See Coding."""
        codes, scales, biases = mx.quantize(rows, self.group, self.bits)
        return codes, scales, biases

    def decode(self, stored: Sequence[mx.array]) -> mx.array:
        """See Coding."""
        codes, scales, biases = stored
        if device_kind() != "CPU":
            return mx.dequantize(codes, scales, biases, self.group, self.bits)
        return numbers(codes, scales, biases, self.bits)


def takes_bits(head_dim: int) -> bool:
    """Whether heads of `head_dim` elements can be quantised."""
    return any(head_dim % size == 0 for size in GROUPS)


def coding(head_dim: int, dtype: mx.Dtype, bits: int | None) -> Coding:
    """How heads of `head_dim` elements are stored in `bits` bits, or None: as computed.

    Raises EngineError when quantisation does not take such heads.
    """
    if bits is None:
        return AsComputed(head_dim, dtype)
    group = next((size for size in GROUPS if head_dim % size == 0), None)
    if group is None:
        raise EngineError(
            f"this model's KV cache cannot be kept in {bits} bits: its heads have {head_dim} elements, "
            f"and only multiples of {GROUPS[-1]} can be quantised; leave kv_bits out"
        )
    return Quantised(head_dim, dtype, bits, group)


def head_bytes(stored: Coding) -> int:
    """Bytes that the keys, or the values, of one token take in one head."""
    return sum(plane.width * plane.dtype.size for plane in stored.planes)
