"""Runs the model on pages: one prefill chunk or one decode step at a time."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from engine.kv.pager import PageTable
from engine.kv.step import KVStep
from engine.loading.model import LoadedModel


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
