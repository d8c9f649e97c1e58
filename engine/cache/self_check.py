"""A sample of what comes back from SSD is computed again: pages that disagree are not served."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import cast

import mlx.core as mx

from engine.kv.page_data import id_bytes
from engine.kv.page_table import NO_PAGE, PageTable
from engine.kv.pager import OutOfPages
from engine.loading.model import LoadedModel
from engine.runner import Runner

TOLERANCE = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 8e-2}
"""Largest difference of two logits, relative to the largest logit: sums are formed in another order."""

CODED_TOLERANCE: Mapping[int | None, float] = {8: 1e-2, 4: 5e-2}
"""The same where pages hold codes of so many bits: a sum that differs in its last bit may be another code."""


class SelfCheck:
    """Compares the logits that follow restored pages with those that follow their last page computed anew.

    That page is computed from all the pages before it that it sees, so that one wrong page among them shows.
    With a sliding window in every layer no beginning of the text has to be computed for it, but one page more
    has to be there than what follows sees: the last page's tokens see as far back as the page in front of
    that. It is read from SSD for them, if memory has it no more.
    """

    def __init__(
        self, model: LoadedModel, share: float, kv_bits: int | None = None, seed: int | None = None
    ) -> None:
        """`share` of the restored prompts are checked, 0 to 1; `kv_bits`: of a stored element."""
        self._model, self._share = model, share
        self._tolerance = max(TOLERANCE[model.info.dtype], CODED_TOLERANCE.get(kv_bits, 0.0))
        self._random = random.Random(seed)

    def is_due(self) -> bool:
        """Whether the prompt at hand is one of the sample."""
        return self._random.random() < self._share

    def agrees(self, runner: Runner, table: PageTable, tokens: Sequence[int]) -> bool:
        """Whether the pages of `table`, all full and none missing that its next token sees, are `tokens`'.

        True as well when that cannot be known: no page is left to compute in, or the SSD has lost the page in
        front of those that a window sees. Raises what the device raises.
        """
        pager, end = self._model.pager, table.length
        begin = end - pager.page_size
        try:
            stored = self._as_last_page_saw(table)
        except OutOfPages:
            return True
        if stored is None:
            return True
        anew = pager.fork(stored)
        stored.length = end - 1
        pager.shrink(anew, begin)
        try:
            theirs = runner.next_logits(stored, tokens[end - 1 : end])
            mx.eval(theirs, runner.results)
            ours = runner.next_logits(anew, tokens[begin:end])
            mx.eval(ours, runner.results)
        except OutOfPages:
            return True
        finally:
            self._model.memory.free(stored)
            self._model.memory.free(anew)
        worst = mx.abs(ours - theirs).max() / mx.maximum(mx.abs(ours).max(), 1e-6)
        return cast(float, worst.item()) <= self._tolerance

    def _as_last_page_saw(self, table: PageTable) -> PageTable | None:
        """`table` forked, with the page that a window has left since its last page; None where that is gone.

        Raises OutOfPages.
        """
        pager, tree, tier = self._model.pager, self._model.memory.tree, self._model.tier
        first = tree.first_seen(table.length)
        if first == len(table.pages):  # a window of one token, which sees nothing that is stored
            return None
        if not first or table.pages[first - 1] != NO_PAGE:
            return pager.fork(table)
        node = tree.node_at(table.pages[first])
        before = node.parent if node else None
        if before is None or tier is None:
            return None
        pages = [NO_PAGE] * (first - 1)
        if before.page != NO_PAGE:
            return pager.share([*pages, before.page, *table.pages[first:]], table.length)
        read = PageTable()
        self._model.memory.grow(read, pager.page_size)
        try:
            memory = self._model.arena.memory(read.pages)
            is_there = tier.read([before.key], id_bytes(before.tokens), memory)
            return (
                pager.share([*pages, *read.pages, *table.pages[first:]], table.length) if is_there else None
            )
        finally:
            self._model.memory.free(read)
