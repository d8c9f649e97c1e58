"""Checking a draft: which of its tokens stay, and the token that follows them.

Greedy decoding keeps a drafted token when it is the likeliest, and drawing when the draw at its place yields
it: the answer is the one that decoding token by token would draw with the same keys. Nothing is drawn for a
guess, so that no law of its own has to be made up for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx

from engine.cpu.host_view import host_view
from engine.layers.ops import pick
from engine.sampling.device import Sampler
from engine.sampling.host import masses
from engine.speculation.draft import Draft

Pick = Callable[[mx.array], tuple[mx.array, mx.array]]


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
        on_host: as in `engine.sampling.draws.draw`.

    Raises:
        ValueError: the logits have not one row more than the draft has tokens.
    """
    if logits.shape[0] != len(draft.tokens) + 1:
        raise ValueError(f"{logits.shape[0]} rows of logits for a draft of {len(draft.tokens)} tokens")
    drawn = sampler.keys.drawn
    if sampler.is_greedy:
        choices, mass = pick(logits)
        return Verification(choices, mass, draft, sampler, drawn)
    if on_host:
        mx.eval(logits)
        rows = host_view(logits)
        choices = mx.array(sampler.sample_on_host(rows, generated, prompt, draft.tokens), dtype=mx.uint32)
        return Verification(choices, mx.array(masses(rows)), draft, sampler, drawn)
    choices = sampler.sample_rows(logits, generated, prompt, draft.tokens)
    return Verification(choices, mx.logsumexp(logits, axis=-1), draft, sampler, drawn)
