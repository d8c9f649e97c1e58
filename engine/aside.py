"""A prompt's chunk on a thread of its own, beside answers: for a CPU, of which answers alone leave half idle.

A write to the arena yields new pools, and would copy a pool that somebody else reads. So the engine's thread
alone reads and writes pages, a layer at a time: it hands over what a layer's tokens see of those before them,
and stores the keys and values that come back, between two steps of the answers. The other thread has all
that it computes with in memory of its own: of two layers and a chunk, which no budget of pages counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, current_thread

import mlx.core as mx

from engine import crew
from engine.blas import one_thread
from engine.crew import Crew
from engine.host_view import host_view
from engine.kv.arena import Arena
from engine.kv.block_attention import attend_in_blocks
from engine.kv.heads import heads_on_host
from engine.kv.page_table import PageTable, Span
from engine.kv.pager import Pager
from engine.layers.attention import AttentionLayer
from engine.layers.decoder import Decoder
from engine.layers.host_math import Floats
from engine.layers.waiting_ops import WaitingOps
from engine.processors import ENGINE_THREAD, are_two, kept_apart, step_back

_LOOK = 1.0
"""Seconds after which the thread looks whether the engine's is still there."""

NICER = 3
"""By how much it, and MLX's thread for it, leave the processors to others: docs/cache-measured.md has why."""

_NAME = "mlxr-prompt"

_ROOMS = 2
"""Layers whose earlier tokens lie ready at most: one is computed, and one comes next."""


@dataclass(frozen=True, slots=True)
class LayerRows:
    """Keys and values of a layer, evaluated, float32 (kv_heads, tokens, head_dim)."""

    layer: int
    keys: mx.array
    values: mx.array


@dataclass(slots=True)
class Room:
    """Memory for what a chunk's tokens see in a layer: those before them, and their own behind these.

    Attributes:
        keys, values: float32 (kv_heads, earlier + tokens, head_dim).
        seen: of the earlier ones, the last so many.
    """

    keys: mx.array
    values: mx.array
    seen: int = 0


class AsideChunk:
    """One chunk, some tokens of one sequence, on its way through the model.

    Attributes:
        layers: that are computed and in pages.
        hidden: what came out of the last layer, (tokens, width); None before, and where nobody wants it.
    """

    def __init__(self, decoder: Decoder, crew: Crew, ids: mx.array, begin: int, *, is_last: bool) -> None:
        """`ids`: evaluated, of tokens from `begin` on. `is_last`: `hidden` is wanted."""
        self._decoder, self._ids, self.begin, self._is_last = decoder, ids, begin, is_last
        self._crew = crew
        self.tokens = ids.size
        self.layers = 0
        self.hidden: mx.array | None = None
        self._angles = decoder.rope.angles(range(begin, begin + self.tokens))
        self._earlier = max(_earlier(layer, begin) for layer in decoder.attention)
        attending = decoder.attention if is_last else decoder.attention[:-1]
        self._unfilled = deque(attending if begin else ())
        self._free = deque[Room]()
        self._filled = SimpleQueue[Room | None]()
        self._rows = deque[LayerRows]()
        self._news = Event()
        self._is_abandoned = False
        self._owner = current_thread()
        self._error: Exception | None = None

    @property
    def is_through(self) -> bool:
        """Whether all of it is in pages, and `hidden` there if it is wanted."""
        is_stored = self.layers == len(self._decoder.attention)
        return is_stored and (self.hidden is not None or not self._is_last)

    def fill(self, arena: Arena, pager: Pager, table: PageTable) -> None:
        """Hand over what the tokens see of earlier ones in the next layer, where there is memory for it."""
        if not self._unfilled or not self._free:
            return
        layer, room = self._unfilled.popleft(), self._free.popleft()
        room.seen = _earlier(layer, self.begin)
        spans = pager.spans(table, self.begin - room.seen, self.begin)
        seen = slice(self._earlier - room.seen, self._earlier)
        for stored, rows in zip(arena.on_host(layer.index), (room.keys, room.values), strict=True):
            _copy(stored, spans, host_view(rows)[:, seen])
        self._filled.put(room)

    def wait(self, seconds: float) -> None:
        """Until keys and values were computed since, or so long."""
        if not self.is_through:
            self._news.wait(seconds)

    def take(self) -> list[LayerRows]:
        """Keys and values that were computed since. Raises what the thread raised."""
        self._news.clear()
        if self._error is not None:
            raise self._error
        taken = [self._rows.popleft() for _ in range(len(self._rows))]
        self.layers += len(taken)
        return taken

    def abandon(self) -> None:
        """Nobody wants it any more: its thread ends it behind the layer that it is at."""
        self._is_abandoned = True
        self._crew.release()
        self._filled.put(None)

    def run(self) -> None:
        """Compute it, on the other thread."""
        try:
            # BLAS's threads would be waited for, and who computes answers finds what it reads in one cache.
            with one_thread(), kept_apart([ENGINE_THREAD, crew.NAME], [_NAME]):
                self._compute()
        except _Abandoned:
            pass
        except Exception as error:  # noqa: BLE001 — raised again where the chunk is taken
            self._error = error
        self._news.set()

    def _compute(self) -> None:
        ops, shape = WaitingOps(self._crew), self._decoder.attention[0].shape
        if self.begin:
            size = (shape.kv_heads, self._earlier + self.tokens, shape.head_dim)
            for _ in range(_ROOMS):
                keys, values = mx.zeros(size), mx.zeros(size)
                mx.eval(keys, values)
                self._free.append(Room(keys, values))
        if not self._is_last:
            self._decoder.store(self._ids, ops, self._attend, self._write)
            return
        hidden = self._decoder.hidden(self._ids, ops, self._attend)
        mx.eval(hidden)
        self.hidden = hidden

    def _write(self, layer: AttentionLayer, qkv: mx.array) -> tuple[mx.array, LayerRows]:
        """The layer's queries, (heads, tokens, head_dim), and what is to be stored."""
        if self._is_abandoned:
            raise _Abandoned
        q, keys, values = heads_on_host(layer, qkv, self._angles, self._crew)
        rows = LayerRows(layer.index, keys, values)
        self._rows.append(rows)
        self._news.set()
        return q, rows

    def _attend(self, layer: AttentionLayer, qkv: mx.array) -> mx.array:
        q, own = self._write(layer, qkv)
        shape, keys, values = layer.shape, own.keys, own.values
        room = self._next_room() if self.begin else None
        if room is not None:
            host_view(room.keys)[:, self._earlier :] = host_view(own.keys)
            host_view(room.values)[:, self._earlier :] = host_view(own.values)
            first = self._earlier - room.seen
            keys, values = room.keys[:, first:], room.values[:, first:]
        out = attend_in_blocks(q, keys, values, shape.scale, shape.window, self._crew, helps_slowly=are_two())
        if room is not None:
            self._free.append(room)
        return out

    def _next_room(self) -> Room:
        while self._owner.is_alive():
            with suppress(Empty):
                room = self._filled.get(timeout=_LOOK)
                if room is not None:
                    return room
                break
        raise _Abandoned


def _earlier(layer: AttentionLayer, begin: int) -> int:
    """How many tokens before token `begin` it sees, or those behind it."""
    window = layer.shape.window
    return begin if window is None else min(begin, window - 1)


def _copy(stored: Floats, spans: Sequence[Span], rows: Floats) -> None:
    """What `spans` of a pool hold, to `rows`."""
    begin = 0
    for span in spans:
        rows[:, begin : begin + span.length] = stored[:, span.begin : span.end]
        begin += span.length


def _begin(crew: Crew) -> None:
    """Of no model: the thread would keep it."""
    step_back(_NAME, NICER)
    crew.start()


class _Abandoned(Exception):
    """Nobody wants the chunk."""


class Aside:
    """Computes chunks one after the other on a thread that begins with the first."""

    def __init__(self, decoder: Decoder, arena: Arena, pager: Pager, crew: Crew) -> None:
        self._decoder, self._arena, self._pager, self._crew = decoder, arena, pager, crew
        self._is_shared = are_two()  # then who helps has what answers leave of their processor
        self._thread = ThreadPoolExecutor(1, _NAME, _begin, (crew,))

    def begin(self, table: PageTable, ids: mx.array, *, is_last: bool) -> AsideChunk:
        """Begin a chunk behind the tokens of `table`; see AsideChunk."""
        chunk = AsideChunk(self._decoder, self._crew, ids, table.length, is_last=is_last)
        self._thread.submit(chunk.run)
        return chunk

    def wait(self, chunk: AsideChunk, seconds: float) -> None:
        """Leave the processors to it until there is something to store, or so long."""
        self._crew.release()
        chunk.wait(seconds)
        if self._is_shared and not chunk.is_through:
            self._crew.hold()

    def exchange(self, chunk: AsideChunk, table: PageTable) -> int:
        """Store what was computed since, and hand over what comes next.

        On the engine's thread, while no step is in flight.

        Returns:
            The layers that were stored; their pages are written with the next step.
        """
        taken = chunk.take()
        if taken:
            spans = self._pager.spans(table, chunk.begin, chunk.begin + chunk.tokens)
            for rows in taken:
                self._arena.write_layer(rows.layer, rows.keys, rows.values, spans)
        chunk.fill(self._arena, self._pager, table)
        return len(taken)
