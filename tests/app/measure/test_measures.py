"""The measurements run and count right; their figures are for `mlxr bench`, not for tests."""

from __future__ import annotations

import pytest

from app.measure.child import MeasureFailed, run_child
from app.measure.dashboard_cost import CLOSED, DashboardCost, measure_dashboard_cost
from app.measure.paced_engine import PacedEngine
from app.measure.stall import lateness, measure_stall, percentile
from app.model_location import GUIDE
from engine import Event, Finished, Generate, Message, TextChunk


def test_lateness_is_what_exceeds_the_interval() -> None:
    assert lateness([0.0, 0.001, 0.004, 0.0045], 0.001) == pytest.approx([0.0, 0.002, 0.0])


def test_percentiles() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert percentile(values, 0.5) == 51.0
    assert percentile(values, 0.99) == 100.0
    assert percentile([3.0], 0.99) == 3.0


def test_the_paced_engine_streams_what_it_says_it_finished() -> None:
    events: list[Event] = []
    engine = PacedEngine(events.append, per_second=5000, tokens=50)
    engine.start()
    engine.submit(Generate("r", messages=(Message("user", "hello"),)))
    while not (events and isinstance(events[-1], Finished)):
        pass
    assert engine.close(10)
    end = events[-1]
    assert isinstance(end, Finished)
    assert "".join(event.text for event in events if isinstance(event, TextChunk)) == end.text
    assert len(end.tokens) == 50


def test_a_stall_is_measured_in_the_real_window() -> None:
    found = measure_stall(tokens=60, per_second=50)
    assert found.tokens == 60
    assert found.beats > 1  # a thousand, where nothing else keeps the machine busy
    assert 0 <= found.median_ms <= found.p99_ms <= found.max_ms


def test_a_pane_is_compared_with_the_closed_dashboard_of_its_round() -> None:
    decode = {CLOSED: (100.0, 50.0), "Live": (99.0, 51.0)}
    busy = {CLOSED: (0.01, 0.03), "Live": (0.02, 0.02)}
    cost = DashboardCost(decode, busy, (0.01,))
    assert cost.panes == ("Live",)
    assert cost.ratios("Live") == pytest.approx((0.99, 1.02))
    assert cost.more_busy("Live") == pytest.approx((0.01, -0.01))


@pytest.mark.long
def test_every_pane_of_the_dashboard_is_measured() -> None:
    cost = measure_dashboard_cost(GUIDE, rounds=1, tokens=16)
    assert cost.panes == ("Live", "Cache", "Kernels", "History", "Benchmark", "Logs")
    for side in (CLOSED, *cost.panes):
        assert len(cost.decode[side]) == len(cost.busy[side]) == 1
        assert cost.decode[side][0] > 0
        assert 0 < cost.busy[side][0] < 1
    assert 0 < cost.idle[0] < 1


def test_a_child_that_fails_is_one_line() -> None:
    with pytest.raises(MeasureFailed, match="no_such_module"):
        run_child("app.measure.no_such_module")
