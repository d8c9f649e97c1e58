"""Which of very many variants to run: each two values that can meet meet in one of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from random import Random

Value = str | int
Setting = tuple[str, Value]
"""A factor and its value; ("kernel", name) is one."""
Pair = frozenset[Setting]

_TRIES = 30
_SEED = 44  # of the first sixty, the one that leads to the fewest variants


@dataclass(frozen=True, slots=True)
class Space:
    """The variants of one kernel.

    Attributes:
        kernel: its name.
        main: factors of which the whole grid has every combination.
        others: factors that the whole grid takes in turn.
    """

    kernel: str
    main: Mapping[str, tuple[Value, ...]]
    others: Mapping[str, tuple[Value, ...]]

    @property
    def factors(self) -> dict[str, tuple[Value, ...]]:
        """All of them, the kernel's name among them."""
        return {"kernel": (self.kernel,), **self.main, **self.others}

    def pairs(self) -> Iterator[Pair]:
        """Each two values that can meet in a variant."""
        for (first, left), (second, right) in combinations(self.factors.items(), 2):
            for a, b in product(left, right):
                yield frozenset({(first, a), (second, b)})

    def __len__(self) -> int:
        return math.prod(map(len, self.main.values()))


@dataclass(frozen=True, slots=True)
class Variant:
    """A value for each factor of a kernel's space."""

    settings: tuple[Setting, ...]

    def __getitem__(self, factor: str) -> Value:
        return dict(self.settings)[factor]

    def __str__(self) -> str:
        return " ".join(
            f"{factor}={value}" if factor != "kernel" else str(value) for factor, value in self.settings
        )

    def pairs(self) -> list[Pair]:
        """Each two of its settings."""
        return [frozenset(pair) for pair in combinations(self.settings, 2)]


def pairwise(spaces: Sequence[Space]) -> list[Variant]:
    """Variants of all kernels together in which every pair of every space is; the same at every call.

    Greedy: each variant begins with a pair that is missing, and takes the values that bring most others; the
    best of several tries in different orders of the factors stays.
    """
    random, found = Random(_SEED), list[Variant]()
    homes: dict[Pair, list[Space]] = {}
    for space in spaces:
        for pair in space.pairs():
            homes.setdefault(pair, []).append(space)
    missing = dict.fromkeys(homes)
    while missing:
        starts = random.choices(list(missing), k=_TRIES)
        tries = [_grown(random.choice(homes[start]), start, missing, random) for start in starts]
        found.append(max(tries, key=lambda variant: sum(pair in missing for pair in variant.pairs())))
        for pair in found[-1].pairs():
            missing.pop(pair, None)
    return _needed(found)


def _needed(variants: list[Variant]) -> list[Variant]:
    """Without those whose pairs others have too."""
    times = Counter(pair for variant in variants for pair in variant.pairs())
    needed: list[Variant] = []
    for variant in variants:
        if min(times[pair] for pair in variant.pairs()) > 1:
            times.subtract(variant.pairs())
        else:
            needed.append(variant)
    return needed


def _grown(space: Space, start: Pair, missing: Container[Pair], random: Random) -> Variant:
    chosen: dict[str, Value] = {"kernel": space.kernel, **dict(start)}
    rest = [factor for factor in space.factors if factor not in chosen]
    random.shuffle(rest)
    for factor in rest:
        gains = {
            value: sum(frozenset({(factor, value), setting}) in missing for setting in chosen.items())
            for value in space.factors[factor]
        }
        most = max(gains.values())
        chosen[factor] = random.choice([value for value, gain in gains.items() if gain == most])
    return Variant(tuple((factor, chosen[factor]) for factor in space.factors))


def whole_grid(spaces: Sequence[Space]) -> Iterator[Variant]:
    """Every combination of the main factors of every kernel; the other factors are drawn, seeded by those."""
    for space in spaces:
        for values in product(*space.main.values()):
            random = Random(f"{space.kernel} {values}")
            others = [(factor, random.choice(choices)) for factor, choices in space.others.items()]
            main = zip(space.main, values, strict=True)
            yield Variant((("kernel", space.kernel), *main, *others))


def shard(variants: Sequence[Variant], text: str) -> list[Variant]:
    """Part "i/n" of them: every n-th from the i-th on, from 1. Raises ValueError for anything else."""
    number, _, count = text.partition("/")
    if not 1 <= int(number) <= int(count):
        raise ValueError(f"a shard is i/n, such as 1/4, not {text!r}")
    return list(variants[int(number) - 1 :: int(count)])
