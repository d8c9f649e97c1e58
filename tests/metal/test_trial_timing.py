"""How candidates are timed: a look at all, then a race of those near the best, in chains that fill a slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from time import perf_counter, process_time

import mlx.core as mx
import numpy as np
import pytest

from metal.trial_case import CaseSpec, Contender
from metal.trial_timing import DeviceWork, TimingPlan, time_candidates

PLAN = TimingPlan(
    look_s=0.001, slot_s=0.004, alone_s=0.01, most_links=64, looks=2, fewest=3, rounds=5, case_s=100.0
)
LOOK, RACE = 5, 20  # links, of launches of 200 µs


class FakeCase:
    """Each launch takes its candidate's seconds on a clock of its own, when the chain is built.

    Waiting for a chain takes `WAIT_S`. `slows` is by how much all launches take longer from one chain to the
    next, as on a machine that others use.
    """

    WAIT_S = 50e-6

    key, spec, tolerance = "fake", CaseSpec("", ""), 0.0

    def __init__(
        self, seconds: Mapping[str, float], *, counts_host: bool = False, slows: float = 1.0
    ) -> None:
        self.counts_host = counts_host
        self.contenders = tuple(Contender(name) for name in seconds)
        self.now = 0.0
        self.chains: list[tuple[str, int]] = []
        self.built = False
        self._seconds = seconds
        self._slows, self._factor = slows, 1.0

    def error(self, name: str) -> float:
        raise AssertionError(f"{name} is timed, not checked")

    def chain(self, name: str, links: int) -> Sequence[mx.array]:
        self.chains.append((name, links))
        self.built = True
        self.now += links * self._seconds[name] * self._factor
        self._factor *= self._slows
        return []

    def clock(self) -> float:
        """Read before and after a chain: half of what waiting takes each time."""
        self.now += self.WAIT_S / 2
        return self.now

    def rounds(self, name: str, links: int) -> int:
        """How many chains of so many links there were."""
        return self.chains.count((name, links))

    def launches(self, name: str) -> int:
        """Of a candidate, in all."""
        return sum(links for of, links in self.chains if of == name)


def timed(case: FakeCase, plan: TimingPlan = PLAN, *, is_lazy: bool = False) -> dict[str, float]:
    names = [one.name for one in case.contenders]
    return time_candidates(case, names, plan, is_lazy=is_lazy, clock=case.clock)


def test_microseconds_of_a_launch() -> None:
    found = timed(FakeCase({"mlx": 200e-6, "a": 100e-6, "b": 95e-6}))
    assert found == pytest.approx({"mlx": 200.0, "a": 100.0, "b": 95.0}, rel=0.05)


@pytest.mark.parametrize(
    ("seconds", "look", "race"), [(200e-6, 5, 20), (1e-6, 64, 64), (0.003, 1, 1), (0.1, 1, 1)]
)
def test_chains_fill_slots_between_bounds(seconds: float, look: int, race: int) -> None:
    case = FakeCase({"mlx": seconds, "a": seconds})
    timed(case)
    assert case.chains[-1] == ("a", race)
    assert case.rounds("a", look) >= 2


def test_candidates_take_turns() -> None:
    case = FakeCase({"mlx": 200e-6, "a": 204e-6, "b": 196e-6})
    timed(case)
    assert [name for name, links in case.chains if links == LOOK] == ["mlx", "a", "b"] * 2
    assert [name for name, links in case.chains if links == RACE] == ["mlx", "a", "b"] * 5


def test_one_that_is_clearly_slower_is_only_looked_at() -> None:
    case = FakeCase({"mlx": 200e-6, "slow": 400e-6, "near": 240e-6, "b": 196e-6})
    found = timed(case)
    assert {name: case.rounds(name, RACE) for name in found} == {"mlx": 5, "slow": 0, "near": 3, "b": 5}
    assert found["slow"] == pytest.approx(400.0, rel=0.1)


def test_when_one_is_left_nothing_more_is_measured() -> None:
    case = FakeCase({"mlx": 200e-6, "slow": 400e-6})
    timed(case)
    assert [name for name, links in case.chains if links == LOOK] == ["mlx", "slow"] * 2
    assert case.chains[-1] == ("slow", LOOK)


def test_when_the_built_in_is_out_others_that_are_near_each_other_race_no_longer() -> None:
    case = FakeCase({"mlx": 200e-6, "a": 100e-6, "b": 101e-6})
    found = timed(case)
    assert {name: case.rounds(name, RACE) for name in found} == {"mlx": 0, "a": 3, "b": 3}
    assert found["a"] < found["b"] < found["mlx"]


def test_what_fills_a_slot_alone_runs_no_more_than_it_takes_to_tell() -> None:
    case = FakeCase({"mlx": 0.07, "a": 0.002})
    timed(case)
    assert case.launches("mlx") == 4
    near = FakeCase({"mlx": 0.07, "a": 0.071})
    timed(near)
    assert near.launches("mlx") == 2 + PLAN.rounds  # its look is part of the race


@pytest.mark.parametrize("built_in", [0.07, 0.002])
def test_a_slow_built_in_leaves_others_no_shorter_chains(built_in: float) -> None:
    """They would take what waiting takes, and be told apart by nothing else."""
    case = FakeCase({"mlx": built_in, "a": 200e-6, "b": 170e-6, "slow": 0.003})
    found = timed(case)
    race = case.chains[-1][1]
    assert race * 170e-6 == pytest.approx(PLAN.slot_s, rel=0.3)
    assert (case.rounds("a", race), case.rounds("b", race)) == (PLAN.fewest, PLAN.fewest)
    assert found["a"] / found["b"] == pytest.approx(200 / 170, rel=0.02)
    assert found["mlx"] == pytest.approx(1e6 * built_in, rel=0.05)
    assert all(links * 0.003 <= PLAN.alone_s for name, links in case.chains if name == "slow" and links > 4)


def test_what_slows_all_down_is_no_candidates_fault() -> None:
    seconds = {"mlx": 200e-6, "slow": 300e-6, "a": 192e-6}
    found = timed(FakeCase(seconds, slows=1.01))
    assert found["a"] < 0.98 * found["mlx"]
    assert found["slow"] / found["a"] == pytest.approx(300 / 192, rel=0.06)


def test_time_is_limited() -> None:
    case = FakeCase({"mlx": 200e-6, "a": 200e-6})
    timed(case, TimingPlan(rounds=100, fewest=3, case_s=0.05))
    assert case.now < 0.1


@pytest.mark.parametrize("microseconds", [15, 30, 140, 1500])
@pytest.mark.parametrize(("fastest", "most_s"), [(1.0, 0.037), (0.6, 0.013)])
def test_launches_of_a_case_are_bounded(microseconds: int, fastest: float, most_s: float) -> None:
    """Six cuts beside the built-in, two of them near the best: what a trial's GPU time is made of."""
    shares = {"mlx": 1.0, "a": fastest, "b": 1.04 * fastest, **dict.fromkeys("cdef", 1.5)}
    case = FakeCase({name: share * microseconds * 1e-6 for name, share in shares.items()})
    timed(case, TimingPlan())
    all_s = sum(case.launches(name) * share * microseconds * 1e-6 for name, share in shares.items())
    assert all(case.launches(name) <= 67 for name in "cdef")
    assert all_s < most_s + 27 * microseconds * 1e-6


def test_building_a_lazy_chain_does_not_count() -> None:
    found = timed(FakeCase({"mlx": 200e-6, "a": 100e-6}), is_lazy=True)
    assert all(microseconds < 50 for microseconds in found.values())


@pytest.mark.parametrize(("counts_host", "expected"), [(False, 0.0), (True, 200.0)])
def test_what_the_host_takes_to_build_a_lazy_chain_counts_where_a_case_says_so(
    counts_host: bool, expected: float
) -> None:
    case = FakeCase({"mlx": 200e-6, "a": 200e-6}, counts_host=counts_host)
    assert timed(case, is_lazy=True) == pytest.approx({"mlx": expected, "a": expected}, rel=0.05, abs=2)


class FakeDevice:
    """Stands for MLX: what was built takes as long as its device or its host needs, whichever is longer."""

    def __init__(
        self,
        case: FakeCase,
        device: Mapping[str, float],
        host_s: float,
        late_s: Iterator[float] | None = None,
    ) -> None:
        """`late_s`: by how much each evaluation takes longer than that."""
        self._case, self._device, self._host_s = case, device, host_s
        self._late_s = late_s or repeat(0.0)
        self._busy_s = 0.0

    def keep_busy(self, seconds: float) -> list[mx.array]:
        self._busy_s += seconds
        return []

    def async_eval(self, work: list[mx.array]) -> None:
        assert work == []

    def eval(self, arrays: Sequence[mx.array]) -> None:
        (name, links), is_chain = self._case.chains[-1], self._case.built
        self._case.built = False
        chain = links * self._device[name] if is_chain else 0.0
        host = links * self._host_s if is_chain else 0.0
        self._case.now += max(self._busy_s + chain, host) + next(self._late_s)
        self._busy_s = 0.0


def test_of_kernels_that_a_host_sends_slowly_the_one_that_a_device_runs_faster_is_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = {"mlx": 30e-6, "a": 9e-6, "b": 6e-6, "c": 60e-6}

    def found(**options: object) -> dict[str, float]:
        case = FakeCase(dict.fromkeys(seconds, 0.0))
        device = FakeDevice(case, seconds, host_s=20e-6)
        monkeypatch.setattr("metal.trial_timing.mx", device)
        busy = device.keep_busy if options.get("is_busy") else None
        return time_candidates(case, list(seconds), PLAN, is_lazy=True, keep_busy=busy, clock=case.clock)

    idle, busy = found(), found(is_busy=True)
    assert idle["a"] == pytest.approx(idle["b"], rel=0.01)
    assert busy["a"] == pytest.approx(1.5 * busy["b"], rel=0.05)
    assert busy["b"] == pytest.approx(20, rel=0.2)  # what a chain takes, host and all
    assert (busy["mlx"], busy["c"]) == pytest.approx((idle["mlx"], idle["c"]), rel=0.03)


def test_a_device_that_is_read_late_now_and_then_is_known_well_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two cuts 1.5 µs apart, a host that takes 28 µs to send one, and 50 µs by which its waiting differs."""
    seconds = {"mlx": 75e-6, "a": 13.0e-6, "b": 14.5e-6, "c": 40e-6}
    right = 0
    for seed in range(50):
        late = np.random.default_rng(seed).exponential(50e-6, 10_000)
        case = FakeCase(dict.fromkeys(seconds, 0.0))
        device = FakeDevice(case, seconds, 28e-6, iter(late.tolist()))
        monkeypatch.setattr("metal.trial_timing.mx", device)
        found = time_candidates(
            case, list(seconds), TimingPlan(), is_lazy=True, keep_busy=device.keep_busy, clock=case.clock
        )
        right += min(found, key=lambda name: found[name]) == "a"
    assert right >= 47


def test_where_the_host_is_slow_now_and_then_the_built_in_is_taken_for_no_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every fifth chain is sent a good deal more slowly, so that a look tells a kernel from none."""
    seconds = {"mlx": 43e-6, "a": 26e-6, "b": 25e-6, "c": 29e-6, "d": 27e-6, "e": 30e-6}
    chosen = list[str]()
    for seed in range(50):
        rng = np.random.default_rng(seed)
        late = np.where(
            rng.random(10_000) < 0.2, rng.exponential(5e-4, 10_000), rng.exponential(50e-6, 10_000)
        )
        case = FakeCase(dict.fromkeys(seconds, 0.0))
        device = FakeDevice(case, seconds, 30e-6, iter(late.tolist()))
        monkeypatch.setattr("metal.trial_timing.mx", device)
        found = time_candidates(
            case, list(seconds), TimingPlan(), is_lazy=True, keep_busy=device.keep_busy, clock=case.clock
        )
        chosen.append(min(found, key=lambda name: found[name]))
    assert "mlx" not in chosen
    assert sum(name in ("b", "a") for name in chosen) >= 45


def test_work_keeps_a_device_busy_for_about_as_long_as_is_asked() -> None:
    is_cpu = mx.default_device() == mx.Device(mx.cpu, 0)
    clock = process_time if is_cpu else perf_counter  # others may use the machine meanwhile
    work = DeviceWork(512, clock)  # of 256 rows, beside others' work, OpenBLAS's threads mostly spin
    took = list[float]()
    for _ in range(3):
        began = clock()
        mx.eval(work(0.5))
        took.append(clock() - began)
    assert 0.1 < min(took) < 2.5
