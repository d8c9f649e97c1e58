"""The live chart's picture: where samples are, and that it is the same however it came about."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.dashboard.chart import Chart
from app.dashboard.live_cards import CARDS
from app.dashboard.palette import colour_of
from app.dashboard.series import Point, Series, Values
from tests.app.dashboard.painted import Painted

GAPS, DECODE = (next(card for card in CARDS if card.key == key) for key in ("gaps", "decode"))
BEGIN = 54_321.0
RATIOS = (1.0, 1.5, 2.0)


@pytest.fixture
def appearance(qapp: QApplication) -> Appearance:
    return Appearance(qapp, "light")


@pytest.fixture
def make(qtbot: QtBot, appearance: Appearance) -> Callable[[], Chart]:
    def made() -> Chart:
        chart = Chart(appearance)
        qtbot.addWidget(chart)
        chart.resize(640, 260)
        return chart

    return made


def picture(chart: Chart, ratio: float) -> QImage:
    """As it is painted on a screen with so many pixels in one."""
    image = QImage(chart.size() * ratio, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(ratio)
    image.fill(Qt.GlobalColor.magenta)
    chart.render(image, QPoint(0, 0))
    return image


def samples(series: Series, seconds: float, lines: int, seed: int) -> None:
    """So many seconds of samples behind those that there are."""
    draw = random.Random(seed)
    begin = series.points[-1].at if series.points else BEGIN
    for place in range(1, round(10 * seconds)):
        values: Values = tuple(line * 10 + draw.uniform(3, 8) for line in range(lines))
        series.add(begin + 0.1 * place, values)


@pytest.mark.parametrize("ratio", RATIOS)
def test_a_picture_that_grew_is_the_one_that_is_drawn_at_once(
    make: Callable[[], Chart], appearance: Appearance, monkeypatch: pytest.MonkeyPatch, ratio: float
) -> None:
    monkeypatch.setattr(Chart, "devicePixelRatioF", lambda self: ratio)
    grown, series = make(), Series()
    pictures: list[QImage] = []

    def check() -> None:
        at_once = make()
        for chart in (grown, at_once):
            chart.resize(grown.size())
            chart.show_series(GAPS, series.points, series.points[-1].at + 0.2)
        assert at_once.accessibleDescription() == grown.accessibleDescription() != "Nothing yet"
        pictures.append(picture(grown, ratio))
        assert pictures[-1] == picture(at_once, ratio)

    for seconds in (
        0.3,
        0.4,
        2,
        3,
        30,
        0.5,
        0.5,
        60,
        1,
        120,
        2,
        50,
    ):  # through all zooms, each more than once
        samples(series, seconds, 3, round(10 * seconds))
        check()
    series.cut()
    samples(series, 2, 3, 1)
    check()
    grown.resize(500, 300)
    check()
    appearance.choose("dark")
    check()
    series.add(series.points[-1].at + 0.1, (1.0, 2.0, 900.0))  # the axis is another one
    samples(series, 3, 3, 2)
    check()
    assert all(one != other for one, other in pairwise(pictures))


@pytest.mark.parametrize("ratio", RATIOS)
def test_samples_are_where_the_axes_say(
    make: Callable[[], Chart], appearance: Appearance, monkeypatch: pytest.MonkeyPatch, ratio: float
) -> None:
    monkeypatch.setattr(Chart, "devicePixelRatioF", lambda self: ratio)
    chart, theme = make(), appearance.theme
    told = [(0.0, 40.0), (1.0, 40.0), (2.0, 90.0), (8.0, 10.0), (8.3, 60.0), (14.0, 75.0)]  # with two gaps
    points: list[Point] = []
    for at, value in told:
        points.append(Point(BEGIN + at, (value,)))
        for later in (0.0, 0.6, 1.7):
            now = BEGIN + at + later
            chart.show_series(DECODE, list(points), now)
            drawn = Painted(
                chart,
                theme,
                colour_of(0, theme),
                max(v for _, v in told[: len(points)]),
                picture(chart, ratio),
            )
            for before, one in told[: len(points)]:
                assert drawn.has_ink(1 - (now - BEGIN - before) / 30, one), (now, before)
    share = [1 - (now - BEGIN - at) / 30 for at, _ in told]
    assert drawn.is_blank(0.0, share[0])
    assert drawn.is_blank(share[2], share[3])
    assert drawn.is_blank(share[4], share[5])
    assert drawn.is_blank(share[5], 1.0)


def test_another_cards_samples_and_a_clock_that_goes_back_begin_anew(make: Callable[[], Chart]) -> None:
    def at_once(series: Series, now: float) -> QImage:
        chart = make()
        chart.show_series(DECODE, series.points, now)
        return picture(chart, 1.0)

    chart, one, other = make(), Series(), Series()
    samples(one, 20, 1, 1)
    samples(other, 20, 1, 2)
    times = ((one, 20.0), (other, 20.0), (one, 20.0), (one, 40.0), (one, 21.0), (one, 310.0), (one, 290.0))
    for series, later in times:
        chart.show_series(DECODE, series.points, BEGIN + later)
        assert picture(chart, 1.0) == at_once(series, BEGIN + later)
    one.add(3.0, (5.0,))
    chart.show_series(DECODE, one.points, 4.0)
    assert picture(chart, 1.0) == at_once(one, 4.0)
    chart.show_series(DECODE, [], 5.0)
    assert chart.accessibleDescription() == "Nothing yet"
    assert picture(chart, 1.0) == at_once(Series(), 5.0)


def test_what_has_gone_is_not_in_words(make: Callable[[], Chart]) -> None:
    chart, series = make(), Series()
    series.add(BEGIN, (900.0,))
    for place in range(1, 3201):
        series.add(BEGIN + 0.1 * place, (float(50 + place % 3),))
        if not place % 100:
            chart.show_series(DECODE, series.points, BEGIN + 0.1 * place)
    assert chart.accessibleDescription() == "Decode: least 50 tok/s, most 52 tok/s, last 52 tok/s"
