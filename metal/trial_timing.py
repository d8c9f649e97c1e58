"""How long candidates take: chains of dependent launches, all candidates in turn, medians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import mlx.core as mx

from metal.trial_case import Case


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """How much is measured.

    Attributes:
        rounds: chains of each candidate; one candidate after the other, again and again.
        fewest: rounds before one that is clearly slower is left out, or time is up.
        slot_s: how long a chain of the built-in should take; a shorter one is longer in links.
        most_links: of a chain.
        case_s: no further round begins after this long.
        clearly: a candidate whose best chain takes this many times the best median is left out.
    """

    rounds: int = 9
    fewest: int = 3
    slot_s: float = 0.002
    most_links: int = 64
    case_s: float = 0.12
    clearly: float = 1.25


def time_candidates(
    case: Case,
    names: Sequence[str],
    plan: TimingPlan,
    *,
    is_lazy: bool,
    before: Callable[[str], None] = lambda _name: None,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, float]:
    """Microseconds of one launch by candidate: the median over its chains.

    Args:
        names: the candidates, the built-in first; each has run before.
        is_lazy: whether a launch waits for evaluation. Then a chain is built before the clock starts, since a
            model's step is compiled once and built never again (unless the case `counts_host`); else launches
            run while the chain is built.
        before: called with the name before each chain.
        clock: seconds.
    """

    def chain(name: str, links: int) -> float:
        before(name)
        began = clock()
        arrays = case.chain(name, links)
        if is_lazy and not case.counts_host:
            began = clock()
        mx.eval(arrays)
        return clock() - began

    links = _links(lambda count: chain(names[0], count), plan)
    for name in names[1:]:
        chain(name, 1)
    end = clock() + plan.case_s
    taken = _rounds(lambda name: chain(name, links), names, plan, is_over=lambda: clock() > end)
    return {name: 1e6 * median(times) / links for name, times in taken.items()}


def _links(chain: Callable[[int], float], plan: TimingPlan) -> int:
    """As many launches as fill a slot; one that fills it alone is not repeated."""
    chain(1)
    if chain(1) >= plan.slot_s:
        return 1
    few = 4
    return max(few, min(plan.most_links, round(plan.slot_s / max(chain(few) / few, 1e-7))))


def _rounds(
    chain: Callable[[str], float], names: Sequence[str], plan: TimingPlan, *, is_over: Callable[[], bool]
) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in names}
    running = list(names)
    for number in range(1, plan.rounds + 1):
        for name in running:
            taken[name].append(chain(name))
        if number >= plan.fewest:
            best = min(median(taken[name]) for name in running)
            running = [name for name in running if min(taken[name]) <= plan.clearly * best]
            if len(running) < 2 or is_over():
                break
    return taken
