"""Runs the model on pages: one prefill chunk or one decode step at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import mlx.core as mx

from engine.kv.pager import PageTable
from engine.kv.step import KVStep
from engine.loading.model import LoadedModel

DISPATCH_SECONDS = 0.25
"""How long one prefill chunk may take, so that cancel, other work and the screen stay responsive."""


class Runner:
    """The forward passes of one loaded model."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model

    def new_table(self) -> PageTable:
        """An empty page table."""
        return PageTable()

    def prefill(self, table: PageTable, tokens: Sequence[int]) -> None:
        """Compute `tokens` behind those of `table` and store their keys and values; returns when it is done.

        Raises OutOfPages when the arena cannot hold them.
        """
        self._hidden(table, tokens)
        mx.eval(self._model.arena.state())
        self._advance(table, len(tokens))

    def next_logits(self, table: PageTable, tokens: Sequence[int]) -> mx.array:
        """Like prefill, and the float32 logits (vocab,) that follow the last token; not yet evaluated.

        They must be evaluated before the next call: the arena's writes hang on them.
        """
        hidden = self._hidden(table, tokens)
        logits = self._model.decoder.logits(hidden[-1:])[0]
        self._advance(table, len(tokens))
        return logits

    def trim(self, table: PageTable) -> None:
        """Give back pages that every layer's sliding window has left. Call it when the step is evaluated."""
        window = self._model.config.largest_window
        if window is not None:
            self._model.pager.release_before(table, table.length - window + 1)

    def free(self, table: PageTable) -> None:
        """Give back all pages of `table`."""
        self._model.pager.free(table)

    def drop_pages(self) -> None:
        """Drop the arena's arrays: after a device error, what they hold cannot be trusted."""
        self._model.arena.release()

    def _hidden(self, table: PageTable, tokens: Sequence[int]) -> mx.array:
        model = self._model
        model.pager.grow(table, table.length + len(tokens))
        model.arena.reserve(model.pager.high_water, model.pager.total_pages)
        step = KVStep(model.arena, model.pager, table, len(tokens))
        return model.decoder.hidden(mx.array(tuple(tokens), dtype=mx.int32), step)

    @staticmethod
    def _advance(table: PageTable, tokens: int) -> None:
        table.length += tokens


class ChunkSizer:
    """Chooses prefill chunks that last about DISPATCH_SECONDS, from the measured rate."""

    def __init__(self, most: int, page_size: int) -> None:
        """`most` tokens at the most; chunks are whole pages where possible."""
        self._most = most
        self._page_size = page_size
        self._rate = 0.0

    @property
    def rate(self) -> float:
        """Prompt tokens per second of the last full measurement; 0 before the first."""
        return self._rate

    def next(self, remaining: int) -> int:
        """Tokens to compute next, 1 … remaining."""
        size = self._most if self._rate == 0.0 else min(self._most, int(self._rate * DISPATCH_SECONDS))
        if self._rate == 0.0:
            size = min(size, 8 * self._page_size)
        size = max(self._page_size, size - size % self._page_size)
        return min(size, self._most, remaining)

    def measured(self, tokens: int, started: float) -> None:
        """Note that `tokens` took from `started` (time.perf_counter) until now."""
        seconds = time.perf_counter() - started
        if tokens >= self._page_size and seconds > 0:
            self._rate = tokens / seconds
