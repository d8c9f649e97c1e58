"""A machine that takes times for steps with a prompt beside answers, and a sizer that cuts for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from engine.pacing.chunking import ChunkSizer
from engine.pacing.ways import FREE, Mixing, Way

LAYERS = 16


@dataclass(frozen=True)
class Machine:
    """What a step takes on it beside answers: `alone` for them, and more for what it computes of a prompt.

    Attributes:
        token: seconds of a prompt's token in all layers, also alone.
        slice, layer: seconds for each slice, and for each of its layers, whatever is in it.
        hidden: seconds of a prompt's products that cost nothing where answers go through them too.
    """

    alone: float
    token: float
    slice: float = 0.0
    layer: float = 0.0
    hidden: float = 0.0

    def seconds(self, tokens: int, layers: int, *, is_mixed: bool) -> float:
        work = self.token * tokens * layers / LAYERS
        if is_mixed:
            work = max(0.0, work - self.hidden)
        return self.alone + self.slice + self.layer * layers + work


MAC = Machine(alone=0.020, token=0.0006, hidden=0.018)
"""Whose answers wait for weights: a prompt's tokens go with them nearly for nothing."""


@dataclass(frozen=True)
class Step:
    """A step that a prompt was computed in, and what it took without noise."""

    begin: int
    tokens: int
    layers: int
    is_mixed: bool
    seconds: float


Cost = Callable[[int, int, bool], float]
"""What a step of so many tokens and layers really takes, mixed or not."""


def fill(
    sizer: ChunkSizer, length: int, cost: Cost, answers: int = 1, all_layers: int = LAYERS
) -> Iterator[Step]:
    """The steps of a prompt of so many tokens, each as it is done and learned from."""
    begin = 0
    while begin < length:
        size, done = sizer.next(begin, length - begin, answers), 0
        way = sizer.way(size, answers)
        is_mixed = way is Way.MIXED
        while done < all_layers:
            layers = all_layers if is_mixed else sizer.layers(size, all_layers - done, answers)
            seconds = cost(size, layers, is_mixed)
            sizer.filled(size, layers / all_layers, seconds, answers, way)
            yield Step(begin, size, layers, is_mixed, seconds)
            done += layers
        begin += size


def known(machine: Machine, answers: int = 1, mixing: Mixing = FREE) -> ChunkSizer:
    """That has met a prompt and answers alone on that machine."""
    sizer = ChunkSizer(2048, 16, LAYERS, mixing=lambda: mixing)
    sizer.filled(2048, 1.0, machine.slice + LAYERS * machine.layer + 2048 * machine.token)
    for _ in range(5):
        sizer.decoded(answers, machine.alone)
    return sizer


def beside(machine: Machine, steps: int, answers: int = 1, mixing: Mixing = FREE) -> list[Step]:
    """So many steps of a long prompt on that machine and some noise, which what is returned is without."""
    noise = random.Random(0)

    def cost(tokens: int, layers: int, is_mixed: bool) -> float:
        held_up = 20 if noise.random() < 0.05 else 1
        return machine.seconds(tokens, layers, is_mixed=is_mixed) * noise.uniform(0.9, 1.1) * held_up

    taken = islice(fill(known(machine, answers, mixing), 1_000_000_000, cost, answers), steps)
    return [
        replace(step, seconds=machine.seconds(step.tokens, step.layers, is_mixed=step.is_mixed))
        for step in taken
    ]


def seconds(steps: Iterable[Step]) -> list[float]:
    return [step.seconds for step in steps]


def measured(machine: Machine) -> Mixing:
    """What is measured on it at rest."""
    seconds = {tokens: machine.seconds(tokens, LAYERS, is_mixed=True) for tokens in (16, 32, 64, 128)}
    return Mixing({tokens: taken / machine.alone for tokens, taken in seconds.items()})
