"""Strokes of a chart's lines: what is drawn, what is joined, and the extremes of what is kept."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dashboard.series import Point
from app.dashboard.strokes import GAP, Extremes, Sample, Stroke, Strokes, since

VALUES = st.lists(st.one_of(st.none(), st.floats(0, 100)), max_size=300)


def drawn(points: Sequence[Point], width: float) -> list[Stroke]:
    strokes = Strokes(1, width)
    return [*(stroke for point in points for stroke in strokes.add(point)), *strokes.open]


def own(stroke: Stroke) -> tuple[Sample, ...]:
    """Its samples without the one that it comes from."""
    return stroke.samples if stroke.begins else stroke.samples[1:]


@given(VALUES, st.floats(0.05, 30))
def test_strokes_keep_each_columns_ends_and_extremes(values: list[float | None], width: float) -> None:
    points = [Point(0.1 * place, (value,)) for place, value in enumerate(values)]
    runs: list[list[Sample]] = [[]]
    for point in points:
        (value,) = point.values
        runs[-1].append((point.at, value)) if value is not None else runs.append([])
    columns: list[list[Sample]] = []
    for run in runs:
        for place, sample in enumerate(run):
            if not place or sample[0] // width != run[place - 1][0] // width:
                columns.append([])
            columns[-1].append(sample)
    strokes = drawn(points, width)
    assert len(strokes) == len(columns)
    for stroke, column in zip(strokes, columns, strict=True):
        kept = own(stroke)
        assert list(kept) == sorted(set(kept))
        assert set(kept) <= set(column)
        assert len(kept) <= 4
        assert (kept[0], kept[-1]) == (column[0], column[-1])
        assert {min(v for _, v in column), max(v for _, v in column)} <= {v for _, v in kept}


@pytest.mark.parametrize("width", [0.05, 0.7, 30.0])
def test_lines_are_joined_but_over_a_gap_and_over_a_missing_value(width: float) -> None:
    times = [1.0, 1.5, 1.5 + GAP + 0.1, 3.7, 3.7, 3.8]
    values = [5.0, 6.0, 7.0, None, 8.0, 9.0]
    strokes = drawn([Point(at, (value,)) for at, value in zip(times, values, strict=True)], width)
    joined = {pair for stroke in strokes for pair in zip(stroke.samples, stroke.samples[1:], strict=False)}
    assert {(one[1], other[1]) for one, other in joined} == {(5.0, 6.0), (8.0, 9.0)}
    assert [stroke.samples[0][1] for stroke in strokes if stroke.begins] == [5.0, 7.0, 8.0]


def test_lines_end_apart_from_each_other() -> None:
    strokes = Strokes(2, 10.0)
    assert strokes.add(Point(8.5, (5.0, None))) == []
    assert strokes.add(Point(9.5, (None, 6.0))) == [Stroke(0, ((8.5, 5.0),), begins=True)]
    assert strokes.open == [Stroke(1, ((9.5, 6.0),), begins=True)]
    assert strokes.add(Point(11.0, (7.0, 8.0))) == [Stroke(1, ((9.5, 6.0),), begins=True)]
    assert strokes.open == [
        Stroke(0, ((11.0, 7.0),), begins=True),
        Stroke(1, ((9.5, 6.0), (11.0, 8.0)), begins=False),
    ]


@given(st.lists(st.floats(-100, 100), max_size=100), st.integers(1, 30))
def test_extremes_are_those_of_what_is_kept(values: list[float], window: int) -> None:
    extremes = Extremes()
    assert extremes.known is None
    for at, value in enumerate(values):
        extremes.add(at, value)
        extremes.drop(at - window)
        kept = values[max(0, at - window) : at + 1]
        assert extremes.known == (min(kept), max(kept), value)
    extremes.drop(len(values))
    assert extremes.known is None


def test_what_is_new_is_behind_the_last_that_is_known() -> None:
    points = [Point(1.0, (1.0,)), Point(2.0, (2.0,)), Point(3.0, (3.0,))]
    assert since(points, points[0]) == points[1:]
    assert since(points, points[2]) == []
    assert since(points[1:], points[0]) is None
    assert since(points, Point(3.0, (3.0,))) is None
    assert since(points, None) is None
