"""The oracle of quantised pages: mlx-lm with its own quantised cache, one sequence from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
from mlx_lm.models.cache import QuantizedKVCache
from mlx_lm.utils import load_model as load_peer

MARGIN = 2e-3
"""Logits closer than this, relative to the largest, may change places: a key on the edge between two codes
takes the other when its sum is formed in another order."""


class QuantisedPeer:
    """A model, in float32, whose keys and values mlx-lm keeps in `bits` bits, in groups of `group`."""

    def __init__(self, folder: Path, bits: int | None, group: int) -> None:
        model, _ = load_peer(folder)
        model.set_dtype(mx.float32)
        self._model = cast(Any, model)
        self._bits, self._group = bits, group

    def logits(self, tokens: Sequence[int]) -> mx.array:
        """Float32 (tokens, vocab) of one forward pass."""
        cache = None
        if self._bits is not None:
            cache = [QuantizedKVCache(self._group, self._bits) for _ in self._model.layers]
        # MLX's CUDA build multiplies by such keys in 16 bits only.
        with mx.stream(mx.cpu) if mx.cuda.is_available() else nullcontext():
            return self._model(mx.array(tokens)[None], cache=cache)[0].astype(mx.float32)

    def accepts(self, prompt: Sequence[int], answer: Sequence[int]) -> bool:
        """Whether each token of `answer` is the likeliest after all before it, up to ties within MARGIN."""
        logits = self.logits([*prompt, *answer])[len(prompt) - 1 : -1]
        given = mx.take_along_axis(logits, mx.array(list(answer))[:, None], axis=-1)[:, 0]
        lag = (logits.max(axis=-1) - given) / mx.abs(logits).max(axis=-1)
        return cast(float, lag.max().item()) <= MARGIN
