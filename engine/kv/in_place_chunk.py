"""A chunk of one sequence at rounded lengths, on kernels that write and read pages: it can be traced.

See engine/kv/in_place.py for the order of launches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from engine.kv.arena_pools import ArenaPools
from engine.kv.in_place import SMALLEST_BATCH, AttentionKernels
from engine.kv.pager import NO_PAGE, PageTable
from engine.layers.attention import AttentionLayer
from metal.attention_shape import AttentionShape
from metal.padded_attention import attend_padded, mask_at, rounded
from metal.pools import Pages, Pools


@dataclass(frozen=True, slots=True)
class ChunkForm:
    """Of a chunk that is computed at rounded lengths.

    Attributes:
        begin, tokens: it is tokens begin … begin+tokens-1 of its sequence.
        windows: of the layers that gather what it sees, each once.
    """

    begin: int
    tokens: int
    windows: tuple[int | None, ...]

    @classmethod
    def of(cls, begin: int, tokens: int, attention: Mapping[AttentionShape, AttentionKernels]) -> ChunkForm:
        """Of a chunk of a model whose layers have these shapes."""
        gathering = [shape.window for shape, each in attention.items() if each.in_pages(tokens) is None]
        return cls(begin, tokens, tuple(dict.fromkeys(gathering)))

    @property
    def end(self) -> int:
        """Tokens of the sequence with it."""
        return self.begin + self.tokens

    @property
    def rows(self) -> int:
        """Of its products; those behind its tokens are padding."""
        return rounded(self.tokens) if self.windows else chunk_rows(self.tokens)

    @property
    def room(self) -> int:
        """Tokens that its page table has room for."""
        return rounded(self.end) if self.windows else table_room(self.end)

    def first(self, window: int | None) -> int:
        """The first token that it sees."""
        return 0 if window is None else max(0, self.begin - window + 1)

    @property
    def shape(self) -> ChunkShape:
        """What of it is no number on the device."""
        keys = tuple(rounded(self.end - self.first(window)) for window in self.windows)
        return self.rows, self.room, *keys

    def written(self, table: PageTable, ids: Sequence[int], page_size: int) -> mx.array:
        """Its numbers, as InPlaceChunk takes them: int32, one array.

        A GPU's host waits a tenth of a millisecond and more for each that it writes.

        Args:
            table: of the sequence, with pages for the chunk.
            ids: of the chunk's tokens.
            page_size: tokens a page.
        """
        wide = self.room // page_size
        pages = np.full(wide, NO_PAGE, np.int32)
        used = -(-self.end // page_size)
        pages[:used] = table.pages[:used]
        own = pages[self.begin // page_size : used]
        if NO_PAGE in own:
            raise ValueError(f"tokens {self.begin} … {self.end - 1} are not all in pages")
        into = (own[:, None] * page_size + np.arange(page_size, dtype=np.int32)).reshape(-1)
        rows = np.zeros((2, self.rows), np.int32)
        rows[0] = -1
        rows[0, : self.tokens] = into[self.begin % page_size :][: self.tokens]
        rows[1, : self.tokens] = ids
        numbers = np.zeros((2 + len(self.windows), SMALLEST_BATCH), np.int32)
        numbers[0, 0] = self.begin
        numbers[1, 1] = self.tokens
        for number, window in zip(numbers[2:], self.windows, strict=True):
            first = self.first(window)
            number[:5] = rounded(self.end - first), self.end - first, 0, 0, first
        return mx.array(np.concatenate([*numbers, *rows, pages]))


ChunkShape = tuple[int, ...]
"""Rows, room for tokens in its page table, and for keys in each window of layers that gather."""

_FEW_ROWS = 32

_LEAST_ROOM = 256
"""Tokens; 8 pages or more, as fewer integers would reach a kernel as another kind of memory."""


def chunk_rows(tokens: int) -> int:
    """Rows of the products of a chunk that gathers nothing."""
    return _FEW_ROWS if tokens <= _FEW_ROWS else rounded(tokens)


def table_room(tokens: int) -> int:
    """Tokens that a page table has room for where nothing is gathered: more room costs nothing."""
    return max(_LEAST_ROOM, 1 << (tokens - 1).bit_length())


def table_rooms(least: int, most: int) -> Iterator[int]:
    """What `table_room` is of `least` … `most` tokens."""
    room = table_room(least)
    while room < 2 * most:
        yield room
        room *= 2


class InPlaceChunk:
    """A chunk of a sequence whose pages are there already, at rounded lengths: an Attend.

    Nothing of it is a number of the host's but its shape: it may be traced.

    Attributes:
        ids: of all rows, uint32 (rows,).
    """

    def __init__(
        self,
        kernels: Mapping[AttentionShape, AttentionKernels],
        pools: ArenaPools,
        shape: ChunkShape,
        windows: Sequence[int | None],
        written: mx.array,
        angles: mx.array,
    ) -> None:
        """`windows`, `written`: of ChunkForm; `angles`: (positions, rotary_dims) of every position in use."""
        rows, room, *keys = shape
        self._kernels, self._pools, self._rows, self._room = kernels, pools, rows, room
        count = len(windows)
        sizes = [*[SMALLEST_BATCH] * (2 + count), rows, rows]
        numbers = written + 0  # where the device has it, not in memory that migrates
        self._lengths, self._offsets, *spans, self._slots, ids, self._table = mx.split(
            numbers, np.cumsum(sizes).tolist()
        )
        self.ids = ids.astype(mx.uint32)
        own = self._lengths[:1] + mx.minimum(mx.arange(rows), self._offsets[1:2] - 1)
        self._angles = angles[own]
        self._spans = dict(zip(windows, zip(spans, keys, strict=True), strict=True))
        self._own = own
        self._masks: dict[int | None, mx.array] = {}

    def __call__(self, layer: AttentionLayer, qkv: mx.array) -> mx.array:
        """See Attend; what comes out of padding means nothing."""
        index, shape = layer.index, layer.shape
        kernels = self._kernels[shape]
        pools = self._pools.layer(index)
        q, fence = kernels.write.queries(qkv, self._angles, self._slots, pools, norms=layer.norms)
        if shape.window not in self._spans:
            return self._in_pages(layer, q, replace(pools, fence=fence))
        span, room = self._spans[shape.window]
        pools = replace(pools, fence=fence)
        keys, values, fence = kernels.gather.rows(pools, self._table, span[4:5], room, span[:4])
        self._pools.fences[index] = fence
        out = attend_padded(q, keys, values, shape.scale, self._mask(shape, span, room))
        return out.swapaxes(0, 1).reshape(qkv.shape[0], -1)

    def _in_pages(self, layer: AttentionLayer, q: mx.array, pools: Pools) -> mx.array:
        kernels = self._kernels[layer.shape]
        attention = kernels.in_pages(self._rows)
        assert attention is not None  # or its window were one of those that gather
        pages = Pages(pools, self._table[None], self._lengths)
        parts = kernels.parts(self._rows, self._room)
        out, fence = attention(q, pages, self._offsets, self._rows, parts=parts)
        self._pools.fences[layer.index] = fence
        return out

    def _mask(self, shape: AttentionShape, span: mx.array, room: int) -> mx.array:
        window = shape.window
        if window not in self._masks:
            self._masks[window] = mask_at(self._own - span[4:5], room, window, shape.dtype)
        return self._masks[window]
