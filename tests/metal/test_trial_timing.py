"""How candidates are timed: in turn, in chains that fill a slot, the clearly slower ones not to the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mlx.core as mx
import pytest

from metal.trial_case import CaseSpec, Contender
from metal.trial_timing import TimingPlan, time_candidates

PLAN = TimingPlan(rounds=5, fewest=3, slot_s=0.004, most_links=64, case_s=100.0)


class FakeCase:
    """Each launch takes its candidate's seconds on a clock of its own, when the chain is built."""

    key, spec, tolerance = "fake", CaseSpec("", ""), 0.0

    def __init__(self, seconds: Mapping[str, float], *, counts_host: bool = False) -> None:
        self.counts_host = counts_host
        self.contenders = tuple(Contender(name) for name in seconds)
        self.now = 0.0
        self.chains: list[tuple[str, int]] = []
        self._seconds = seconds

    def error(self, name: str) -> float:
        raise AssertionError(f"{name} is timed, not checked")

    def chain(self, name: str, links: int) -> Sequence[mx.array]:
        self.chains.append((name, links))
        self.now += links * self._seconds[name]
        return []


def timed(case: FakeCase, plan: TimingPlan = PLAN, *, is_lazy: bool = False) -> dict[str, float]:
    names = [one.name for one in case.contenders]
    return time_candidates(case, names, plan, is_lazy=is_lazy, clock=lambda: case.now)


def test_microseconds_of_a_launch() -> None:
    assert timed(FakeCase({"mlx": 200e-6, "a": 100e-6})) == pytest.approx({"mlx": 200.0, "a": 100.0})


@pytest.mark.parametrize(("seconds", "links"), [(200e-6, 20), (1e-6, 64), (0.003, 4), (0.1, 1)])
def test_a_chain_fills_a_slot_between_bounds(seconds: float, links: int) -> None:
    case = FakeCase({"mlx": seconds, "a": seconds})
    timed(case)
    assert case.chains[-1] == ("a", links)


def test_candidates_take_turns() -> None:
    case = FakeCase({"mlx": 200e-6, "a": 210e-6, "b": 190e-6})
    timed(case)
    assert [name for name, links in case.chains if links == 20] == ["mlx", "a", "b"] * 5


def test_one_that_is_clearly_slower_is_left_out_after_a_few_rounds() -> None:
    case = FakeCase({"mlx": 200e-6, "slow": 400e-6, "b": 190e-6})
    assert timed(case)["slow"] == pytest.approx(400.0)
    long = [name for name, links in case.chains if links == 20]
    assert (long.count("slow"), long.count("b")) == (3, 5)


def test_when_one_is_left_nothing_more_is_measured() -> None:
    case = FakeCase({"mlx": 200e-6, "slow": 400e-6})
    timed(case)
    assert [name for name, links in case.chains if links == 20] == ["mlx", "slow"] * 3


def test_time_is_limited() -> None:
    case = FakeCase({"mlx": 200e-6, "a": 200e-6})
    timed(case, TimingPlan(rounds=100, fewest=3, case_s=0.05))
    assert case.now < 0.1


def test_building_a_lazy_chain_does_not_count() -> None:
    assert timed(FakeCase({"mlx": 200e-6, "a": 100e-6}), is_lazy=True) == {"mlx": 0.0, "a": 0.0}


@pytest.mark.parametrize(("counts_host", "expected"), [(False, 0.0), (True, 200.0)])
def test_what_the_host_takes_to_build_a_lazy_chain_counts_where_a_case_says_so(
    counts_host: bool, expected: float
) -> None:
    case = FakeCase({"mlx": 200e-6, "a": 200e-6}, counts_host=counts_host)
    assert timed(case, is_lazy=True) == pytest.approx({"mlx": expected, "a": expected})
