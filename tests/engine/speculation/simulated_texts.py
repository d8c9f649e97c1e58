"""Simulated texts, decoded on simulated machines with as many drafts as a SpeculationGain asks for."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.speculation.draft import MOST_DRAFTED
from engine.speculation.gain import SpeculationGain

Cost = Callable[[int], float]  # of a step, by its tokens, in plain steps
Acceptance = Callable[[int], float]  # chance that the token at a place is guessed right

COSTS: dict[str, Cost] = {
    "flat": lambda tokens: 1.0,
    "slope 0.08": lambda tokens: 1 + 0.08 * (tokens - 1),
    "slope 0.3": lambda tokens: 1 + 0.3 * (tokens - 1),
    "cliff at 3": lambda tokens: 1 + 0.05 * (tokens - 1) if tokens < 3 else 3 + 0.05 * tokens,
    "jump at 2": lambda tokens: 1.0 if tokens == 1 else 1.25 + 0.02 * tokens,
    "dear": lambda tokens: 1.0 if tokens == 1 else 4.0,
}


@dataclass
class Run:
    """What decoding a text took."""

    tokens: int = 0
    plain_steps: float = 0.0  # of time
    drafts: list[int] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Relative to decoding without drafts."""
        return self.tokens / self.plain_steps


def decoded(
    cost: Cost,
    acceptance: Acceptance,
    *,
    length: int = 1000,
    seed: int = 0,
    fixed: int | None = None,
    gain: SpeculationGain | None = None,
    found: float = 1.0,
) -> Run:
    """A text of `length` tokens; a step's time is 5% noisy.

    Args:
        fixed: draft that many instead of asking.
        gain: of texts before it.
        found: how often there is a guess at all.
    """
    chance, run, gain = random.Random(seed), Run(), gain or SpeculationGain()
    gain.began()
    while run.tokens < length:
        most = MOST_DRAFTED if chance.random() < found else 0
        drafted = gain.best(most) if fixed is None else min(fixed, most)
        right = 0
        while right < drafted and chance.random() < acceptance(run.tokens + right):
            right += 1
        took = cost(1 + drafted)
        gain.stepped(1 + drafted, took * 0.02 * (1 + 0.05 * abs(chance.gauss(0, 1))))
        gain.accepted(drafted, right)
        run.tokens += right + 1
        run.plain_steps += took
        run.drafts.append(drafted)
    return run


def speeds(cost: Cost, acceptance: Acceptance, **options: object) -> list[float]:
    return [decoded(cost, acceptance, seed=seed, **options).speed for seed in range(5)]
