"""Samples of the last minutes: what is kept, what is drawn, and what a wrong clock does to them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dashboard.series import GAP, Point, Series, runs, thinned

TIMES = st.lists(st.floats(0, 1e6), max_size=200)


def test_what_is_older_than_the_window_goes() -> None:
    series = Series(window=10.0)
    for at in range(100):
        series.add(float(at), (float(at),))
    assert [point.at for point in series.points] == [float(at) for at in range(89, 100)]


def test_memory_stays_flat_over_eight_hours() -> None:
    series = Series()
    for place in range(8 * 3600 * 10):
        series.add(0.1 * place, (1.0,))
    assert len(series.points) == pytest.approx(3001, abs=1)
    assert len(series._points) < 2 * 3002 + 2


@given(TIMES)
def test_with_any_clock_times_are_in_order_and_within_the_window(times: list[float]) -> None:
    series = Series(window=50.0)
    for at in times:
        series.add(at, (1.0,))
        kept = [point.at for point in series.points]
        assert kept == sorted(kept)
        assert kept[-1] == at
        assert kept[0] >= at - 50.0


def test_a_clock_that_goes_back_begins_anew() -> None:
    series = Series()
    for at in (100.0, 101.0, 3.0):
        series.add(at, (at,))
    assert series.points == [Point(3.0, (3.0,))]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, None])
def test_what_is_no_number_is_not_drawn(wrong: float | None) -> None:
    series = Series()
    for at, value in ((1.0, 5.0), (1.1, wrong), (1.2, 6.0)):
        series.add(at, (value,))
    assert runs(series.points, 0) == [[(1.0, 5.0)], [(1.2, 6.0)]]


def test_a_line_ends_at_a_gap_and_where_a_model_is_loaded_anew() -> None:
    series = Series()
    for at in (1.0, 1.5, 1.5 + GAP + 0.1):
        series.add(at, (at,))
    series.cut()
    series.cut()
    series.add(3.7, (9.0,))
    assert runs(series.points, 0) == [[(1.0, 1.0), (1.5, 1.5)], [(3.6, 3.6)], [(3.7, 9.0)]]


@given(st.lists(st.floats(0, 100), max_size=300), st.floats(0.05, 30))
def test_thinned_lines_keep_each_columns_ends_and_extremes(values: list[float], width: float) -> None:
    run = [(0.1 * place, value) for place, value in enumerate(values)]
    kept = thinned(run, width)
    assert kept == sorted(set(kept))
    assert set(kept) <= set(run)
    columns: dict[float, list[tuple[float, float]]] = {}
    for sample in run:
        columns.setdefault(sample[0] // width, []).append(sample)
    for column in columns.values():
        here = [sample for sample in kept if sample in set(column)]
        assert len(here) <= 4
        assert (here[0], here[-1]) == (column[0], column[-1])
        assert {min(v for _, v in column), max(v for _, v in column)} <= {v for _, v in here}
