"""A sample of what comes back from SSD is computed again: pages that disagree are not served."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import cast

import mlx.core as mx

from engine.kv.arena import Arena
from engine.kv.page_data import id_bytes
from engine.kv.page_table import NO_PAGE, PageTable, Span, page_spans
from engine.kv.pager import OutOfPages
from engine.loading.model import LoadedModel
from engine.runner import Runner

TOLERANCE = {"float32": 2e-3, "float16": 0.05, "bfloat16": 0.2}
"""How far a layer's keys, or values, of a page may be from those computed anew: the root mean square of the
difference, relative to theirs. Sums are formed in another order, and each layer builds on the last: 16 layers
with random weights were apart by up to 0.00001 in float32 and 0.03 in float16 (CPU), TinyLlama's 22 and an
8B's 32 by up to 0.003 in float16 and 0.018 in bfloat16 (H200; pages at token 64, 512 and the end). Those of
another page are by about 1.4."""

CODED_TOLERANCE: Mapping[int | None, float] = {8: 0.05, 4: 0.2}
"""So much more where pages hold codes of so many bits: a sum that differs in its last bit may be another one.
The same 16 layers were apart by up to 0.02 with 8 bits and 0.1 with 4, in float16; TinyLlama's and the 8B's
on an H200 by up to 0.006 and 0.04, in bfloat16 by 0.02 and 0.074."""

_NOTHING = 1e-12
"""A sum of squares that no layer's keys have."""


class SelfCheck:
    """Compares the last of the restored pages, layer by layer, with what the model computes in its place.

    That page is computed from all the pages before it that it sees, so that a wrong one among them shows too,
    if this page has enough to do with it.
    With a sliding window in every layer no beginning of the text has to be computed for it, but one page more
    has to be there than what follows sees: the last page's tokens see as far back as the page in front of
    that. It is read from SSD for them, if memory has it no more.
    """

    def __init__(
        self, model: LoadedModel, share: float, kv_bits: int | None = None, seed: int | None = None
    ) -> None:
        """`share` of the restored prompts are checked, 0 to 1; `kv_bits`: of a stored element."""
        self._model, self._share = model, share
        self._tolerance = TOLERANCE[model.info.dtype] + CODED_TOLERANCE.get(kv_bits, 0.0)
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
        anew, last = pager.fork(stored), begin // pager.page_size
        pager.shrink(anew, begin)
        try:
            mx.eval(runner.next_logits(anew, tokens[begin:end]), runner.results)
            return self._are_alike(stored.pages[last], anew.pages[last])
        except OutOfPages:
            return True
        finally:
            self._model.memory.free(stored)
            self._model.memory.free(anew)

    def _are_alike(self, stored: int, anew: int) -> bool:
        """Whether two pages hold the same in every layer; what is not finite is not alike."""
        arena, size = self._model.arena, self._model.pager.page_size
        theirs, ours = page_spans([stored], size), page_spans([anew], size)
        differences = [
            mx.square(right - left).sum() / mx.maximum(mx.square(right).sum(), _NOTHING)
            for layer in range(self._model.config.layers)
            for left, right in zip(_rows(arena, layer, theirs), _rows(arena, layer, ours), strict=True)
        ]
        return all(one <= self._tolerance**2 for one in cast("list[float]", mx.stack(differences).tolist()))

    def _as_last_page_saw(self, table: PageTable) -> PageTable | None:
        """`table` forked, with the page that a window has left since its last page; None where that is gone.

        Raises OutOfPages.
        """
        pager, tree, tier = self._model.pager, self._model.memory.tree, self._model.tier
        first = tree.first_seen(table.length)
        if first == len(table.pages):  # a window of one token, which sees nothing that is stored
            return None
        if not first:
            return pager.fork(table)
        node = tree.node_at(table.pages[first])
        before = node.parent if node else None
        if before is None or tier is None:
            return None
        pages = [NO_PAGE] * (first - 1)
        if before.page != NO_PAGE:
            return pager.share([*pages, before.page, *table.pages[first:]], table.length)
        read = PageTable()
        try:
            self._model.memory.grow(read, pager.page_size)
            memory = self._model.arena.memory(read.pages)
            is_there = tier.read([before.key], id_bytes(before.tokens), memory)
            return (
                pager.share([*pages, *read.pages, *table.pages[first:]], table.length) if is_there else None
            )
        finally:
            self._model.memory.free(read)


def _rows(arena: Arena, layer: int, spans: Sequence[Span]) -> tuple[mx.array, mx.array]:
    """Keys and values of a layer, float32: halves of large numbers have no squares."""
    keys, values = arena.read_layer(layer, spans)
    return keys.astype(mx.float32), values.astype(mx.float32)
