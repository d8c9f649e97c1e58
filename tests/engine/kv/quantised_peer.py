"""The oracle of quantised pages: mlx-lm with its own quantised cache, one sequence from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import mlx.core as mx

from tests.engine.oracle_process import logits

MARGIN = 2e-3
"""Logits closer than this, relative to the largest, may change places: a key on the edge between two codes
takes the other when its sum is formed in another order."""


class QuantisedPeer:
    """A model in float32, whose keys and values mlx-lm keeps in `bits` bits, in groups of `group`."""

    def __init__(self, folder: Path, bits: int | None, group: int) -> None:
        self._folder, self._bits, self._group = folder, bits, group

    def logits(self, tokens: Sequence[int]) -> mx.array:
        """Float32 (tokens, vocab) of one forward pass."""
        return mx.array(logits(self._folder, self._bits, self._group, tokens))

    def accepts(self, prompt: Sequence[int], answer: Sequence[int]) -> bool:
        """Whether each token of `answer` is the likeliest after all before it, up to ties within MARGIN."""
        states = self.logits([*prompt, *answer])[len(prompt) - 1 : -1]
        given = mx.take_along_axis(states, mx.array(list(answer))[:, None], axis=-1)[:, 0]
        lag = (states.max(axis=-1) - given) / mx.abs(states).max(axis=-1)
        return cast(float, lag.max().item()) <= MARGIN
