"""Checking a draft: which of its tokens stay, and the token that follows them.

Greedy decoding keeps a drafted token when it is the likeliest. A token that nothing was drawn for is kept
when the draw at its place yields it: the answer is the one that decoding token by token would draw with the
same keys. A token that a draft model drew from a distribution q is kept with probability min(1, p / q), and
else replaced by a draw from max(p - q, 0), so that the answer's law is p's (Leviathan, Kalman and Matias
2023, https://arxiv.org/abs/2211.17192, section 2.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx

from engine.cpu.host_view import host_view
from engine.layers.ops import pick
from engine.sampling.device import Sampler, filtered_logprobs
from engine.sampling.host import masses
from engine.sampling.keys import categorical_rows
from engine.speculation.draft import Draft

Pick = Callable[[mx.array], tuple[mx.array, mx.array]]


@dataclass(frozen=True, slots=True, eq=False)
class SampledDraft(Draft):
    """Guessed tokens that were drawn, each from a distribution of its own.

    Attributes:
        probabilities: (tokens, vocab) float32; row i is what token i was drawn from, tokens before it given.
    """

    probabilities: mx.array

    def cut(self, most: int) -> SampledDraft:
        """Its first `most` tokens."""
        return SampledDraft(self.tokens[:most], self.match, self.probabilities[:most])


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a step with a draft yields.

    Attributes:
        tokens: the drafted tokens that stay, and one more: the sequence grows by all of them.
        is_finite: whether the logits that they came from made distributions.
    """

    tokens: tuple[int, ...]
    is_finite: bool

    @property
    def accepted(self) -> int:
        """How many drafted tokens stay."""
        return len(self.tokens) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Verification:
    """A check that was put to the device and not read yet.

    Attributes:
        choices: (1 + drafted,) uint32: what stands at each place, the drafted tokens before it given.
        mass: (1 + drafted,): log of the sum of exp(logits).
    """

    choices: mx.array
    mass: mx.array
    _draft: Draft
    _sampler: Sampler
    _drawn: int  # draws that the sampler had made before

    def read(self) -> Verdict:
        """Wait for the device, once, and take back the draws behind the first token that did not stay."""
        mx.eval(self.choices, self.mass)
        tokens = settled(self._draft.tokens, cast("list[int]", self.choices.tolist()))
        mass = cast("list[float]", self.mass.tolist())[: len(tokens)]
        if self._sampler.keys.drawn > self._drawn:
            self._sampler.keys.rewind(self._drawn + len(tokens))
        return Verdict(tokens, all(map(math.isfinite, mass)))


def settled(drafted: Sequence[int], choices: Sequence[int]) -> tuple[int, ...]:
    """The drafted tokens that equal the choices at their places, and the choice after the last of them.

    `choices` has one more than `drafted`.
    """
    kept = 0
    while kept < len(drafted) and drafted[kept] == choices[kept]:
        kept += 1
    return tuple(choices[: kept + 1])


def verify(
    logits: mx.array,
    draft: Draft,
    sampler: Sampler,
    generated: Sequence[int],
    prompt: Sequence[int],
    pick: Pick = pick,
    *,
    on_host: bool = False,
) -> Verification:
    """Check `draft` by the logits of a step that was given the last token and the draft.

    Args:
        logits: (1 + drafted, vocab) float32; row i is after the first i drafted tokens.
        draft: the tokens that were given to the step after the last one.
        sampler: the sequence's own. It has made one draw for each token of the answer.
        generated: the answer's tokens before the draft.
        prompt: the prompt's tokens.
        pick: takes the likeliest token of rows of logits, as `engine.layers.ops.pick` does.
        on_host: as in `engine.sampling.draws.draw`; what a draft model drew is checked on the device.

    Raises:
        ValueError: the logits have not one row more than the draft has tokens.
    """
    if logits.shape[0] != len(draft.tokens) + 1:
        raise ValueError(f"{logits.shape[0]} rows of logits for a draft of {len(draft.tokens)} tokens")
    drawn = sampler.keys.drawn
    if sampler.is_greedy:
        choices, mass = pick(logits)
        return Verification(choices, mass, draft, sampler, drawn)
    if isinstance(draft, SampledDraft) and draft.tokens and sampler.params.temperature > 0:
        choices = _rejection_sampled(logits, draft, sampler, generated, prompt)
    elif on_host:
        mx.eval(logits)
        rows = host_view(logits)
        choices = mx.array(sampler.sample_on_host(rows, generated, prompt, draft.tokens), dtype=mx.uint32)
        return Verification(choices, mx.array(masses(rows)), draft, sampler, drawn)
    else:
        choices = sampler.sample_rows(logits, generated, prompt, draft.tokens)
    return Verification(choices, mx.logsumexp(logits, axis=-1), draft, sampler, drawn)


def _rejection_sampled(
    logits: mx.array, draft: SampledDraft, sampler: Sampler, generated: Sequence[int], prompt: Sequence[int]
) -> mx.array:
    """What stands at each place, (1 + drafted,): the drafted token exactly where it is accepted."""
    count = len(draft.tokens)
    adjusted = sampler.adjusted_rows(logits, generated, prompt, draft.tokens)
    logprobs = filtered_logprobs(adjusted, sampler.params)  # (1 + drafted, vocab)
    wanted, offered = mx.exp(logprobs[:count]), draft.probabilities
    tokens = mx.array(draft.tokens, dtype=mx.uint32)[:, None]
    p = mx.take_along_axis(wanted, tokens, axis=-1)[:, 0]
    q = mx.take_along_axis(offered, tokens, axis=-1)[:, 0]
    rest = mx.maximum(wanted - offered, 0)
    # Where p equals q but for rounding, nothing is left over: there p itself is drawn from.
    rest = mx.where(mx.any(rest > 0, axis=-1, keepdims=True), rest, wanted)
    keys = mx.vmap(mx.random.split)(sampler.keys.take(count + 1))  # (1 + drafted, 2, 2)
    chance = mx.vmap(_uniform)(keys[:count, 0])
    replaced = categorical_rows(mx.concatenate([mx.log(rest), logprobs[count:]]), keys[:, 1])
    kept = mx.where(chance * q < p, tokens[:, 0], replaced[:count])
    return mx.concatenate([kept, replaced[count:]])


def _uniform(key: mx.array) -> mx.array:
    return mx.random.uniform(key=key)
