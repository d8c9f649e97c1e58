"""A prompt's chunk in a process of its own, beside answers: for a CPU, half of which these leave idle.

The process is forked between two steps, so that it sees weights and pages as they were then, whatever the
engine does with them meanwhile; of pages it gets those that the chunk's tokens see. What it has come to it
leaves in memory that both share, a layer at a time; the engine's thread stores it between two steps of the
answers.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from threading import Event, Lock
from weakref import ref

import mlx.core as mx

from engine.cpu.aside_memory import ChunkMemory
from engine.cpu.aside_process import ChunkWork, Earlier, compute_and_end
from engine.cpu.gate import Gate
from engine.cpu.left_out import Range, left_out, not_in
from engine.kv import growth
from engine.kv.arena import Arena
from engine.kv.page_table import PageTable, token_spans
from engine.kv.pool_spans import write
from engine.kv.window import first_seen
from engine.layers.decoder import Decoder
from engine.layers.host_math import Floats
from engine.loading.thread import nothing_is_read
from engine.machine.processors import ENGINE_THREAD, apart, halves, step_aside, usable

log = logging.getLogger(__name__)

NAME = "mlxr-aside"
"""Of the thread that hears of chunks, for the system."""

_STORED = 1 << 19
"""Bytes stored in a step beside answers: 0.2 ms."""

SILENCE_S = 120.0
"""For which a process may tell of no layer, which takes some seconds at most: after that it is ended."""
_MOST_BROKEN = 2
"""Processes, after which there are none any more: the next would do no better."""


class AsideBroke(RuntimeError):
    """The process that computed a chunk ended before it was through, or there was none for it."""


class AsideChunk:
    """One chunk, some tokens of one sequence, on its way through the model.

    Attributes:
        begin, tokens: where they begin in the sequence, and how many they are.
        layers: that are computed and in pages.
        hidden: the last token's, (1, width); None before it is there, and where nobody wants it.
        broke: whether its process ended before it was through though nobody had abandoned it.
    """

    def __init__(self, work: ChunkWork) -> None:
        """Begin it, on the engine's thread, while no step is in flight.

        Raises OSError where the system has no process for it.
        """
        self.begin, self.tokens, self.layers = work.begin, work.ids.size, 0
        self.hidden: mx.array | None = None
        self.broke = self._was_silent = self._is_abandoned = False
        self._memory, self._gate, self._processors = work.memory, work.gate, work.processors
        self._all, self._is_last, self._stored = len(work.decoder.attention), work.is_last, 0
        self._told, self._news, self._ending, self._error = 0, Event(), Lock(), ""
        self._told_at, news = os.pipe()
        try:
            self._process = os.fork()
        except OSError:
            os.close(self._told_at)
            os.close(news)
            raise
        if not self._process:
            compute_and_end(work, news)
        os.close(news)

    @property
    def is_through(self) -> bool:
        """Whether all of it is in pages, and `hidden` there if it is wanted."""
        return self.layers == self._all and (self.hidden is not None or not self._is_last)

    @property
    def computed(self) -> int:
        """Layers that are computed, in pages or not yet."""
        return min(self._told, self._all)

    @property
    def is_computed(self) -> bool:
        """Whether nothing is left to do for its process."""
        return self._told == self._all + self._is_last

    def wait(self, seconds: float) -> None:
        """Leave the processors to it until there is something to store, or so long."""
        self._gate.open()
        if not self.is_through:
            self._news.wait(seconds)
            if self._processors.are_apart:
                self._gate.close()

    def take(self, most: int) -> tuple[int, range, Floats, Floats] | None:
        """A layer, some of the chunk's tokens, at most so many, and their keys and values, to be stored.

        The next of those that were computed, each (kv_heads, tokens, head_dim); None when there are no more.
        Raises AsideBroke.
        """
        self._news.clear()
        told, error = self._told, self._error
        if self._is_last and told > self._all and self.hidden is None:
            self.hidden = mx.array(self._memory.hidden)
        if self.layers < min(told, self._all):
            tokens = range(self._stored, min(self._stored + most, self.tokens))
            keys, values = (rows[:, tokens.start : tokens.stop] for rows in self._memory.rows(self.layers))
            return self.layers, tokens, keys, values
        if error and not self.is_through:
            raise AsideBroke(error)
        return None

    def stored(self, tokens: range) -> None:
        """These, that were taken, are in pages."""
        self._stored = tokens.stop
        if self._stored == self.tokens:
            self._memory.forget(self.layers)
            self.layers, self._stored = self.layers + 1, 0

    def abandon(self) -> None:
        """Nobody wants it any more."""
        self._is_abandoned = True
        self._end()

    def _end(self) -> None:
        with self._ending:
            if self._process:
                os.kill(self._process, signal.SIGKILL)

    def watch(self) -> None:
        """On a thread, until its process has ended: note what is told of it."""
        with apart(ENGINE_THREAD, self._processors):
            while told := self._heard():
                self._told += len(told)
                self._news.set()
        os.close(self._told_at)
        with self._ending:
            _, status = os.waitpid(self._process, 0)
            self._process = 0
        if code := os.waitstatus_to_exitcode(status):
            self.broke = not self._is_abandoned
            silent = f"it told of nothing for {SILENCE_S:g} s" if self._was_silent else ""
            said = self._memory.failure or silent or f"it ended with {code}"
            self._error = f"the process that computed a prompt broke ({said})"
        self._news.set()

    def _heard(self) -> bytes:
        """What its process tells next; nothing when it has ended, as one does that is silent for too long."""
        listening = select.poll()
        listening.register(self._told_at, select.POLLIN)
        if not listening.poll(1000 * SILENCE_S):
            self._was_silent = True
            self._end()
        return os.read(self._told_at, self._all + 1)


class Aside:
    """Computes chunks, one after the other.

    Attributes:
        is_possible: whether there may be processes for them: not where the system has none, nor where several
            broke, or stood still, as one may that was forked while another thread held a lock.
        failure: why there are none any more, in words; "" while there are, and where there never were.
    """

    def __init__(self, decoder: Decoder, arena: Arena, threads: int) -> None:
        """`threads`: that compute a chunk."""
        self._decoder, self._arena, self._threads = decoder, arena, threads
        # Elsewhere a process that is forked may not use what the system's own libraries have begun.
        self.is_possible = sys.platform == "linux" and usable() > 1
        self._broken, self.failure = 0, ""
        self._watcher = ThreadPoolExecutor(1, NAME, partial(step_aside, NAME, 0))
        shape = decoder.attention[0].shape
        self._a_step = max(1, _STORED // (2 * shape.kv_heads * shape.head_dim * 4))

    def begin(self, table: PageTable, ids: mx.array, *, is_last: bool) -> AsideChunk:
        """Begin a chunk behind the tokens of `table`; see AsideChunk.

        `ids`: uint32 (tokens,). `is_last`: whether its hidden state is wanted. Raises AsideBroke where the
        system has no room or no process for it; there will be none any more.
        """
        begin, earlier, layers = table.length, dict[int, Earlier](), self._decoder.attention
        unseen = list[Range]()
        for layer in layers:
            spans = token_spans(table, self._arena.page_size, first_seen(begin, layer.shape.window), begin)
            pools = self._arena.on_host(layer.index)
            unseen += chain.from_iterable(not_in(spans, pool) for pool in pools)
            if begin:
                earlier[layer.index] = Earlier(*pools, spans)
        mx.eval(ids)
        growth.settle()
        mx.synchronize()  # MLX's threads hold none of the locks that are forked with its memory
        width = self._decoder.projections[0].norm.weight.size
        try:
            memory, gate = ChunkMemory(layers, ids.size, width), Gate()
            work = ChunkWork(
                self._decoder, ids, begin, earlier, is_last, memory, gate, self._threads, halves()
            )
            with nothing_is_read(), left_out(unseen):
                chunk = AsideChunk(work)
        except OSError as error:
            self._give_up(f"there was no process for one ({error})")
            raise AsideBroke(f"there was no process for a prompt ({error})") from error
        self._watcher.submit(_watch, ref(self), chunk)
        return chunk

    def ended(self, chunk: AsideChunk) -> None:
        """Its process has: called on the thread that watches it."""
        self._broken += chunk.broke
        if self._broken >= _MOST_BROKEN and self.is_possible:
            self._give_up(f"{self._broken} of their processes broke")

    def _give_up(self, why: str) -> None:
        self.is_possible, self.failure = False, why
        log.warning("prompts have no processes until a model is loaded: %s", why)

    def store(self, chunk: AsideChunk, table: PageTable, *, is_awaited: bool) -> None:
        """Store what was computed since, in its pages; on the engine's thread, while no step is in flight.

        `is_awaited`: whether answers wait, so that not all of it is stored at once; but what is left at its
        end is, as the next chunk waits for it. Raises AsideBroke.
        """
        is_awaited = is_awaited and not chunk.is_computed
        while taken := chunk.take(self._a_step if is_awaited else chunk.tokens):
            layer, tokens, *rows = taken
            begin, end = chunk.begin + tokens.start, chunk.begin + tokens.stop
            spans = token_spans(table, self._arena.page_size, begin, end)
            for pool, new in zip(self._arena.on_host(layer), rows, strict=True):
                write(pool, new, spans)
            chunk.stored(tokens)
            if is_awaited:
                return


def _watch(asked: ref[Aside], chunk: AsideChunk) -> None:
    """Until its process has ended; a model that leaves meanwhile is not held in memory for that."""
    chunk.watch()
    if (aside := asked()) is not None:
        aside.ended(chunk)
