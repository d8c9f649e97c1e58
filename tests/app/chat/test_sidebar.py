"""The sidebar: list, search, renaming in place, the row's menu."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.chat_list import ChatListViewModel
from app.chat.sidebar import NO_CHATS, NOTHING_FOUND, Sidebar
from app.store.records import Chat, ChatMessage
from tests.fakes.instant_store import InstantStore


@pytest.fixture
def chats(qtbot: QtBot) -> ChatListViewModel:
    store = InstantStore()
    for title, updated in (("Oldest", 1.0), ("Newest", 3.0), ("A very long title " * 10, 2.0)):
        message = ChatMessage(title, "user", f"about {title} llamas")
        store.save(Chat(title, id=title, leaf_id=message.id, created=updated, updated=updated))
        store.save(message)
    chats = ChatListViewModel(store)
    chats.load()
    return chats


@pytest.fixture
def sidebar(qtbot: QtBot, appearance: Appearance, chats: ChatListViewModel) -> Sidebar:
    sidebar = Sidebar(appearance, chats)
    qtbot.addWidget(sidebar)
    sidebar.resize(sidebar.width(), 500)
    sidebar.show()
    return sidebar


def row_centre(sidebar: Sidebar, row: int) -> QPoint:
    return sidebar.list.visualRect(sidebar.list.model().index(row, 0)).center()


def test_chats_are_listed(sidebar: Sidebar) -> None:
    assert sidebar.list.titles()[::2] == ["Newest", "Oldest"]
    assert sidebar.hint == ""
    assert not sidebar.grab().isNull()


def test_an_empty_list_says_what_will_be_there(qtbot: QtBot, appearance: Appearance) -> None:
    sidebar = Sidebar(appearance, ChatListViewModel(InstantStore()))
    qtbot.addWidget(sidebar)
    assert sidebar.hint == NO_CHATS


def test_clicking_a_chat_chooses_it(qtbot: QtBot, sidebar: Sidebar) -> None:
    with qtbot.waitSignal(sidebar.chosen) as chosen:
        qtbot.mouseClick(sidebar.list.viewport(), Qt.MouseButton.LeftButton, pos=row_centre(sidebar, 2))
    assert chosen.args == ["Oldest"]


def test_typing_searches_and_shows_where(qtbot: QtBot, sidebar: Sidebar) -> None:
    qtbot.keyClicks(sidebar.search_field, "oldest")
    assert sidebar.list.titles() == ["Oldest"]
    assert "llamas" in sidebar.list.model().index(0, 0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert not sidebar.grab().isNull()
    qtbot.keyClicks(sidebar.search_field, " nothing")
    assert sidebar.hint == NOTHING_FOUND
    qtbot.keyClick(sidebar.search_field, Qt.Key.Key_Escape)
    assert len(sidebar.list.titles()) == 3


def test_renaming_in_place(qtbot: QtBot, sidebar: Sidebar, chats: ChatListViewModel) -> None:
    chats.set_current("Oldest")
    menu = sidebar.list.menu_for(sidebar.list.currentIndex())
    menu.actions()[0].trigger()
    editor = next(e for e in sidebar.list.findChildren(QLineEdit) if e.isVisible())
    assert editor.text() == "Oldest"
    editor.setText("Renamed")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: sidebar.list.titles()[2] == "Renamed")


def test_the_menu_deletes(qtbot: QtBot, sidebar: Sidebar, chats: ChatListViewModel) -> None:
    with qtbot.waitSignal(chats.deleted):
        sidebar.list.menu_for(sidebar.list.model().index(0, 0)).actions()[1].trigger()
    assert "Newest" not in sidebar.list.titles()


def test_the_delete_key_deletes_the_open_chat(
    qtbot: QtBot, sidebar: Sidebar, chats: ChatListViewModel
) -> None:
    chats.set_current("Newest")
    with qtbot.waitSignal(chats.deleted):
        qtbot.keyClick(sidebar.list, Qt.Key.Key_Delete)


def test_the_open_chat_stays_marked_when_the_list_changes(sidebar: Sidebar, chats: ChatListViewModel) -> None:
    chats.set_current("Oldest")
    chats.upsert(Chat("Brand new", updated=9.0))
    assert sidebar.list.currentIndex().data() == "Oldest"
    chats.set_current(None)
    assert not sidebar.list.selectionModel().hasSelection()


def test_the_rows_button_opens_its_menu_and_does_not_choose(qtbot: QtBot, sidebar: Sidebar) -> None:
    chosen: list[str] = []
    sidebar.chosen.connect(chosen.append)
    row = sidebar.list.visualRect(sidebar.list.model().index(0, 0))
    opened: list[object] = []
    sidebar.list._pop_up = lambda index, place: opened.append(index.data())  # type: ignore[method-assign]
    place = QPoint(row.right() - 20, row.center().y())
    qtbot.mouseClick(sidebar.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert opened == ["Newest"]


def test_new_chat_is_a_wish(qtbot: QtBot, sidebar: Sidebar) -> None:
    with qtbot.waitSignal(sidebar.new_wanted):
        sidebar._new.click()
