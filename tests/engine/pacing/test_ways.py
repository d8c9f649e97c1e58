"""A prompt beside answers goes the way that is quicker, and the other is tried where that costs little."""

from __future__ import annotations

from itertools import islice
from statistics import quantiles

import pytest

from engine.pacing.slices import Pace
from engine.pacing.ways import Mixing, Ways
from tests.engine.simulated_machine import MAC, Machine, Step, beside, fill, known, measured, seconds


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(MAC, id="a Mac and a model of a billion"),
        pytest.param(
            Machine(alone=0.060, token=0.004, hidden=0.050, layer=0.0001), id="two cores of a server"
        ),
    ],
)
def test_a_prompt_goes_with_answers_that_wait_for_their_weights(machine: Machine) -> None:
    """Then it keeps most of its speed alone, and no step takes much more than twice the answers' own."""
    steps = beside(machine, steps=600)
    assert max(seconds(steps)) <= 2.4 * machine.alone
    settled = [step for step in steps[200:] if step.is_mixed]
    assert len(settled) >= 0.9 * len(steps[200:])
    speed = sum(step.tokens for step in settled) / sum(seconds(settled))
    assert speed >= 0.7 / machine.token


def test_where_that_is_slow_it_is_seldom_tried() -> None:
    """A step through all layers takes 11 ms more there, whatever is in it."""
    machine = Machine(alone=0.0014, token=0.0000125, layer=0.0005)
    steps = beside(machine, steps=4000)
    assert sum(step.is_mixed for step in steps) <= 30
    assert quantiles(seconds(steps), n=100)[-1] <= 2.4 * machine.alone


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(Machine(alone=0.0014, token=0.0000125, layer=0.0005), id="each layer costs"),
        pytest.param(Machine(alone=0.0055, token=0.00003, layer=0.0004), id="and weights are read quickly"),
    ],
)
def test_what_is_slow_at_rest_is_never_tried_beside_answers(machine: Machine) -> None:
    steps = beside(machine, steps=4000, mixing=measured(machine))
    assert not any(step.is_mixed for step in steps)


def test_nobody_waits_for_what_was_not_measured_at_rest() -> None:
    """It may compile for seconds: 6.1 s of a running answer were met on an H100."""
    assert not any(step.is_mixed for step in beside(MAC, steps=600, mixing=Mixing({})))


def test_what_is_quick_at_rest_is_tried_and_stays() -> None:
    steps = beside(MAC, steps=600, mixing=measured(MAC))
    assert sum(step.is_mixed for step in steps[200:]) >= 0.9 * len(steps[200:])
    assert sum(step.tokens for step in steps[200:]) / sum(seconds(steps[200:])) >= 0.7 / MAC.token


def test_other_kernels_are_measured_before_prompts_go_with_answers_again() -> None:
    times = dict(measured(MAC).times)
    sizer = known(MAC, mixing=Mixing(times))

    def cost(tokens: int, layers: int, is_mixed: bool) -> float:
        return MAC.seconds(tokens, layers, is_mixed=is_mixed)

    def last() -> Step:
        return list(islice(fill(sizer, 1_000_000, cost), 200))[-1]

    assert last().is_mixed
    times.clear()
    assert not last().is_mixed
    times.update(measured(MAC).times)
    assert last().is_mixed


def test_a_way_that_cannot_be_taken_is_not_waited_for() -> None:
    """Where steps of a trial are not mixed after all, it ends."""
    ways = Ways()
    for _ in range(1000):
        ways.took(is_mixed=False, mixed=None, apart=Pace(1.0, fits=True))
    assert not ways.is_mixed


RESTS, TRIAL, OTHERS = (40, 1500), 40, 200


def step(ways: Ways, steps: int, tried: Pace | None, before: Pace | None, *, is_mixed: bool) -> None:
    """Of a prompt, with MIXED as what is tried."""
    for _ in range(steps):
        ways.took(is_mixed=is_mixed, mixed=tried, apart=before)


@pytest.mark.parametrize(
    ("tried", "before", "is_better"),
    [
        (Pace(10.6, fits=True), Pace(10.0, fits=True), True),
        (Pace(10.4, fits=True), Pace(10.0, fits=True), False),
        (Pace(5.0, fits=True), None, True),
        (Pace(0.0, fits=False), None, False),
        (Pace(20.0, fits=False), Pace(10.0, fits=True), False),
        (None, Pace(10.0, fits=True), False),
    ],
)
def test_the_other_way_is_taken_where_a_trial_has_shown_that_it_is_clearly_faster(
    tried: Pace | None, before: Pace | None, is_better: bool
) -> None:
    ways = Ways()
    step(ways, RESTS[0] - 1, tried, before, is_mixed=False)
    assert not ways.is_mixed
    step(ways, 1, tried, before, is_mixed=False)
    assert ways.is_mixed
    step(ways, OTHERS - 1, Pace(1.0, fits=True), before, is_mixed=False)  # of chunks that were begun before
    assert ways.is_mixed
    step(ways, TRIAL, tried, before, is_mixed=True)
    assert ways.is_mixed is is_better
    step(ways, RESTS[1] - 1, tried, before, is_mixed=is_better)
    assert ways.is_mixed is is_better
    step(ways, 1, tried, before, is_mixed=is_better)
    assert ways.is_mixed is not is_better


def test_the_way_back_is_judged_by_its_own_pace() -> None:
    ways = Ways(is_mixed=True, rest=1)
    step(ways, 1, Pace(10.0, fits=True), None, is_mixed=True)
    assert not ways.is_mixed
    step(ways, TRIAL, Pace(10.0, fits=True), Pace(9.0, fits=True), is_mixed=False)
    assert ways.is_mixed
    step(ways, RESTS[1], Pace(10.0, fits=True), Pace(11.0, fits=True), is_mixed=True)
    step(ways, TRIAL, Pace(10.0, fits=True), Pace(11.0, fits=True), is_mixed=False)
    assert not ways.is_mixed


@pytest.mark.parametrize(("work", "is_promising"), [(1.04, False), (1.06, True)])
def test_a_trial_has_to_promise_clearly_more_than_there_is(work: float, is_promising: bool) -> None:
    """Of two sizes that were measured at rest one alone is short enough."""
    mixing = Mixing({10: 2.0, 1000: 3.0})  # 10 tokens through 4 layers in 0.2 s
    assert mixing.is_promising(Pace(200.0 / work, fits=True), 4, 0.1, 0.25) is is_promising
