"""Drawing the next tokens of a batch, on the device or on a CPU's host, and reading them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx

from engine.cpu.host_view import host_view
from engine.sampling.device import Sampler
from engine.sampling.host import masses

Pick = Callable[[mx.array], tuple[mx.array, mx.array]]
"""The likeliest token of each row of logits, and log Σ exp(logits): see `Runner.pick`."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Whose token is drawn: its sampler, and the tokens it looks at.

    Attributes:
        pending: a token behind `generated` that was drawn and not read yet; a scalar.
    """

    sampler: Sampler
    generated: Sequence[int]
    prompt: Sequence[int]
    pending: mx.array | None = None


@dataclass(frozen=True, slots=True)
class Draws:
    """Tokens that were drawn, and may not be evaluated yet.

    Attributes:
        tokens: uint32 (n,).
        masses: log Σ exp(logits), float32 (n,); not finite exactly where the logits make no distribution.
    """

    tokens: mx.array
    masses: mx.array

    def read(self) -> tuple[list[int], list[float]]:
        """Wait for them."""
        mx.eval(self.tokens, self.masses)
        return cast("list[int]", self.tokens.tolist()), cast("list[float]", self.masses.tolist())


def draw(logits: mx.array, drawings: Sequence[Drawing], pick: Pick, *, on_host: bool = False) -> Draws:
    """The next token of each; logits: float32 (n, vocab), a row for each.

    `on_host`: of a CPU, which then has drawn them when this returns.
    """
    if all(drawing.sampler.is_greedy for drawing in drawings):
        return Draws(*pick(logits))
    if on_host:
        return _draw_on_host(logits, drawings)
    tokens = [
        drawing.sampler.sample(logits[row], drawing.generated, drawing.prompt, drawing.pending)
        for row, drawing in enumerate(drawings)
    ]
    return Draws(mx.stack(tokens), mx.logsumexp(logits, axis=-1))


def _draw_on_host(logits: mx.array, drawings: Sequence[Drawing]) -> Draws:
    mx.eval(logits)
    rows, tokens = host_view(logits), list[int]()
    for row, drawing in enumerate(drawings):
        generated = drawing.generated
        if drawing.pending is not None:
            generated = (*generated, cast(int, drawing.pending.item()))
        tokens += drawing.sampler.sample_on_host(rows[row : row + 1], generated, drawing.prompt)
    return Draws(mx.array(tokens, dtype=mx.uint32), mx.array(masses(rows)))
