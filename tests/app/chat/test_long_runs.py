"""Long lists and tables are cut, and read as one: compared with what Qt makes of the whole Markdown."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtGui import QTextCursor, QTextDocument
from pytestqt.qtbot import QtBot

from app.chat import markdown_tables
from app.chat.blocks import Prose, Rows
from app.chat.document_style import FEATURES
from app.chat.long_runs import cut_runs
from app.chat.prose_view import ProseView
from app.chat.rows_view import RowsView
from app.theme import LIGHT

RULE = "|---|---:|"
LINES = st.sampled_from(
    [
        *("- item", "* item", "+ item", "1. item", "1. item", "2. item", "7) item", "1986. A year"),
        *(" - item", "  - inner", "  2. inner", "   - inner", "   more of it", "goes on"),
        *("", "", "", "# Title", "---", "* * *"),
        *(f"| a | b |\n{RULE}", "| 1 | 2 |", "| 1 | 2 |", "1 | 2 |", "no bars"),
    ]
)


def read(document: QTextDocument) -> Iterator[tuple[str, int, int, str]]:
    """Each line as it is read: its mark, how deep it is, the column of a table it is in, and its words."""
    block = document.begin()
    while block.isValid():
        items, cursor = block.textList(), QTextCursor(block)
        table = cursor.currentTable()
        column = table.cellAt(cursor).column() if table else -1
        depth = block.blockFormat().indent() + (items.format().indent() if items else 0)
        if block.text() or items or table:  # Qt puts a line of no height before and behind a table
            yield items.itemText(block) if items else "", depth, column, block.text()
        block = block.next()


def shown(part: Prose | Rows, qtbot: QtBot) -> list[tuple[str, int, int, str]]:
    view = ProseView() if isinstance(part, Prose) else RowsView()
    qtbot.addWidget(view)
    if isinstance(part, Rows):
        assert isinstance(view, RowsView)
        view.show_rows(part, LIGHT)
    else:
        view.show_markdown(part.text, LIGHT, part.number)
    return list(read(view.document()))


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown_tables, "MOST_CELLS", 4)


@pytest.mark.usefixtures("small_tables")
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=st.lists(LINES, max_size=14))
def test_parts_read_as_the_whole(qtbot: QtBot, written: list[str]) -> None:
    whole = QTextDocument()
    text = "\n".join(written).strip("\n")
    whole.setMarkdown(text, FEATURES)
    parts = [line for part in cut_runs(text, 0) for line in shown(part, qtbot)]
    assert parts == list(read(whole))


TABLE = "| # | name | note |\n|--:|---|---|\n" + "\n".join(f"| {row} | name | words |" for row in range(400))


def test_a_list_that_grows_changes_its_last_part_only() -> None:
    lines = [f"1. item {number}\n   - inner" for number in range(200)]
    for length in range(1, 200):
        before = list(cut_runs("\n".join(lines[:length]), 200))
        after = list(cut_runs("\n".join(lines[: length + 1]), 200))
        assert after[: len(before) - 1] == before[:-1]


def test_parts_of_a_table_change_only_when_a_column_takes_more() -> None:
    rows = [row for row in range(200, 400) if _parts(row + 1)[: len(_parts(row)) - 1] != _parts(row)[:-1]]
    assert rows == []
    wider = cut_runs(TABLE + "\n| 1 | name | many more words than before |", 1200)
    assert {part.widths for part in wider if isinstance(part, Rows)} == {(4, 6, 32)}
    assert {part.widths for part in _parts(400) if isinstance(part, Rows)} == {(4, 6, 6)}


def _parts(rows: int) -> list[Prose | Rows]:
    return list(cut_runs("\n".join(TABLE.split("\n")[: rows + 2]), 1200))


def test_what_stands_around_a_long_table_is_prose() -> None:
    before, *parts, after = cut_runs(f"Before.\n\n{TABLE}\n\nAfter.", 1200)
    assert (before, after) == (Prose("Before."), Prose("After."))
    assert [part.first for part in parts if isinstance(part, Rows)] == [True] + [False] * (len(parts) - 1)


def test_marks_and_addresses_make_no_column_wider() -> None:
    row = "| **[one](https://example.org/a/long/address)** | `a\\|b` |\n"
    part = next(cut_runs("| a | b |\n|---|---|\n" + row * 100, 1200))
    assert isinstance(part, Rows)
    assert part.widths == (4, 4)


def test_a_line_of_blanks_below_a_bar_is_read_at_once() -> None:
    began = time.thread_time()
    blanks = " " * 20_000
    assert [block.text for block in cut_runs(f"a|b\n{blanks}x", longest=4000)] == [f"a|b\n{blanks}x"]
    assert time.thread_time() - began < 0.1  # 0.9 s where each blank is tried in two places
