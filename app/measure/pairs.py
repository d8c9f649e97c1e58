"""Two sides measured in turns, so that what slows the whole machine for a moment meets both."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TypeVar

Sample = TypeVar("Sample")
OneSide = Callable[[int], Sample]
"""Measures once; gets the pair's number, from which both sides make the same input."""


def interleave(
    pairs: int, ours: OneSide[Sample], theirs: OneSide[Sample] | None, before_pair: Callable[[int], None]
) -> tuple[list[Sample], list[Sample]]:
    """`pairs` samples of each side (none of a missing one), after a pair 0 that warms up and does not count.

    Who goes first alternates, so that neither always meets the other's caches.
    """
    mine: list[Sample] = []
    peers: list[Sample] = []
    for number in range(pairs + 1):
        before_pair(number)
        for side, samples in _in_turns(number, (ours, mine), (theirs, peers)):
            sample = side(number)
            if number:
                samples.append(sample)
    return mine, peers


def _in_turns(
    number: int,
    ours: tuple[OneSide[Sample], list[Sample]],
    theirs: tuple[OneSide[Sample] | None, list[Sample]],
) -> Iterator[tuple[OneSide[Sample], list[Sample]]]:
    both = (ours, theirs) if number % 2 else (theirs, ours)
    for side, samples in both:
        if side is not None:
            yield side, samples


def prompt_tokens(length: int, *seed: int) -> tuple[int, ...]:
    """Token ids that every vocabulary of ours has, the same for a seed in every run.

    Prompts of different seeds share no beginning, so that no cache of prefixes helps.
    """
    draw = random.Random(f"{length} {seed}")
    return tuple(draw.randrange(10, 250) for _ in range(length))
