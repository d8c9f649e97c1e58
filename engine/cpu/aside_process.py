"""The process that computes a prompt's chunk, forked from the engine's: it has weights and pages for nothing.

It has Python's lock to itself, which a thread beside the answers' waited for in a sixth of its time. Of the
engine's threads none goes on in it, so that it may use nothing that one of them may have held or do: of MLX
a stream of its own, no files, no log.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import mlx.core as mx
import numpy as np

from engine.blas import one_thread
from engine.cpu import crew
from engine.cpu.aside_blocks import BlockAttention, Blocks, Space, TaskOps, blocks_of
from engine.cpu.aside_memory import ChunkMemory
from engine.cpu.crew import Crew
from engine.cpu.gate import Gate
from engine.cpu.tasks import Task, Tasks
from engine.kv.page_table import Span
from engine.layers.attention import AttentionLayer
from engine.layers.decoder import Decoder
from engine.layers.host_math import Floats
from engine.machine.processors import Halves, keep, step_back

NAME = "mlxr-prompt"
"""Of its first thread, for the system, and of MLX's for it."""

NICER = 3
"""By how much these leave the processors to others: docs/measured/beside-a-prompt-cpu.md has why."""

_STANDARD = 3
"""Files that every process has: input, output, errors."""


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


@dataclass(frozen=True, slots=True)
class ChunkWork:
    """What is to be computed, and where it goes.

    Attributes:
        ids: evaluated, of tokens from `begin` on.
        earlier: by layer.
        is_last: whether the last hidden state is wanted.
        gate: at which those of its threads that help wait while it is closed.
        threads: to compute it with.
        processors: for its first thread those of a prompt, for those that help those of answers.
    """

    decoder: Decoder
    ids: mx.array
    begin: int
    earlier: Mapping[int, Earlier]
    is_last: bool
    memory: ChunkMemory
    gate: Gate
    threads: int
    processors: Halves


def compute_and_end(work: ChunkWork, news: int) -> NoReturn:
    """In the process that was forked for it: a byte to `news` for each layer that is in memory, and the end.

    Of a last chunk there is one byte more, when its hidden state is there. Who asked and is gone is noticed
    at the next byte.
    """
    status = 1
    try:
        _settle(work, news)
        chunk = _Chunk(work, news)
        # BLAS's threads would be waited for.
        with mx.stream(mx.new_stream(mx.cpu)), one_thread():
            chunk.compute()
        status = 0
    except BaseException as error:  # noqa: BLE001 — told where the chunk is taken
        work.memory.failure = f"{type(error).__name__}: {error}"
    finally:
        os._exit(status)


def _settle(work: ChunkWork, news: int) -> None:
    """Leave what is the engine's to it: its processor, finalizers, signals for all of a terminal's, files."""
    with suppress(OSError):
        os.sched_setaffinity(0, work.processors.prompt)
    step_back(NAME, NICER)
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(_STANDARD):
        os.dup2(nowhere, standard)
    for file in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if file >= _STANDARD and file not in (news, work.gate.file):
            with suppress(OSError):  # what listed them is closed by now
                os.close(file)


class _Chunk:
    """One chunk on its way through the model."""

    def __init__(self, work: ChunkWork, news: int) -> None:
        self._work, self._news = work, news
        helped = Crew(work.threads, work.gate)
        helped.start()
        keep(crew.NAME, work.processors.answers)
        self._tasks, blocks = Tasks(helped), blocks_of(work.ids.size)
        angles = work.decoder.rope.angles(range(work.begin, work.begin + work.ids.size))
        self._ops = TaskOps(self._tasks, blocks)
        self._attention = BlockAttention(self._tasks, blocks, angles, helped.give_way)
        self._told = self._tasks.given(None, 0)

    def compute(self) -> None:
        """All of it."""
        work = self._work
        if not work.is_last:
            work.decoder.store(work.ids, self._ops, self._attend, self._store)
        else:
            last = partial(self._attend, rows=1)
            hidden = work.decoder.last_hidden(work.ids, self._ops, self._attend, last, 1)
            self._tell(hidden.tasks, lambda row: np.copyto(work.memory.hidden, row))
        self._tasks.run()

    def _tell(self, what: Sequence[Task[Any]], keep: Callable[[Any], object] | None = None) -> None:
        """A byte, once all that is there, in the order of layers."""

        def tell(*given: Any) -> None:
            if keep is not None:
                keep(*given)
            self._say()

        inputs = what if keep is not None else ()
        self._told = self._tasks.add(tell, inputs, 0, after=[*what, self._told], is_first_threads=True)

    def _say(self) -> None:
        os.write(self._news, b".")

    def _store(self, layer: AttentionLayer, qkv: Blocks) -> None:
        """See Write."""
        self._write(layer, qkv, None)

    def _attend(self, layer: AttentionLayer, qkv: Blocks, rows: int = 0) -> Blocks:
        """See Attend; with `rows` what as many of the last tokens come to."""
        heads, space = self._write(layer, qkv, self._work.earlier.get(layer.index))
        return self._attention.attend(layer, heads, space, rows)

    def _write(
        self, layer: AttentionLayer, qkv: Blocks, earlier: Earlier | None
    ) -> tuple[list[Task[Floats]], Task[Space]]:
        """Put keys and values where they are taken from; queries, and what they see."""
        to = self._work.memory.rows(layer.index)
        seen = [[rows[:, :0]] for rows in to]
        if earlier is not None:
            seen = [earlier.rows(earlier.keys), earlier.rows(earlier.values)]
        heads, space = self._attention.write(layer, qkv, seen, to)
        self._tell(heads)
        return heads, space
