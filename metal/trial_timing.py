"""How long candidates take: chains of dependent launches, all candidates in turn, medians.

Where the host takes longer to send a launch than the device to run it, a chain tells little of kernels, whose
sending takes it the same. So these are told apart sent while the device is busy with something else, and the
quickest of them races the built-in, which the host may send more slowly, or more quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import mlx.core as mx

from metal.trial_case import Case

Round = Mapping[str, float]
"""What a launch takes by candidate, in chains one after the other."""


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """How much is measured: a look at all candidates, then a race of those that were near the best.

    Attributes:
        look_s, slot_s: how long a chain of the built-in should take in the look, and in the race; a shorter
            one is longer in links.
        alone_s: a launch that takes this long is known for what it takes when it has run once, and no chain
            of several takes longer.
        few_links, most_links: of a chain. Where the built-in has fewer in the race, and a look finds another
            that is twice as fast, slots are meant for that one, and all are looked at again: in so few links
            it would be waiting for them that takes long.
        looks: rounds of the look; twice as many before a busy device is asked: its host may be slow at times.
        fewest, rounds: of the race, the look's among them where its chains are as long.
        case_s: no further round of the race but the fewest begins after this long.
        clearly, slightly: a candidate whose best chain takes this many times the best median is left out
            after the look, and in the race.
        roughly: a kernel whose best look takes this many times the best kernel's is not sent to a busy
            device: what a host took of a look may be as much as all the rest.
        device_s, device_rounds: how long a chain that is sent to a busy device should take, and how often:
            what such a chain takes is known to some 50 µs, and kernels may differ by one each.
    """

    look_s: float = 0.0005
    slot_s: float = 0.001
    alone_s: float = 0.002
    few_links: int = 8
    most_links: int = 64
    looks: int = 2
    fewest: int = 3
    rounds: int = 9
    case_s: float = 0.06
    clearly: float = 1.25
    slightly: float = 1.05
    roughly: float = 2.0
    device_s: float = 0.002
    device_rounds: int = 7

    def links(self, link_s: float) -> tuple[int, int]:
        """Of the chains of the look, and of the race, where a launch takes so many seconds."""
        look, full = (max(1, min(self.most_links, round(s / link_s))) for s in (self.look_s, self.slot_s))
        return look, full


KeepBusy = Callable[[float], list[mx.array]]
"""Arrays whose evaluation keeps the device busy for about so many seconds."""


class DeviceWork:
    """Products of matrices, as many as are asked for: a KeepBusy.

    Args:
        size: rows of a matrix; by the one that is meant a GPU takes longer for a product than its host.
        clock: seconds, of which so many are meant.
    """

    def __init__(self, size: int = 2048, clock: Callable[[], float] = perf_counter) -> None:
        self._matrix, self._clock = mx.eye(size), clock
        mx.eval(self._products(1))
        self._product_s = min(self._sampled(8) for _ in range(3))

    def __call__(self, seconds: float) -> list[mx.array]:
        """See KeepBusy."""
        return self._products(max(1, round(seconds / self._product_s)))

    def _sampled(self, count: int) -> float:
        """Seconds of a product, of so many."""
        began = self._clock()
        mx.eval(self._products(count))
        return (self._clock() - began) / count

    def _products(self, count: int) -> list[mx.array]:
        made = self._matrix
        for _ in range(count):
            made = made @ self._matrix
        return [made]


def time_candidates(
    case: Case,
    names: Sequence[str],
    plan: TimingPlan,
    *,
    is_lazy: bool,
    keep_busy: KeepBusy | None = None,
    before: Callable[[str], None] = lambda _name: None,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, float]:
    """Microseconds of one launch by candidate.

    The fastest's is the median over its chains. Another's is as many times that as its chains took of the
    fastest's in the same rounds, in the median: what slows the machine down for a while slows both.

    With `keep_busy`, kernels are as many times as slow as the fastest of them as a busy device takes longer
    for them, but for those that a look finds far behind.

    Args:
        names: the candidates, the built-in first; each has run before.
        is_lazy: whether a launch waits for evaluation. Then a chain is built before the clock starts, since a
            model's step is compiled once and built never again (unless the case `counts_host`); else launches
            run while the chain is built.
        keep_busy: of a device; not for a case that `counts_host`.
        before: called with the name before each chain.
        clock: seconds.
    """

    chains = _Chains(case, before, clock, includes_build=not is_lazy or case.counts_host)
    busy = None if case.counts_host else keep_busy
    began = clock()
    for name in names:
        chains.seconds(name, 1)  # what is made once for each candidate
    looked, links = _look(chains, names, plan, plan.looks if busy is None else 2 * plan.looks)
    device_s, fastest = dict[str, float](), names[0]
    if busy is not None:
        device_s = _by_device(_near(looked, names[1:], plan.roughly), looked, chains, busy, plan)
        fastest = min(device_s, key=lambda name: device_s[name])
        others = device_s.keys() - {fastest}
        looked = [{name: taken for name, taken in one.items() if name not in others} for one in looked]
        began = clock()
    until = began + plan.case_s
    raced = _race(chains.round, looked, plan, links=links, is_over=lambda: clock() > until)
    times = _microseconds(list(looked[0]), looked, raced)
    return times | {name: times[fastest] * taken / device_s[fastest] for name, taken in device_s.items()}


@dataclass(frozen=True, slots=True)
class _Chains:
    """Chains of one case, measured; `before`, `clock`: of `time_candidates`.

    Attributes:
        includes_build: whether the clock runs while a chain is built.
    """

    case: Case
    before: Callable[[str], None]
    clock: Callable[[], float]
    includes_build: bool

    def seconds(self, name: str, links: int) -> float:
        """Of a chain, to its end."""
        self.before(name)
        began = self.clock()
        arrays = self.case.chain(name, links)
        if not self.includes_build:
            began = self.clock()
        mx.eval(arrays)
        return self.clock() - began

    def round(self, links: Mapping[str, int]) -> Round:
        """Of a link, in a chain of so many of each."""
        return {name: self.seconds(name, count) / count for name, count in links.items()}

    def on_device(self, name: str, links: int, keep_busy: KeepBusy, busy_s: float) -> float:
        """Of a link; the device waits for no host."""
        self.before(name)
        arrays, work = self.case.chain(name, links), keep_busy(busy_s)
        began = self.clock()
        mx.async_eval(work)
        mx.eval(arrays)
        both, work = self.clock() - began, keep_busy(busy_s)
        began = self.clock()
        mx.eval(work)
        return (both - (self.clock() - began)) / links


def _look(
    chains: _Chains, names: Sequence[str], plan: TimingPlan, rounds: int
) -> tuple[list[Round], tuple[int, int]]:
    """So many rounds of all; and the links of the look's chains, and of the race's."""
    link_s = _link_s(lambda count: chains.seconds(names[0], count), plan)
    look, full = plan.links(link_s)
    looked: list[Round] = [chains.round(dict.fromkeys(names, look)) for _ in range(rounds)]
    fastest_s = min(min(one.values()) for one in looked)
    if full < plan.few_links and 2 * fastest_s < link_s:
        short, (look, full) = look, plan.links(fastest_s)
        counts = {name: min(look, int(plan.alone_s / seconds)) for name, seconds in looked[-1].items()}
        longer = {name: count for name, count in counts.items() if count > short}
        looked = [{**one, **chains.round(longer)} for one in looked]
    return looked, (look, full)


def _by_device(
    names: Sequence[str], looked: Sequence[Round], chains: _Chains, keep_busy: KeepBusy, plan: TimingPlan
) -> Round:
    """What a busy device takes for a launch of each of these."""
    slowest = max(min(one[name] for one in looked) for name in names)
    links = max(1, min(plan.most_links, round(plan.device_s / slowest)))
    busy_s = 1.5 * links * slowest
    measured = [
        {name: chains.on_device(name, links, keep_busy, busy_s) for name in names}
        for _ in range(plan.device_rounds)
    ]
    return {name: max(1e-9, median(one[name] for one in measured)) for name in names}


def _link_s(chain: Callable[[int], float], plan: TimingPlan) -> float:
    """About what one more launch in a chain takes; what waiting for a chain takes is no part of it."""
    one = chain(1)
    if one >= plan.alone_s:
        return one
    few = 4
    several = min(chain(few), chain(few))
    return max((several - one) / (few - 1), several / plan.most_links, 1e-7)


def _race(
    run: Callable[[Mapping[str, int]], Round],
    looked: Sequence[Round],
    plan: TimingPlan,
    *,
    links: tuple[int, int],
    is_over: Callable[[], bool],
) -> list[Round]:
    """Rounds of the race; it ends when nothing is left that could change the choice.

    Args:
        run: a round of some candidates in chains of so many links each.
        looked: the look's rounds.
        links: of the chains of the look, and of the race.
        is_over: whether time is up.
    """
    look, full = links
    names = list(looked[0])
    running = _near(looked, names, plan.clearly)
    raced = list(looked) if look == full else []
    while len(running) > 1 and len(raced) < plan.rounds:
        raced.append(run(dict.fromkeys(running, full)))
        if len(raced) >= plan.fewest:
            running = _near(raced, running, plan.slightly)
            if names[0] not in running or is_over():  # which of ours is the fastest by a hair is all the same
                break
    return raced


def _near(rounds: Sequence[Round], names: Sequence[str], times: float) -> list[str]:
    """Those of `names` whose best is at most so many times the best median."""
    best = min(median(one[name] for one in rounds) for name in names)
    return [name for name in names if min(one[name] for one in rounds) <= times * best]


def _microseconds(names: Sequence[str], looked: Sequence[Round], raced: Sequence[Round]) -> dict[str, float]:
    """By name; see `time_candidates`."""
    rounds = raced or looked
    finalists = list(rounds[-1])
    medians = {name: median(one[name] for one in rounds) for name in finalists}
    fastest = min(medians, key=lambda name: medians[name])

    def share(name: str) -> float:
        shared = [one for one in raced if name in one] or looked
        return median(one[name] / one[fastest] for one in shared)

    return {name: 1e6 * medians[fastest] * share(name) for name in names}
