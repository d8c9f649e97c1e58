"""A sample of what comes back from SSD is computed again: pages that disagree are not served."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import cast

import mlx.core as mx

from engine.kv.page_table import PageTable
from engine.kv.pager import OutOfPages
from engine.loading.model import LoadedModel
from engine.runner import Runner

TOLERANCE = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 8e-2}
"""Largest difference of two logits, relative to the largest logit: sums are formed in another order."""

CODED_TOLERANCE: Mapping[int | None, float] = {8: 1e-2, 4: 5e-2}
"""The same where pages hold codes of so many bits: a sum that differs in its last bit may be another code."""


class SelfCheck:
    """Compares the logits that follow restored pages with those that follow their last page computed anew.

    That page is computed from all the pages before it, so that one wrong page among them shows.
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
        """Whether the pages of `table`, all full, are those of `tokens`; true as well when no page is left.

        Raises what the device raises.
        """
        pager, end = self._model.pager, table.length
        begin = end - pager.page_size
        stored, anew = pager.fork(table), pager.fork(table)
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
