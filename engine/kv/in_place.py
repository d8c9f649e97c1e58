"""The in-place set: kernels write pages and read them, and a fence carries the order.

MLX orders only what it knows: a kernel's outputs. A pool that a kernel writes is an input to MLX, so every
launch that touches pools takes something that the last one made, the fence. Whoever else touches pools
(growing the arena, the host) synchronises first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from engine.kv.arena import Arena
from engine.kv.arena_pools import ArenaPools
from engine.kv.page_table import NO_PAGE, PageTable
from engine.kv.pager import Pager
from engine.kv.step import causal_mask
from engine.kv.window import first_seen
from engine.layers.attention import Attend, AttentionLayer
from engine.pacing.chunking import is_common
from engine.steps.staging import Staging
from metal.attention_shape import AttentionShape
from metal.constants import device_integers
from metal.decode_attention import DecodeAttention
from metal.padded_attention import attend_padded, padded_mask, rounded
from metal.page_copy import PageCopy
from metal.page_gather import PageGather
from metal.page_write import PageWrite
from metal.pools import Pages
from metal.prefill_attention import PrefillAttention
from metal.sequences import Sequences, numbers_of_one

MOST_SHORT = 64
"""Tokens of a short chunk, for which attention is cut as a trial of few found best."""

MOST_FEW = 512
"""Tokens of a chunk that alone does not keep a device busy."""

SMALLEST_BATCH = 8
"""Elements that `lengths` has at least: fewer would reach a kernel as another kind of memory."""

_UNUSED = -(1 << 30)
"""The length of a row that no sequence has; it stays negative however many steps are added to it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Where the sequences of a step lie: page tables (sequences, width) and lengths before it, int32."""

    tables: mx.array
    lengths: mx.array


def table_pages(tokens: int, partition: int, page_size: int) -> int:
    """Pages that page tables have room for in a step after which the longest sequence has `tokens`.

    A power of two of partitions: a step compiled for them serves until the chat has doubled.
    """
    partitions = 1 << (-(-tokens // partition) - 1).bit_length()
    return partitions * partition // page_size


_Pages = tuple[tuple[int, ...], ...]
"""Of each sequence of a batch."""

_FEW_ADDED = 8
"""Pages that a batch may get at once for the device to put them into its table, each in two launches."""


class BatchTables:
    """Page tables and lengths as arrays, built anew only when a sequence was added or lost a page.

    What the host writes, a GPU has to fetch: for a steady batch nothing is written, and lengths stay there.
    A page that is added is a number or two, which the device reads where the host has them.

    Attributes:
        lengths: int32, at least one for each sequence: before the next step, as the last one computes them.
    """

    def __init__(self, page_size: int, partition: int, staging: Staging) -> None:
        self._page_size, self._partition, self._staging = page_size, partition, staging
        self._last: tuple[_Pages, int] = ((), 0)
        self._array = self._places = mx.array(0)
        self._known: list[int] = []  # what is in lengths
        self._after: list[int] = []  # and what is, when the step is done
        self.lengths = mx.array(0)

    def batch(self, tables: Sequence[PageTable], tokens: int) -> Batch:
        """Of sequences that get `tokens` more tokens each, whose pages are there already."""
        longest = max(table.length for table in tables) + tokens
        width = table_pages(longest, self._partition, self._page_size)
        pages = tuple(tuple(table.pages) for table in tables)
        if self._last != (pages, width):
            self._update(pages, width)
            self._last = (pages, width)
        lengths = [table.length for table in tables]
        if lengths != self._known:
            unused = [_UNUSED] * (SMALLEST_BATCH - len(tables))
            self.lengths = self._staging.integers([*lengths, *unused])
        self._known, self._after = lengths, [length + tokens for length in lengths]
        return Batch(self._array, self.lengths)

    def _update(self, pages: _Pages, width: int) -> None:
        before, was_wide = self._last
        added: list[tuple[int, int]] = []
        is_more = len(before) == len(pages) and was_wide == width
        for row, (old, new) in enumerate(zip(before, pages, strict=False)):
            is_more = is_more and new[: len(old)] == old
            added += [(row * width + place, new[place]) for place in range(len(old), min(len(new), width))]
        if is_more and len(added) <= _FEW_ADDED:
            for place, page in added:
                self._array = mx.where(self._places == place, page, self._array)
            mx.async_eval(self._array)  # by itself, so that the step launches what the one before did
            return
        numbers = list[int]()
        for row in pages:
            numbers += row[:width]
            numbers += [NO_PAGE] * (width - len(row))
        self._array = self._staging.integers(numbers).reshape(len(pages), width)
        self._places = mx.arange(len(numbers), dtype=mx.int32).reshape(len(pages), width)

    def stepped(self, lengths: mx.array) -> None:
        """Take the lengths after the step as the device computed them: the next batch is likely the same."""
        self.lengths, self._known = lengths, self._after


@dataclass(frozen=True, slots=True)
class AttentionKernels:
    """The in-place set for one shape.

    Attributes:
        decode: steps of 1 to 8 tokens.
        write: many tokens into their pages.
        prefill: attention where their history lies, of up to MOST_FEW tokens; None where it is faster to
            gather the history for MLX's own attention.
        long: the same of more tokens, by which that one may win.
        short: the same of a short chunk whose lengths come once.
        gather: that.
        copy: pages onto others, before one of several holders writes.
        pads: whether a chunk whose lengths come once is attended to at rounded lengths: MLX's own attention
            may prepare itself for each shape anew.
    """

    decode: DecodeAttention
    write: PageWrite
    gather: PageGather
    copy: PageCopy
    prefill: PrefillAttention | None = None
    long: PrefillAttention | None = None
    short: PrefillAttention | None = None
    pads: bool = False

    @property
    def rounds(self) -> bool:
        """Whether a chunk whose lengths come once is computed at rounded ones, so that it can be traced."""
        return self.pads or self.short is not None

    def short_for(self, tokens: int) -> PrefillAttention | None:
        """`short`, if it is there and a chunk of so many tokens is short."""
        return self.short if tokens <= MOST_SHORT else None

    def prefill_for(self, tokens: int) -> PrefillAttention | None:
        """Attention where the history lies, for a chunk of so many tokens."""
        return self.prefill if tokens <= MOST_FEW else self.long

    def in_pages(self, tokens: int) -> PrefillAttention | None:
        """The same for a chunk whose lengths come once."""
        return self.short_for(tokens) or self.prefill_for(tokens)


class InPlaceStep:
    """One step of a batch, 1 to 8 tokens a sequence: an Attend that puts the next fence into `pools`."""

    def __init__(
        self,
        kernels: Mapping[AttentionShape, AttentionKernels],
        pools: ArenaPools,
        batch: Batch,
        angles: mx.array,
    ) -> None:
        """`angles`: (positions, rotary_dims) of every position in use, of Rope.table."""
        self._kernels = kernels
        self._pools = pools
        self._batch = batch
        self._angles = angles

    def __call__(self, layer: AttentionLayer, qkv: mx.array) -> mx.array:
        """See Attend."""
        index = layer.index
        pages = Pages(self._pools.layer(index), self._batch.tables, self._batch.lengths)
        decode = self._kernels[layer.shape].decode
        self._pools.fence = out = decode(qkv, self._angles, pages, norms=layer.norms)
        return out


class InPlaceMix:
    """A batch's next tokens, one a sequence, and then those of another sequence's prompt: an Attend."""

    def __init__(self, batch: InPlaceStep, sequences: int, prompt: Attend[mx.array]) -> None:
        """`batch`: of so many `sequences`; `prompt`: of tokens of one more."""
        self._batch, self._sequences, self._prompt = batch, sequences, prompt

    def __call__(self, layer: AttentionLayer, qkv: mx.array) -> mx.array:
        """See Attend; the batch's rows come first."""
        answers = self._batch(layer, qkv[: self._sequences])
        return mx.concatenate([answers, self._prompt(layer, qkv[self._sequences :])])


class InPlacePrefill:
    """Many tokens of one sequence, whose pages are there already: an Attend that works on `arena`."""

    def __init__(
        self,
        kernels: Mapping[AttentionShape, AttentionKernels],
        arena: Arena,
        pager: Pager,
        table: PageTable,
        tokens: int,
        angles: mx.array,
        rows: int,
        staging: Staging,
    ) -> None:
        """
        Args:
            angles: (positions, rotary_dims) of every position in use, of Rope.table.
            rows: at least `tokens`; what is behind these is padding, and is not kept.
            staging: by which its numbers reach the device.
        """
        self._kernels, self._pools = kernels, arena.pools
        self._begin, self._end = table.length, table.length + tokens
        self._angles = angles[self._begin : self._begin + rows]
        if (missing := rows - self._angles.shape[0]) > 0:
            self._angles = mx.pad(self._angles, [(0, missing), (0, 0)])
        pages = np.array([*table.pages, *[NO_PAGE] * SMALLEST_BATCH], np.int32)
        own = pages[self._begin // pager.page_size : pager.pages_for(self._end)]
        if NO_PAGE in own:
            raise ValueError(f"tokens {self._begin} … {self._end - 1} are not all in pages")
        slots = (own[:, None] * pager.page_size + np.arange(pager.page_size, dtype=np.int32)).reshape(-1)
        slots = slots[self._begin % pager.page_size :][:tokens]
        slots = np.pad(slots, (0, max(rows, SMALLEST_BATCH) - tokens), constant_values=-1)
        room = arena.pages * arena.page_size
        sequence = numbers_of_one(self._begin, tokens, pages.tolist(), slots=room, rows=rows)
        written = staging.integers(np.concatenate([np.array(sequence, np.int32), slots]))
        numbers, self._slots = mx.split(written, [len(sequence)])
        self._sequences = Sequences(1, numbers, len(pages))
        self._table = self._sequences.tables
        self._masks: dict[int | None, mx.array | str] = {}

    def __call__(self, layer: AttentionLayer, qkv: mx.array) -> mx.array:
        """See Attend."""
        index, shape = layer.index, layer.shape
        first = first_seen(self._begin, shape.window)
        kernels = self._kernels[shape]
        pools = self._pools.layer(index)
        arguments = (qkv, self._angles, self._slots, pools)
        tokens, rows = self._end - self._begin, qkv.shape[0]
        is_odd = not is_common(self._begin, tokens)
        attention = kernels.in_pages(tokens) if is_odd else kernels.prefill_for(tokens)
        pads = kernels.pads and is_odd
        is_short = is_odd and kernels.short_for(tokens) is not None
        if first == self._begin and not pads and not is_short:
            q, keys, values, fence = kernels.write.chunk(*arguments, norms=layer.norms)
        elif attention is not None:
            q = kernels.write.queries(*arguments, norms=layer.norms)
            parts = attention.parts(rows, self._end - first)
            out, self._pools.fence = attention(q, pools, self._sequences, rows, parts=parts)
            return out
        else:
            q = kernels.write.queries(*arguments, norms=layer.norms)
            keys, values, fence = kernels.gather(
                replace(pools, fence=q),
                self._table,
                device_integers(first)[:1],
                self._end - first,
                rounded(self._end - first) if pads else 0,
            )
        self._pools.fence = fence
        if pads:
            out = attend_padded(q, keys, values, shape.scale, self._padded_mask(first, layer))
        else:
            mask = self._mask(first, shape.window)
            out = mx.fast.scaled_dot_product_attention(
                q[None], keys[None], values[None], scale=shape.scale, mask=mask
            ).squeeze(0)
        return out.swapaxes(0, 1).reshape(rows, -1)

    def _mask(self, first: int, window: int | None) -> mx.array | str:
        if window not in self._masks:
            self._masks[window] = causal_mask(self._begin, self._end, first, window)
        return self._masks[window]

    def _padded_mask(self, first: int, layer: AttentionLayer) -> mx.array | str:
        window = layer.shape.window
        if window not in self._masks:
            tokens, seen = self._end - self._begin, self._end - first
            is_square = tokens == seen and (window is None or seen <= window)
            mask = "causal" if is_square else padded_mask(tokens, seen, window, layer.shape.dtype)
            self._masks[window] = mask
        return self._masks[window]
