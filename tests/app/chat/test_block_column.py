"""A column of blocks: however long, no slice takes more than part of a frame."""

from __future__ import annotations

from itertools import pairwise

import pytest
from PySide6.QtCore import QRect
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat import block_column
from app.chat.block_column import GAP, BlockColumn
from app.chat.blocks import Block, Code, Prose
from app.chat.markdown_blocks import split_blocks
from app.chat.prose_view import ProseView
from app.theme import COLUMN_WIDTH, LIGHT

BLOCKS: list[Block] = [Prose(f"Paragraph {number}. " + "word " * 50) for number in range(30)]


@pytest.fixture
def column(qtbot: QtBot, appearance: Appearance) -> BlockColumn:
    column = BlockColumn(appearance)
    qtbot.addWidget(column)
    column.show()
    return column


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 10)


def test_a_long_text_is_built_in_slices_until_it_is_whole(
    qtbot: QtBot, column: BlockColumn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 1e-9)
    column.show_blocks(BLOCKS)
    assert len(column._views) <= 1
    first = column.fit(600)
    heights: list[int] = []
    column.height_changed.connect(lambda: heights.append(column.fit(600)))
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 0.002)
    qtbot.waitUntil(lambda: column.complete)
    assert heights[-1] > first
    assert len(column._views) == len(BLOCKS)
    assert not column._work.isActive()


def test_blocks_wanted_meanwhile_replace_the_ones_before(
    qtbot: QtBot, column: BlockColumn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 1e-9)
    column.show_blocks(BLOCKS)
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 10)
    column.show_blocks([BLOCKS[0], Code("x", "py", closed=True)])
    assert column.complete
    assert len(column._views) == 2


def grown(column: BlockColumn, text: str) -> list[QRect]:
    """Show Markdown, all at once. Returns where its blocks are."""
    column.show_blocks(split_blocks(text))
    column.resize(COLUMN_WIDTH, column.fit(COLUMN_WIDTH))
    return [view.geometry() for view in column._views]


@pytest.mark.usefixtures("at_once")
def test_the_lines_of_a_long_table_go_through_its_parts(column: BlockColumn) -> None:
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {row} | {row} |" for row in range(150))
    assert len(grown(column, table)) == 3
    image = column.grab().toImage()
    ratio = image.devicePixelRatio()
    across = [
        y for y in range(image.height()) if image.pixelColor(round(8 * ratio), y).name() == LIGHT.border
    ]
    assert len(across) == 152  # lines, above and below each row and the head
    assert len({below - above for above, below in pairwise(across)}) == 1


@pytest.mark.usefixtures("at_once")
def test_a_long_list_is_as_high_as_if_it_were_not_cut(qtbot: QtBot, column: BlockColumn) -> None:
    text = "\n".join(f"{number}. item\n   - inner" for number in range(1, 200))
    whole = ProseView()
    qtbot.addWidget(whole)
    whole.show_markdown(text, LIGHT)
    places = grown(column, text)
    assert len(places) > 2
    assert abs(places[-1].bottom() - whole.height_for(COLUMN_WIDTH)) <= len(places)  # each is rounded up


def test_very_many_blocks_are_laid_out_for_a_new_width_in_slices(
    qtbot: QtBot, column: BlockColumn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 10)
    column.show_blocks(BLOCKS)
    column.fit(COLUMN_WIDTH)
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 1e-9)
    monkeypatch.setattr(block_column, "FIT_SECONDS", 1e-9)
    first = column.fit(300)
    heights: list[int] = []
    column.height_changed.connect(lambda: heights.append(column.fit(300)))
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 0.002)
    qtbot.waitUntil(lambda: not column._work.isActive())
    assert heights[-1] > first
    assert heights[-1] == sum(view.height_for(300) for view in column._views) + GAP * (len(BLOCKS) - 1)


def test_blocks_that_become_others_in_later_slices_have_their_own_height(
    qtbot: QtBot, column: BlockColumn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 10)
    column.show_blocks(BLOCKS)
    column.fit(600)
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 1e-9)
    column.show_blocks([Prose(block.text + " and more" * 50) for block in BLOCKS])
    heights = [column.fit(600)]
    column.height_changed.connect(lambda: heights.append(column.fit(600)))
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 0.002)
    qtbot.waitUntil(lambda: not column._work.isActive())
    assert heights[-1] == sum(view.height_for(600) for view in column._views) + GAP * (len(BLOCKS) - 1)


def test_the_first_slice_for_a_new_width_is_a_longer_one(
    column: BlockColumn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 10)
    column.show_blocks(BLOCKS)
    column.fit(COLUMN_WIDTH)
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 1e-9)
    monkeypatch.setattr(block_column, "FIT_SECONDS", 10)
    height = column.fit(300)
    assert height == sum(view.height_for(300) for view in column._views) + GAP * (len(BLOCKS) - 1)


def test_what_is_let_go_of_builds_no_more(column: BlockColumn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 1e-9)
    column.show_blocks(BLOCKS)
    views = list(column._views)
    assert column._work.isActive()
    assert column.release() == views
    assert not column._work.isActive()
    assert column.complete
    assert column.fit(600) == 0


def test_restyling_shows_the_same(
    column: BlockColumn, appearance: Appearance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 10)
    column.show_blocks(BLOCKS)
    height = column.fit(600)
    views = list(column._views)
    column.restyle()
    assert column.fit(600) == height
    assert column._views == views
