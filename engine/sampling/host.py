"""Drawing next tokens on a CPU: as device.py does on a device, by numpy, on the thread that asks.

MLX's CPU build takes 30 ns for each token of the vocabulary to draw one, and 150 where top-p sorts them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.layers.host_math import Floats
from engine.sampling.params import COLDEST, SamplingParams

_NUCLEI = 256, 8192
"""Of the likeliest tokens, as many as are sorted first for top-p, and where these have not its mass."""


class HostAdjustment:
    """Logit bias and penalties, as device.py's Adjustment: the counts grow with the answer."""

    def __init__(self, params: SamplingParams, vocab_size: int) -> None:
        self._params = params
        self._counts = np.zeros(vocab_size, np.float32)
        self._counted = 0
        self._prompt_has: NDArray[np.bool_] | None = None
        self._biases = np.zeros(vocab_size, np.float32)
        for token, bias in params.logit_bias:
            self._biases[token] += bias

    def __call__(
        self, logits: Floats, generated: Sequence[int], prompt: Sequence[int], draft: Sequence[int]
    ) -> Floats:
        """Adjusted logits, (1 + len(draft), vocab); arguments as in `Sampler.sample_on_host`."""
        self._count(generated)
        counts = np.repeat(self._counts[None], 1 + len(draft), axis=0)
        for place, token in enumerate(draft):
            counts[place + 1 :, token] += 1
        params, has = self._params, counts > 0
        out = logits + self._biases
        if (penalty := params.repetition_penalty) != 1:
            seen = has | self._in_prompt(prompt)
            out = np.where(seen, np.where(out > 0, out / penalty, out * penalty), out)
        if params.presence_penalty or params.frequency_penalty:
            out -= params.frequency_penalty * counts + params.presence_penalty * has
        return out.astype(np.float32, copy=False)

    def _count(self, generated: Sequence[int]) -> None:
        if len(generated) < self._counted:
            self._counts[:], self._counted = 0, 0
        np.add.at(self._counts, list(generated[self._counted :]), 1)
        self._counted = len(generated)

    def _in_prompt(self, prompt: Sequence[int]) -> NDArray[np.bool_]:
        if self._prompt_has is None:
            self._prompt_has = np.zeros(len(self._counts), np.bool_)
            self._prompt_has[list(prompt)] = True
        return self._prompt_has


def drawn(logits: Floats, params: SamplingParams, chance: float) -> int:
    """The token at temperature > 0 up to which the tokens before it, and itself, have more than `chance`.

    Args:
        logits: (vocab,), bias and penalties applied.
        chance: in [0, 1).
    """
    weights = filtered_weights(logits, params)
    reached = np.cumsum(weights, dtype=np.float64)
    total = float(reached[-1])
    if not total > 0:  # of logits that make no distribution: the request ends for that
        return 0
    return int(reached.searchsorted(min(chance * total, math.nextafter(total, 0)), side="right"))


def filtered_weights(logits: Floats, params: SamplingParams) -> Floats:
    """What tokens are drawn in proportion to at temperature > 0: (vocab,), 0 for those filtered out.

    Temperature, then top-k, top-p over what top-k left, then min-p.
    """
    scores = logits - logits.max()
    scores /= max(params.temperature, COLDEST)
    weights = np.exp(scores, out=scores)
    kept: NDArray[np.intp] | None = None
    if 0 < params.top_k < len(weights):
        kept = _likeliest(weights, params.top_k)
    if params.top_p < 1:
        kept = np.arange(len(weights)) if kept is None else kept
        kept = kept[_nucleus(weights[kept], params.top_p)]
    if kept is not None:
        weights = np.zeros_like(scores)
        weights[kept] = scores[kept]
    if params.min_p > 0:
        weights[weights < np.float32(params.min_p)] = 0  # the best has 1
    return weights


def masses(logits: Floats) -> Floats:
    """log Σ exp of each row of (rows, vocab) logits."""
    with np.errstate(invalid="ignore", divide="ignore"):  # of rows that are not finite
        highest = logits.max(axis=-1, keepdims=True)
        return np.log(np.exp(logits - highest).sum(axis=-1)) + highest[:, 0]


def _likeliest(weights: Floats, count: int) -> NDArray[np.intp]:
    """The `count` largest, in no order."""
    return np.argpartition(weights, len(weights) - count)[len(weights) - count :]


def _nucleus(weights: Floats, top_p: float) -> NDArray[np.intp]:
    """The fewest of the largest that have `top_p` of all."""
    enough = top_p * float(weights.sum(dtype=np.float64))
    for count in _NUCLEI:
        if count < len(weights) and len(found := _until(weights, _likeliest(weights, count), enough)) < count:
            return found
    return _until(weights, np.arange(len(weights)), enough)


def _until(weights: Floats, tokens: NDArray[np.intp], enough: float) -> NDArray[np.intp]:
    """Those of `tokens` before which, the largest first, there is less than `enough`."""
    tokens = tokens[np.argsort(-weights[tokens], kind="stable")]
    best_first = weights[tokens].astype(np.float64)
    return tokens[np.cumsum(best_first) - best_first < enough]
