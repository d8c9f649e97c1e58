"""The oracle of all that shares, batches, splits, restores or guesses: mlx-lm, one request from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import mlx.core as mx
from mlx_lm.utils import load_model as load_peer

MARGIN = 1e-3
"""Logits closer than this, relative to the largest, may change places: sums are formed in another order."""


class Cold:
    """A model whose every answer is checked from nothing."""

    def __init__(self, folder: Path) -> None:
        self._model, _ = load_peer(folder)

    def accepts(self, prompt: Sequence[int], answer: Sequence[int]) -> bool:
        """Whether each token of `answer` is the likeliest after all before it, up to ties within MARGIN."""
        if not answer:
            return True
        tokens = mx.array([[*prompt, *answer]])
        logits = self._model(tokens)[0, len(prompt) - 1 : -1].astype(mx.float32)
        best, largest = logits.max(axis=-1), mx.abs(logits).max(axis=-1)
        given = mx.take_along_axis(logits, mx.array(list(answer))[:, None], axis=-1)[:, 0]
        return cast(bool, mx.all(best - given <= MARGIN * largest).item())
