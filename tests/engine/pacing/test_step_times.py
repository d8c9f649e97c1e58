"""What steps took, against a plain model of a host and a device that work at the same time."""

from collections.abc import Sequence

import pytest

from engine.pacing.step_times import Reading, Sending, step_seconds

READ = 1e-6  # of results that are there


def pipeline(steps: Sequence[tuple[float, float]], telling: float = 0.0) -> list[float | None]:
    """What is said of steps of (host, device) seconds; each but the first is sent before the last is read.

    `telling`: seconds of the host after each reading.
    """
    clock, device, last_read = 100.0, 0.0, 0.0
    flying: tuple[Sending, float] | None = None
    said: list[float | None] = []
    for number in range(len(steps) + 1):
        following: tuple[Sending, float] | None = None
        if number < len(steps):
            host, work = steps[number]
            sending = Sending(clock, clock + host)
            clock = sending.ended
            device = max(clock, device) + work  # it begins when all of it has arrived
            following = (sending, device)
        if flying is not None:
            sent, done = flying
            read = Reading(clock, max(clock, done) + READ)
            clock = read.ended
            said.append(step_seconds(sent, read, last_read, following[0] if following else None))
            last_read = clock
            clock += telling
        flying = following
    return said


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([(0.002, 0.050)] * 5, id="the device is slower"),
        pytest.param([(0.025, 0.001)] * 5, id="the host is slower"),
        pytest.param([(0.001, 0.030), (0.100, 0.004), (0.001, 0.030)], id="one is slow to build"),
        pytest.param([(0.001, 0.004)] * 3 + [(0.040, 0.002)] + [(0.001, 0.004)] * 3, id="one among many"),
    ],
)
def test_a_step_takes_what_the_slower_of_host_and_device_does(steps: list[tuple[float, float]]) -> None:
    unknown = 0
    for (host, device), seconds in zip(steps, pipeline(steps), strict=True):
        unknown += seconds is None
        assert seconds is None or seconds == pytest.approx(
            max(host, device), rel=0.3
        )  # the first waits for both
    assert unknown <= 1


def test_what_the_host_does_between_two_readings_is_part_of_a_step_of_a_slow_host() -> None:
    said = pipeline([(0.0015, 0.0008)] * 20, telling=0.0004)[1:-1]
    assert said == [pytest.approx(0.0019, rel=0.02)] * 18


def test_and_hides_behind_a_slow_device() -> None:
    said = pipeline([(0.0015, 0.0030)] * 20, telling=0.0004)[1:-1]
    assert said == [pytest.approx(0.0030, rel=0.02)] * 18


def test_the_last_step_of_a_slow_host_is_not_for_nothing() -> None:
    last = pipeline([(0.025, 0.0003)] * 3)[-1]
    assert last is not None
    assert last >= 0.025


def test_a_step_alone_takes_all_of_its_time() -> None:
    assert pipeline([(0.010, 0.020)]) == [pytest.approx(0.030, rel=1e-3)]


def test_steps_that_take_about_as_long_to_build_are_all_known() -> None:
    assert None not in pipeline([(0.010, 0.001), (0.013, 0.001)] * 4)
