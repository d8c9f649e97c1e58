"""Days and weeks begin where people's clocks say, also on the days when these are changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.history.spans import Span, day_span, session_span, week_span

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def _in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_in_berlin")
@pytest.mark.parametrize(("month", "day", "hours"), [(3, 31, 23), (10, 27, 25), (6, 5, 24)])
def test_a_day_is_as_long_as_the_clock_makes_it(month: int, day: int, hours: int) -> None:
    now = datetime(2024, month, day, 15, 30, tzinfo=BERLIN)
    span = week_span(now.timestamp())
    midnights = [datetime(2024, month, day, tzinfo=BERLIN) + timedelta(days=d) for d in range(-6, 2)]
    assert span.edges == tuple(midnight.timestamp() for midnight in midnights)
    assert [high - low for low, high in span.buckets] == [86400.0] * 6 + [hours * 3600.0]


@pytest.mark.usefixtures("_in_berlin")
@pytest.mark.parametrize(("month", "day"), [(3, 31), (10, 27), (6, 5)])
@pytest.mark.parametrize("hour", [0, 3, 15])
def test_the_day_ends_with_the_present_hour(month: int, day: int, hour: int) -> None:
    now = datetime(2024, month, day, hour, 59, 59, 999_000, tzinfo=BERLIN).timestamp()
    span = day_span(now)
    assert len(span.buckets) == 24
    assert {high - low for low, high in span.buckets} == {3600.0}
    assert span.buckets[-1][0] <= now < span.buckets[-1][1]
    assert datetime.fromtimestamp(span.edges[-2]).minute == 0


@given(st.floats(0, 1e7))
def test_a_session_is_all_in_its_buckets(seconds: float) -> None:
    span = session_span("now", seconds)
    assert span.session == "now"
    assert len(span.buckets) == 60
    assert span.edges[0] == 0
    assert span.edges[-1] > seconds


@pytest.mark.parametrize("edges", [(), (1.0,), (1.0, 1.0), (2.0, 1.0)])
def test_edges_that_do_not_ascend_are_refused(edges: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        Span(edges)
