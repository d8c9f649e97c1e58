"""The chats that have pages, and what the keyboard is left with when one has none any more."""

from __future__ import annotations

from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app import text
from app.dashboard.chat_pages_table import ChatPagesTable
from engine import ChatMemory

CHATS = {"a": ChatMemory(2_000_000, 0, 0), "b": ChatMemory(1_000_000, 0, 0)}


def test_who_clears_a_chat_goes_on_in_the_table(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    table, beside = ChatPagesTable(str, lambda chat: "#123456", window), QPushButton("Live", window)
    column = QVBoxLayout(window)
    column.addWidget(table)
    column.addWidget(beside)
    window.show()
    window.activateWindow()
    table.show_chats(CHATS, frozenset())
    table.select("a")
    table.clear_button.setFocus()
    qtbot.waitUntil(table.clear_button.hasFocus)
    table.show_chats({"b": CHATS["b"]}, frozenset())
    assert table.selected == ""
    assert not table.clear_button.isEnabled()
    assert table.table.hasFocus()


def test_the_words_are_those_of_the_list_of_chats(qtbot: QtBot) -> None:
    table = ChatPagesTable(str, lambda chat: "#123456")
    qtbot.addWidget(table)
    table.show_chats(CHATS, frozenset("a"))
    table.select("a")
    assert table.pin_button.text() == text.UNPIN
    assert table.rows[0][-1] == "in memory"
    table.select("b")
    assert table.pin_button.text() == text.PIN


def test_what_is_shared_may_be_more_than_is_in_memory_and_its_head_says_why(qtbot: QtBot) -> None:
    table = ChatPagesTable(str, lambda chat: "#123456")
    qtbot.addWidget(table)
    table.show_chats({"a": ChatMemory(3_000_000, 9_000_000, 7_000_000)}, frozenset())
    place = table.rows[0].index("7.0 MB")
    head = table.table.horizontalHeaderItem(place)
    assert head is not None
    assert (head.text(), head.toolTip()) == (
        "Shared",
        "With other chats, of what is in memory and on SSD together",
    )
