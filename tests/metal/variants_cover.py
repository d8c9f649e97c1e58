"""Which of very many variants to run: each two values that can meet meet in one of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from random import Random

Value = str | int
Setting = tuple[str, Value]
"""A factor and its value; ("kernel", name) is one."""
Pair = frozenset[Setting]
Classes = Mapping[str, Mapping[Value, Value]]
"""Of factors: the class that each value belongs to."""

_TRIES = 30
_SEED = 123  # of the first 150; test_variants.py says what must hold


@dataclass(frozen=True, slots=True)
class Space:
    """The variants of one kernel, or of several that take the same factors and run one after the other.

    Attributes:
        kernel: its name; names, joined by ", ".
        main: factors of which the whole grid has every combination.
        others: factors that the whole grid takes in turn.
        coarse: for a factor, those that it meets by classes: it meets each class, not each value.
    """

    kernel: str
    main: Mapping[str, tuple[Value, ...]]
    others: Mapping[str, tuple[Value, ...]]
    coarse: Mapping[str, Classes] = field(default_factory=dict[str, Classes])

    @property
    def factors(self) -> dict[str, tuple[Value, ...]]:
        """All of them, the kernel's name among them."""
        return {"kernel": (self.kernel,), **self.main, **self.others}

    def meetings(self) -> Iterator[tuple[Setting, Setting]]:
        """Each two settings that can be in one variant."""
        for (first, left), (second, right) in combinations(self.factors.items(), 2):
            for a, b in product(left, right):
                yield (first, a), (second, b)

    def pair(self, left: Setting, right: Setting) -> Pair:
        """What has been seen when these two are in one variant."""
        return frozenset({self._seen_from(right, left), self._seen_from(left, right)})

    def _seen_from(self, place: Setting, setting: Setting) -> Setting:
        factor, value = setting
        classes = self.coarse.get(place[0], {}).get(factor)
        return setting if classes is None else (factor, classes[value])

    def pairs(self, variant: Variant) -> list[Pair]:
        """What is seen in a variant of this space."""
        return [self.pair(*two) for two in combinations(variant.settings, 2)]

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


_Home = tuple[Space, tuple[Setting, Setting]]
_Seen = tuple[Variant, list[Pair]]


def pairwise(spaces: Sequence[Space]) -> list[Variant]:
    """Variants of all spaces together in which every pair of every space is; the same at every call.

    Greedy: each variant begins with a pair that is missing, and takes the values that bring most others; the
    best of several tries in different orders of the factors stays.
    """
    random, found = Random(_SEED), list[_Seen]()
    homes: dict[Pair, list[_Home]] = {}
    for space in spaces:
        for two in space.meetings():
            homes.setdefault(space.pair(*two), []).append((space, two))
    missing = dict.fromkeys(homes)
    while missing:
        starts = random.choices(list(missing), k=_TRIES)
        tries = [_grown(*random.choice(homes[start]), missing, random) for start in starts]
        found.append(max(tries, key=lambda seen: sum(pair in missing for pair in seen[1])))
        for pair in found[-1][1]:
            missing.pop(pair, None)
    return _needed(found)


def _needed(found: Sequence[_Seen]) -> list[Variant]:
    """Without those whose pairs others have too."""
    times = Counter(pair for _, pairs in found for pair in pairs)
    needed: list[Variant] = []
    for variant, pairs in found:
        if min(times[pair] for pair in pairs) > 1:
            times.subtract(pairs)
        else:
            needed.append(variant)
    return needed


def _grown(space: Space, start: tuple[Setting, Setting], missing: Container[Pair], random: Random) -> _Seen:
    chosen: dict[str, Value] = {"kernel": space.kernel, **dict(start)}
    rest = [factor for factor in space.factors if factor not in chosen]
    random.shuffle(rest)
    for factor in rest:
        gains = {
            value: sum(space.pair((factor, value), setting) in missing for setting in chosen.items())
            for value in space.factors[factor]
        }
        most = max(gains.values())
        chosen[factor] = random.choice([value for value, gain in gains.items() if gain == most])
    variant = Variant(tuple((factor, chosen[factor]) for factor in space.factors))
    return variant, space.pairs(variant)


def fewest(spaces: Sequence[Space]) -> list[tuple[tuple[Space, ...], int]]:
    """Spaces, and how many variants those need together at least; each space is named once.

    A variant has one pair of any two factors, so as many are needed as these two have pairs.
    """
    needs = list[tuple[tuple[Space, ...], int]]()
    factors = dict.fromkeys(factor for space in spaces for factor in space.factors)
    for two in combinations(factors, 2):
        holders = tuple(space for space in spaces if set(two) <= set(space.factors))
        met = {
            space.pair(left, right)
            for space in holders
            for left, right in space.meetings()
            if {left[0], right[0]} == set(two)
        }
        needs.append((holders, len(met)))
    named, found = set[str](), list[tuple[tuple[Space, ...], int]]()
    for holders, count in sorted(needs, key=lambda need: need[1], reverse=True):
        kernels = {space.kernel for space in holders}
        if kernels and not kernels & named:
            named |= kernels
            found.append((holders, count))
    return found


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
