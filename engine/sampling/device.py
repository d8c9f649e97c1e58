"""Drawing the next token from logits: bias, penalties, temperature, filters, and log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import mlx.core as mx
import numpy as np

from engine.errors import InvalidRequest
from engine.events.events import TokenLogprob, TokenLogprobs
from engine.layers.host_math import Floats
from engine.sampling.host import HostAdjustment, drawn
from engine.sampling.keys import Keys, categorical_rows
from engine.sampling.params import COLDEST, SamplingParams


class Sampler:
    """Draws one request's tokens. It owns its random key, so requests do not disturb each other's."""

    def __init__(self, params: SamplingParams, vocab_size: int) -> None:
        """Raises InvalidRequest when `params.logit_bias` names a token that the model does not have.

        Args:
            params: how to draw.
            vocab_size: length of the logits.
        """
        for token, _ in params.logit_bias:
            if token >= vocab_size:
                raise InvalidRequest(
                    f"logit_bias names token {token}; this model's tokens are 0 to {vocab_size - 1}"
                )
        self._params = params
        self._adjustment = Adjustment(params, vocab_size) if Adjustment.is_needed(params) else None
        self._host_adjustment: HostAdjustment | None = None
        self._keys = Keys(params.seed)

    @property
    def params(self) -> SamplingParams:
        """How it draws."""
        return self._params

    @property
    def is_greedy(self) -> bool:
        """Whether `sample` takes the likeliest token of the logits as they are."""
        return self._params.temperature == 0 and self._adjustment is None

    def sample(
        self,
        logits: mx.array,
        generated: Sequence[int],
        prompt: Sequence[int],
        pending: mx.array | None = None,
    ) -> mx.array:
        """The next token, not yet evaluated.

        Args:
            logits: (vocab,), of any float type.
            generated: this answer's tokens so far; between calls it only grows.
            prompt: the prompt's tokens, the same in every call.
            pending: a token that follows `generated` and was drawn, but is not evaluated yet.

        Returns:
            A scalar uint32 array.
        """
        if self._adjustment is not None:
            logits = self._adjustment.apply(logits, generated, prompt, pending)
        if self._params.temperature == 0:
            return mx.argmax(logits)
        scores, tokens = candidates(logits, self._params)
        drawn = mx.random.categorical(scores, key=self._keys.take(1).squeeze(0))
        return drawn if tokens is None else tokens[drawn]

    def sample_rows(
        self, logits: mx.array, generated: Sequence[int], prompt: Sequence[int], draft: Sequence[int]
    ) -> mx.array:
        """A token after each beginning of `draft`: the ones that as many calls of `sample` would draw.

        Each row counts as a draw; `keys.rewind` takes back those that come to nothing.

        Args:
            logits: (1 + len(draft), vocab); row i is after `generated` and the first i of `draft`.
            generated: this answer's tokens so far.
            prompt: the prompt's tokens, the same in every call.
            draft: tokens that may follow.

        Returns:
            (1 + len(draft),) uint32, not yet evaluated.
        """
        if self._adjustment is not None:
            logits = self._adjustment.apply_rows(logits, generated, prompt, draft)
        if self._params.temperature == 0:
            return mx.argmax(logits, axis=-1)
        scores, tokens = candidates(logits, self._params)
        drawn = categorical_rows(scores, self._keys.take(len(draft) + 1))
        return drawn if tokens is None else mx.take_along_axis(tokens, drawn[:, None], axis=-1)[:, 0]

    def sample_on_host(
        self, logits: Floats, generated: Sequence[int], prompt: Sequence[int], draft: Sequence[int] = ()
    ) -> list[int]:
        """As `sample_rows`, by the host and at once; the draws of one seed are others than a device's.

        Args:
            logits: float32 (1 + len(draft), vocab).
            generated: this answer's tokens so far.
            prompt: the prompt's tokens, the same in every call.
            draft: tokens that may follow.
        """
        # A request ends where its logits are found not to be finite.
        with np.errstate(over="ignore", invalid="ignore"):
            if self._adjustment is not None:
                if self._host_adjustment is None:
                    self._host_adjustment = HostAdjustment(self._params, logits.shape[1])
                logits = self._host_adjustment(logits, generated, prompt, draft)
            if self._params.temperature == 0:
                return cast("list[int]", logits.argmax(axis=-1).tolist())
            chances = self._keys.chances(len(logits))
            return [drawn(row, self._params, chance) for row, chance in zip(logits, chances, strict=True)]

    @property
    def keys(self) -> Keys:
        """What its draws are random by."""
        return self._keys


class Adjustment:
    """Logit bias and penalties, with counts of the tokens seen kept as arrays that grow with the answer.

    Repetition: https://arxiv.org/abs/1909.05858, section 4.1, over prompt and answer as in transformers.
    Presence and frequency: over the answer, as in OpenAI's API.
    """

    def __init__(self, params: SamplingParams, vocab_size: int) -> None:
        self._params = params
        self._vocab_size = vocab_size
        self._counts: mx.array | None = None  # (vocab,) float32: how often the answer has each token
        self._prompt_has: mx.array | None = None  # (vocab,) bool
        self._counted = 0

    @staticmethod
    def is_needed(params: SamplingParams) -> bool:
        """Whether `params` asks for any bias or penalty."""
        penalties = (params.presence_penalty, params.frequency_penalty, params.repetition_penalty - 1)
        return bool(params.logit_bias) or any(penalties)

    def apply(
        self,
        logits: mx.array,
        generated: Sequence[int],
        prompt: Sequence[int],
        pending: mx.array | None = None,
    ) -> mx.array:
        """Adjusted logits, (vocab,) float32; arguments as in `Sampler.sample`."""
        counts = self._count(generated)
        if pending is not None:
            counts = counts.at[pending].add(1.0)
        return self._adjusted(logits, counts, prompt)

    def apply_rows(
        self, logits: mx.array, generated: Sequence[int], prompt: Sequence[int], draft: Sequence[int]
    ) -> mx.array:
        """Adjusted logits, (1 + len(draft), vocab) float32; arguments as in `Sampler.sample_rows`."""
        counts = mx.repeat(self._count(generated)[None], len(draft) + 1, axis=0)
        if draft:
            seen = [(row, token) for row in range(1, len(draft) + 1) for token in draft[:row]]
            rows, tokens = zip(*seen, strict=True)
            counts = counts.at[mx.array(rows), mx.array(tokens)].add(1.0)
        return self._adjusted(logits, counts, prompt)

    def _adjusted(self, logits: mx.array, counts: mx.array, prompt: Sequence[int]) -> mx.array:
        """Logits (…, vocab) with counts (…, vocab) of the tokens before each."""
        params = self._params
        logits = logits.astype(mx.float32)
        if params.logit_bias:
            ids, biases = zip(*params.logit_bias, strict=True)
            logits = logits.at[..., mx.array(ids)].add(mx.array(biases, dtype=mx.float32))
        if params.repetition_penalty != 1:
            seen = mx.logical_or(counts > 0, self._in_prompt(prompt))
            penalty = params.repetition_penalty
            logits = mx.where(seen, mx.where(logits > 0, logits / penalty, logits * penalty), logits)
        if params.presence_penalty or params.frequency_penalty:
            logits = logits - params.frequency_penalty * counts - params.presence_penalty * (counts > 0)
        return logits

    def _count(self, generated: Sequence[int]) -> mx.array:
        if self._counts is None or len(generated) < self._counted:
            self._counts, self._counted = mx.zeros((self._vocab_size,)), 0
        if new := generated[self._counted :]:
            self._counts = self._counts.at[mx.array(list(new))].add(1.0)
            self._counted = len(generated)
        return self._counts

    def _in_prompt(self, prompt: Sequence[int]) -> mx.array:
        if self._prompt_has is None:
            counts = mx.zeros((self._vocab_size,))
            self._prompt_has = (counts.at[mx.array(list(prompt))].add(1.0) if prompt else counts) > 0
        return self._prompt_has


def candidates(logits: mx.array, params: SamplingParams) -> tuple[mx.array, mx.array | None]:
    """What a token is drawn from at temperature > 0: unnormalised log-probabilities, and whose they are.

    Temperature, then top-k, top-p over what top-k left, then min-p. Which of equals at the edge of top-k or
    top-p stay is the sort's choice, the same each time.

    Args:
        logits: (…, vocab), bias and penalties applied.

    Returns:
        Scores (…, n) float32, -inf for what a filter removed, and ids (…, n); ids are None when every token
        is there in order.
    """
    logits = logits.astype(mx.float32)
    # The best scores 0 whatever the temperature, so that dividing cannot overflow.
    scores = (logits - mx.max(logits, axis=-1, keepdims=True)) / max(params.temperature, COLDEST)
    tokens = None
    if 0 < params.top_k < scores.shape[-1]:
        tokens = mx.argpartition(-scores, params.top_k - 1, axis=-1)[..., : params.top_k]
        scores = mx.take_along_axis(scores, tokens, axis=-1)
    if params.top_p < 1:
        order = mx.argsort(-scores, axis=-1)
        scores = mx.take_along_axis(scores, order, axis=-1)
        tokens = order if tokens is None else mx.take_along_axis(tokens, order, axis=-1)
        probabilities = mx.softmax(scores, axis=-1)
        before = mx.cumsum(probabilities, axis=-1) - probabilities  # the mass of all that is likelier
        scores = mx.where(before < params.top_p, scores, -math.inf)
    if params.min_p > 0:
        scores = mx.where(scores >= math.log(params.min_p), scores, -math.inf)
    return scores, tokens


def token_logprobs(logits: mx.array, token: int, k: int) -> TokenLogprobs:
    """The log-probability of `token` and the `k` likeliest tokens.

    Of the model's own distribution: before bias, penalties, temperature and filters.

    Args:
        logits: (vocab,), straight from the model.
        k: how many of the likeliest; equals come in the order of their ids.
    """
    logits = logits.astype(mx.float32)
    logprobs = logits - mx.logsumexp(logits)
    return TokenLogprobs(
        token, cast(float, logprobs[token].item()), _likeliest(logprobs, min(k, logits.shape[0]))
    )


def _likeliest(logprobs: mx.array, k: int) -> tuple[TokenLogprob, ...]:
    if k == 0:
        return ()
    edge = mx.min(mx.topk(logprobs, k))
    count = cast(int, (logprobs >= edge).sum().item())  # k, or more where equals stand at the edge
    ids = mx.argpartition(-logprobs, count - 1)[:count]
    values = logprobs[ids]
    mx.eval(ids, values)
    pairs = zip(cast("list[int]", ids.tolist()), cast("list[float]", values.tolist()), strict=True)
    best_first = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
    return tuple(TokenLogprob(token, logprob) for token, logprob in best_first[:k])
