"""A column of blocks: however long, no slice takes more than part of a frame."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat import block_column
from app.chat.block_column import BlockColumn
from app.chat.markdown_blocks import Block, Code, Prose

BLOCKS: list[Block] = [Prose(f"Paragraph {number}. " + "word " * 50) for number in range(30)]


@pytest.fixture
def column(qtbot: QtBot, appearance: Appearance) -> BlockColumn:
    column = BlockColumn(appearance)
    qtbot.addWidget(column)
    column.show()
    return column


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
