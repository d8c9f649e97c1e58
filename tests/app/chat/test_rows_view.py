"""Part of a table: its columns are where those of the other parts are, and nothing is around it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.blocks import Rows
from app.chat.rows_view import RowsView, columns
from app.theme import COLUMN_WIDTH, LIGHT

HEAD = "| number | what it is | note |\n|--:|---|---|\n"
PARTS = (
    Rows(HEAD + "| 1 | one | a |\n| 2 | two | b |", (8, 24, 48), first=True),
    Rows(HEAD + "| 1000000 | more words than are in the others, by far | b |", (8, 24, 48), first=False),
)


@pytest.fixture
def views(qtbot: QtBot, appearance: Appearance) -> list[RowsView]:
    views = [RowsView(), RowsView()]
    for view, part in zip(views, PARTS, strict=True):
        qtbot.addWidget(view)
        view.show_rows(part, LIGHT)
    return views


def places(view: RowsView) -> list[float]:
    """Where the columns' words begin."""
    layout = view.document().documentLayout()
    table = view.document().rootFrame().childFrames()[0]
    block, found = table.firstCursorPosition().block(), list[float]()
    while block.isValid() and block.position() < table.lastPosition():
        found.append(layout.blockBoundingRect(block).x())
        block = block.next()
    return found[:3]


@pytest.mark.parametrize("width", [COLUMN_WIDTH, 320, 700])
def test_columns_stand_under_one_another(views: list[RowsView], width: int) -> None:
    for view in views:
        view.height_for(width)
        assert view.document().size().width() <= width
    assert places(views[0]) == places(views[1])


def test_a_word_as_long_as_its_column_has_room_in_one_line(views: list[RowsView]) -> None:
    long = Rows("| # | value |\n|--:|---|\n| **4000** | **98765432** |", (4, 8), first=False)
    short = replace(long, text="| # | value |\n|--:|---|\n| **4** | **9** |")
    heights: set[int] = set()
    for part in (long, short):
        views[0].show_rows(part, LIGHT)
        heights.add(views[0].height_for(COLUMN_WIDTH))
    assert len(heights) == 1


def test_only_the_first_part_has_the_head(views: list[RowsView]) -> None:
    first, second = (view.toPlainText().split() for view in views)
    assert first[:6] == ["number", "what", "it", "is", "note", "1"]
    assert second[:2] == ["1000000", "more"]


def test_it_is_as_high_as_its_rows(views: list[RowsView]) -> None:
    three = RowsView()
    three.show_rows(Rows(PARTS[0].text + "\n| 3 | three | c |", (8, 24, 48), first=False), LIGHT)
    assert three.height_for(COLUMN_WIDTH) == views[0].height_for(COLUMN_WIDTH)


def test_a_part_is_laid_out_once(views: list[RowsView]) -> None:
    views[0].height_for(COLUMN_WIDTH)
    layouts: list[str] = []
    views[0].document().documentLayout().update.connect(lambda: layouts.append("one"))
    views[0].show_rows(PARTS[1], LIGHT)
    views[0].height_for(COLUMN_WIDTH)
    assert len(layouts) == 1


@pytest.mark.parametrize(
    ("widths", "room", "expected"),
    [
        ((4, 6), 500, [62, 82]),  # with the padding
        ((4, 100), 300, [62, 238]),
        ((100, 4, 200), 362, [150, 62, 150]),
        ((9, 9, 9), 30, [10, 10, 10]),
    ],
)
def test_columns_take_what_they_want_and_share_what_is_left(
    widths: tuple[int, ...], room: int, expected: list[float]
) -> None:
    assert columns(widths, 10, room) == expected
