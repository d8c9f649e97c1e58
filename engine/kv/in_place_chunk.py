"""A chunk of one sequence at rounded lengths, on kernels that write and read pages: it can be traced.

See engine/kv/in_place.py for the order of launches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import mlx.core as mx

from engine.kv.arena_pools import ArenaPools
from engine.kv.in_place import SMALLEST_BATCH, AttentionKernels
from engine.kv.page_table import NO_PAGE, PageCopy, PageTable
from engine.kv.window import first_seen
from engine.layers.attention import AttentionLayer, ProjectingAttend, Projection
from engine.layers.linear import Linear
from engine.layers.norm import RMSNorm
from metal.attention_shape import AttentionShape
from metal.matmul_pages import MatmulPages
from metal.padded_attention import attend_padded, mask_at, rounded
from metal.page_copy import PageCopy as Copier
from metal.pools import Pools
from metal.sequences import Sequences
from metal.unpack import Room, Unpack


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
        return first_seen(self.begin, window)

    @property
    def shape(self) -> ChunkShape:
        """What of it is no number on the device."""
        keys = tuple(rounded(self.end - self.first(window)) for window in self.windows)
        return self.rows, self.room, *keys

    def numbers(
        self, table: PageTable, ids: Sequence[int], page_size: int, slots: int, copied: PageCopy | None
    ) -> list[int]:
        """What the host writes of it, for `unpacked`.

        Python's lists take half of the time of numpy's arrays: little of what makes these is in the
        processor's cache by then.

        Args:
            table: of the sequence, with pages for the chunk.
            ids: of the chunk's tokens.
            page_size: tokens a page.
            slots: tokens that the arena has room for.
            copied: what is to be copied onto the page of the first of them; None where nothing is.
        """
        begin, end = self.begin, self.end
        pages = table.pages[: -(-end // page_size)]
        if NO_PAGE in pages[begin // page_size :]:
            raise ValueError(f"tokens {begin} … {end - 1} are not all in pages")
        pair = () if copied is None else (copied.source, copied.target, begin % page_size)
        spans = list[int]()
        for window in self.windows:
            first = self.first(window)
            spans += (rounded(end - first), end - first, 0, 0, first, 0, 0, 0)
        return room_of(self.shape, page_size).numbers(begin, ids, pages, slots, pair, spans)


ChunkShape = tuple[int, ...]
"""Rows, room for tokens in its page table, and for keys in each window of layers that gather."""


def room_of(shape: ChunkShape, page_size: int) -> Room:
    """For its numbers, and behind them a span of each window."""
    rows, room, *keys = shape
    return Room(rows, room // page_size, SMALLEST_BATCH * len(keys))


FEW_ROWS = 32
"""Of the products of a chunk of no more tokens."""

_LEAST_ROOM = 256
"""Tokens; 8 pages or more, as fewer integers would reach a kernel as another kind of memory."""


def chunk_rows(tokens: int) -> int:
    """Rows of the products of a chunk that gathers nothing."""
    return FEW_ROWS if tokens <= FEW_ROWS else rounded(tokens)


def table_room(tokens: int) -> int:
    """Tokens that a page table has room for where nothing is gathered: more room costs nothing."""
    return max(_LEAST_ROOM, 1 << (tokens - 1).bit_length())


def table_rooms(least: int, most: int) -> Iterator[int]:
    """What `table_room` is of `least` … `most` tokens."""
    room = table_room(least)
    while room < 2 * most:
        yield room
        room *= 2


@dataclass(frozen=True, slots=True)
class ChunkNumbers:
    """What layers read of a chunk beside its tokens, on the device: made once, by the first of them.

    Attributes:
        slots: where each row goes, and what each layer copies before it is read: of MatmulPages.
        sequence: of PrefillAttention.
        angles: of each row's position, float32 (rows, rotary_dims).
        spans: of each window of layers that gather: what PageGather.rows takes, int32.
        masks: of each of these, (rows, keys).
    """

    slots: mx.array
    sequence: mx.array
    angles: mx.array
    spans: list[mx.array]
    masks: list[mx.array]

    @classmethod
    def of(cls, arrays: NumberArrays) -> ChunkNumbers:
        """Those of `arrays`."""
        (slots, sequence, angles), spans, masks = arrays
        return cls(slots, sequence, angles, spans, masks)

    @property
    def arrays(self) -> NumberArrays:
        """All of them, as what is traced hands them on."""
        return [self.slots, self.sequence, self.angles], self.spans, self.masks


NumberArrays = tuple[list[mx.array], list[mx.array], list[mx.array]]
"""Those that there is one of, and those of each window."""


def unpacked(
    unpack: Unpack,
    room: Room,
    shape: ChunkShape,
    windows: Sequence[int | None],
    dtype: mx.Dtype,
    written: mx.array,
    angles: mx.array,
) -> tuple[mx.array, ChunkNumbers]:
    """The ids of all rows of a chunk, uint32 (rows,), and its numbers.

    Args:
        room: of `room_of`.
        shape, windows: of ChunkForm.
        dtype: of the model.
        written: its numbers, int32.
        angles: (positions, rotary_dims) of every position in use.
    """
    rows, _, *keys = shape
    made = unpack(written, angles, room)
    ids, spans, masks = made.rest, list[mx.array](), list[mx.array]()
    if windows:
        ends = [2 * rows + SMALLEST_BATCH * number for number in range(len(windows))]
        ids, positions, *spans = mx.split(made.rest, [rows, *ends])
        positions, spans = positions.view(mx.int32), [span.view(mx.int32) for span in spans]
        masks = [
            mask_at(positions - span[4:5], room_for_keys, window, dtype)
            for window, span, room_for_keys in zip(windows, spans, keys, strict=True)
        ]
    return ids, ChunkNumbers(made.slots, made.sequences.numbers, made.angles, spans, masks)


class ChunkOps(Protocol):
    """What makes a chunk's projections."""

    def project(self, x: mx.array, norm: RMSNorm, linear: Linear) -> mx.array:
        """See LinearOps."""
        ...

    def to_pages(self, x: mx.array, projection: Projection) -> MatmulPages | None:
        """What projects x, and writes pages in the same launch; None where these are two."""
        ...


class InPlaceChunk(ProjectingAttend[mx.array]):
    """A chunk of a sequence whose pages are there already, at rounded lengths.

    Nothing of it is a number of the host's but its shape: it may be traced.
    """

    def __init__(
        self,
        ops: ChunkOps,
        kernels: Mapping[AttentionShape, AttentionKernels],
        pools: ArenaPools,
        shape: ChunkShape,
        windows: Sequence[int | None],
        numbers: ChunkNumbers,
    ) -> None:
        """`shape`, `windows`: of ChunkForm; `numbers`: of `unpacked`."""
        self._rows, room, *keys = shape
        self._ops, self._kernels, self._pools, self._numbers = ops, kernels, pools, numbers
        self._room = room
        self._sequences = Sequences(1, numbers.sequence, room // next(iter(kernels)).page_size)
        gathered = zip(numbers.spans, keys, numbers.masks, strict=True)
        self._gathered = dict(zip(windows, gathered, strict=True))

    def copy_page(self, x: mx.array, copiers: Sequence[Copier], projections: Sequence[Projection]) -> None:
        """Copy what the chunk is to copy, before its layers, unless the projections of all do so in passing.

        Args:
            x: what goes into the first of them.
            copiers, projections: of each layer.
        """
        if not all(self._ops.to_pages(x, projection) for projection in projections):
            self._pools.copy_page(copiers, self._numbers.slots[self._rows :])

    def __call__(self, layer: AttentionLayer, x: mx.array, projection: Projection) -> mx.array:
        """See ProjectingAttend; what comes out of padding means nothing."""
        shape, pools = layer.shape, self._pools.layer(layer.index)
        q = self._written(layer, x, projection, pools)
        if shape.window not in self._gathered:
            return self._in_pages(shape, q, pools)
        span, room, mask = self._gathered[shape.window]
        gather = self._kernels[shape].gather
        keys, values, self._pools.fence = gather.rows(
            replace(pools, fence=q), self._sequences.tables, span[4:5], room, span[:4]
        )
        out = attend_padded(q, keys, values, shape.scale, mask)
        return out.swapaxes(0, 1).reshape(x.shape[0], -1)

    def _written(self, layer: AttentionLayer, x: mx.array, projection: Projection, pools: Pools) -> mx.array:
        """Rotated queries (heads, rows, head_dim); the chunk's keys and values go to the layer's pools."""
        numbers = self._numbers
        if product := self._ops.to_pages(x, projection):
            return product(x, numbers.angles, numbers.slots, pools)
        write = self._kernels[layer.shape].write
        qkv = self._ops.project(x, projection.norm, projection.linear)
        return write.queries(qkv, numbers.angles, numbers.slots[: self._rows], pools, norms=layer.norms)

    def _in_pages(self, shape: AttentionShape, q: mx.array, pools: Pools) -> mx.array:
        attention = self._kernels[shape].in_pages(self._rows)
        assert attention is not None  # or its window were one of those that gather
        parts = attention.parts(self._rows, self._room)
        out, self._pools.fence = attention(q, pools, self._sequences, self._rows, parts=parts)
        return out
