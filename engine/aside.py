"""A prompt's chunk on a thread of its own, beside answers: for a CPU, of which answers alone leave half idle.

It reads earlier tokens where they lie: the engine's thread writes into the same pools meanwhile, but to other
slots, as nobody writes to a page that a table holds but behind its tokens. What it has come to it leaves to
the engine's thread, a layer at a time, which stores it between two steps of the answers. Where the arena
grows, it reads on in the old pools, which live until then beside the new ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

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
from engine.kv.pool_spans import write
from engine.kv.window import first_seen
from engine.layers.attention import AttentionLayer
from engine.layers.decoder import Decoder
from engine.layers.host_math import Floats
from engine.layers.waiting_ops import WaitingOps
from engine.processors import ENGINE_THREAD, are_two, kept_apart, step_back

NICER = 3
"""By how much it, and MLX's thread for it, leave the processors to others: docs/cache-measured.md has why."""

_NAME = "mlxr-prompt"


@dataclass(frozen=True, slots=True)
class LayerRows:
    """Keys and values of a layer, evaluated, float32 (kv_heads, tokens, head_dim)."""

    layer: int
    keys: mx.array
    values: mx.array


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a chunk's tokens see in a layer of those before them, where it lies.

    Attributes:
        keys, values: float32 (kv_heads, slots, head_dim) of all slots.
        spans: the slots of those that are seen, in order.
    """

    keys: Floats
    values: Floats
    spans: Sequence[Span]

    def rows(self, of: Floats) -> list[Floats]:
        """What is seen of the keys or the values."""
        return [of[:, span.begin : span.end] for span in self.spans]


class AsideChunk:
    """One chunk, some tokens of one sequence, on its way through the model.

    Attributes:
        layers: that are computed and in pages.
        hidden: what came out of the last layer, (tokens, width); None before, and where nobody wants it.
    """

    def __init__(
        self,
        decoder: Decoder,
        crew: Crew,
        ids: mx.array,
        begin: int,
        earlier: Mapping[int, Earlier],
        *,
        is_last: bool,
    ) -> None:
        """`ids`: evaluated, of tokens from `begin` on. `earlier`: by layer. `is_last`: `hidden` is wanted."""
        self._decoder, self._ids, self.begin, self._is_last = decoder, ids, begin, is_last
        self._crew, self._seen = crew, dict(earlier)
        self.tokens = ids.size
        self.layers = 0
        self.hidden: mx.array | None = None
        self._angles = decoder.rope.angles(range(begin, begin + self.tokens))
        self._rows = deque[LayerRows]()
        self._news = Event()
        self._is_abandoned = False
        self._error: Exception | None = None

    @property
    def is_through(self) -> bool:
        """Whether all of it is in pages, and `hidden` there if it is wanted."""
        is_stored = self.layers == len(self._decoder.attention)
        return is_stored and (self.hidden is not None or not self._is_last)

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
        ops = WaitingOps(self._crew)
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
        keys, values = [host_view(own.keys)], [host_view(own.values)]
        if earlier := self._seen.pop(layer.index, None):
            keys, values = earlier.rows(earlier.keys) + keys, earlier.rows(earlier.values) + values
        shape = layer.shape
        return attend_in_blocks(
            q, keys, values, shape.scale, shape.window, self._crew, helps_slowly=are_two()
        )


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
        begin, earlier = table.length, dict[int, Earlier]()
        table.is_read = True
        for layer in self._decoder.attention if begin else ():
            spans = self._pager.spans(table, first_seen(begin, layer.shape.window), begin)
            earlier[layer.index] = Earlier(*self._arena.on_host(layer.index), spans)
        chunk = AsideChunk(self._decoder, self._crew, ids, begin, earlier, is_last=is_last)
        self._thread.submit(chunk.run)
        return chunk

    def wait(self, chunk: AsideChunk, seconds: float) -> None:
        """Leave the processors to it until there is something to store, or so long."""
        self._crew.release()
        chunk.wait(seconds)
        if self._is_shared and not chunk.is_through:
            self._crew.hold()

    def store(self, chunk: AsideChunk, table: PageTable) -> None:
        """Store what was computed since, in its pages; on the engine's thread, while no step is in flight."""
        spans = self._pager.spans(table, chunk.begin, chunk.begin + chunk.tokens)
        for rows in chunk.take():
            for pool, new in zip(self._arena.on_host(rows.layer), (rows.keys, rows.values), strict=True):
                write(pool, host_view(new), spans)
        table.is_read = not chunk.is_through
