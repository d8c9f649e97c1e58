"""What a process comes to of a prompt's chunk, in memory that it shares with the engine's."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from itertools import accumulate
from math import prod

import numpy as np

from engine.layers.attention import AttentionLayer
from engine.layers.host_math import Floats

_FLOAT = np.dtype(np.float32).itemsize
_TEXT = mmap.PAGESIZE
"""Bytes for why it failed."""


class ChunkMemory:
    """Keys and values of each layer, the last hidden state, and why nothing came of it.

    The system gives memory to what is written, and takes back what is forgotten.

    Attributes:
        hidden: float32 (1, width), of the chunk's last token.
    """

    def __init__(self, layers: Sequence[AttentionLayer], tokens: int, width: int) -> None:
        """Raises OSError where the system has no room for it."""
        shapes = [(2, layer.shape.kv_heads, tokens, layer.shape.head_dim) for layer in layers]
        sizes = [_TEXT, *(_whole_pages(prod(shape) * _FLOAT) for shape in shapes)]
        *begins, end = accumulate(sizes)
        self._memory = mmap.mmap(-1, end + _whole_pages(width * _FLOAT))
        self._places = list(zip(begins, sizes[1:], strict=True))
        self._rows = [
            self._floats(begin, prod(shape)).reshape(shape)
            for begin, shape in zip(begins, shapes, strict=True)
        ]
        self.hidden = self._floats(end, width)[None]

    def rows(self, layer: int) -> tuple[Floats, Floats]:
        """Keys and values of the chunk's tokens, each (kv_heads, tokens, head_dim)."""
        keys, values = self._rows[layer]
        return keys, values

    def forget(self, layer: int) -> None:
        """Its keys and values are not wanted any more."""
        self._memory.madvise(mmap.MADV_REMOVE, *self._places[layer])

    @property
    def failure(self) -> str:
        """What went wrong; empty where nothing did, or where nobody could say it."""
        return self._memory[:_TEXT].rstrip(b"\0").decode(errors="replace")

    @failure.setter
    def failure(self, text: str) -> None:
        said = text.encode()[:_TEXT]
        self._memory[: len(said)] = said

    def _floats(self, begin: int, count: int) -> Floats:
        return np.frombuffer(self._memory, np.float32, count, begin)


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
