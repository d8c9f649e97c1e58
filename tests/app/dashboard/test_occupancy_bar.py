"""The bar of pages: every part is seen, in colours that no chat has."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.dashboard.cache_figures import Occupancy
from app.dashboard.legend import IN_BAR, legend_cells
from app.dashboard.occupancy_bar import HEIGHT, OccupancyBar
from app.dashboard.palette import colours
from app.theme import Theme


def colours_in(bar: OccupancyBar) -> list[str]:
    """Along its middle line."""
    image = bar.grab().toImage()
    return [image.pixelColor(x, image.height() // 2).name() for x in range(image.width())]


@pytest.fixture
def bar(qtbot: QtBot, appearance: Appearance) -> OccupancyBar:
    bar = OccupancyBar(appearance)
    qtbot.addWidget(bar)
    bar.resize(400, HEIGHT)
    return bar


def test_a_few_pages_of_very_many_are_seen(bar: OccupancyBar, appearance: Appearance) -> None:
    bar.show_pages(Occupancy(0, 3, 48_000), "")
    kept = [place for place, colour in enumerate(colours_in(bar)) if colour == appearance.theme.muted]
    assert 3 <= len(kept) <= HEIGHT / 2
    bar.show_pages(Occupancy(0, 0, 48_000), "")
    assert appearance.theme.muted not in colours_in(bar)
    assert QColor(appearance.theme.text).name() not in colours_in(bar)


def test_its_colours_are_no_chats_and_in_the_legend(bar: OccupancyBar, appearance: Appearance) -> None:
    theme: Theme = appearance.theme
    bar.show_pages(Occupancy(100, 100, 100), "")
    shown = set(colours_in(bar))
    assert {theme.text, theme.muted} <= shown
    assert not shown & set(colours(theme))
    image = legend_cells(theme)[IN_BAR]
    assert theme.muted in {image.pixelColor(x, 7).name() for x in range(image.width())}
