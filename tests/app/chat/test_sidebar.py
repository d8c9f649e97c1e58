"""The sidebar: list, search, renaming in place, the row's menu."""

from __future__ import annotations

from typing import Literal

import pytest
from PySide6.QtCore import QEvent, QPoint, QRect, Qt
from PySide6.QtGui import QAction, QColor, QContextMenuEvent, QFont, QImage, QKeyEvent, QPainter
from PySide6.QtWidgets import QAbstractItemView, QApplication, QLineEdit, QMenu
from pytestqt.qtbot import QtBot

from app import text
from app.appearance import Appearance
from app.chat.chat_list import ChatListViewModel
from app.chat.chat_row import DOT, INSET, PADDING, PIN
from app.chat.pins import PinsViewModel
from app.chat.sidebar import NO_CHATS, NOTHING_FOUND, Sidebar
from app.opening.opening_words import COPY_LINK, EXPORT
from app.store.records import Chat
from app.theme import contrast
from engine import ChatMemory, ChatsCached, Command, Pin
from tests.fakes.instant_store import InstantStore, store_of


@pytest.fixture
def store() -> InstantStore:
    return store_of(("Oldest", 1.0), ("Newest", 3.0), ("A very long title " * 10, 2.0))


@pytest.fixture
def chats(qtbot: QtBot, store: InstantStore) -> ChatListViewModel:
    chats = ChatListViewModel(store)
    chats.load()
    return chats


@pytest.fixture
def submitted() -> list[Command]:
    return []


@pytest.fixture
def pins(qtbot: QtBot, store: InstantStore, submitted: list[Command]) -> PinsViewModel:
    return PinsViewModel(submitted.append, store)


@pytest.fixture
def sidebar(qtbot: QtBot, appearance: Appearance, chats: ChatListViewModel, pins: PinsViewModel) -> Sidebar:
    sidebar = Sidebar(appearance, chats, pins)
    qtbot.addWidget(sidebar)
    sidebar.resize(sidebar.width(), 500)
    sidebar.show()
    return sidebar


def row_centre(sidebar: Sidebar, row: int) -> QPoint:
    return sidebar.list.visualRect(sidebar.list.model().index(row, 0)).center()


def item(menu: QMenu, words: str) -> QAction:
    return next(action for action in menu.actions() if action.text() == words)


def choose_in_menu(qtbot: QtBot, sidebar: Sidebar, row: int, words: str) -> None:
    """Open a row's menu with the right button, and take the item."""
    place, viewport = row_centre(sidebar, row), sidebar.list.viewport()
    QApplication.sendEvent(
        viewport,
        QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, viewport.mapToGlobal(place)),
    )
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    menu.setActiveAction(item(menu, words))
    qtbot.keyClick(menu, Qt.Key.Key_Return)


def test_a_title_with_tags_is_no_html_on_hover(sidebar: Sidebar, chats: ChatListViewModel) -> None:
    chats.rename("Newest", "What is a <p>?")
    tip, name = told(sidebar, 0)
    assert "<p>" not in tip
    assert tip.replace("\u200b", "") == name == "What is a <p>?"


def test_a_chat_that_is_being_answered_says_so_unless_it_is_open(
    qtbot: QtBot, sidebar: Sidebar, chats: ChatListViewModel
) -> None:
    def pictures() -> list[QImage]:
        rects = [sidebar.list.visualRect(sidebar.list.model().index(row, 0)) for row in range(3)]
        return [sidebar.list.viewport().grab(rect).toImage() for rect in rects]

    chats.set_current("Newest")
    before = pictures()
    chats.set_answering({"Newest", "Oldest"})
    assert [text.ANSWERING in words for row in range(3) for words in told(sidebar, row)] == [
        *(True, True),
        *(False, False),
        *(True, True),
    ]
    assert [one == other for one, other in zip(before, pictures(), strict=True)] == [True, True, False]
    chats.set_answering(frozenset())
    assert pictures() == before


def test_a_chat_with_a_draft_says_so_unless_it_is_open(sidebar: Sidebar, chats: ChatListViewModel) -> None:
    def pictures() -> list[QImage]:
        rects = [sidebar.list.visualRect(sidebar.list.model().index(row, 0)) for row in (0, 2)]
        return [sidebar.list.viewport().grab(rect).toImage() for rect in rects]

    chats.set_current("Newest")
    before = pictures()
    chats.set_drafts({"Newest", "Oldest"})
    drafted = pictures()
    assert [one == other for one, other in zip(before, drafted, strict=True)] == [True, False]
    assert [text.DRAFT in words for row in range(3) for words in told(sidebar, row)] == [
        *(True, True),
        *(False, False),
        *(True, True),
    ]
    chats.set_answering({"Oldest"})
    answering = pictures()
    chats.set_drafts(frozenset())
    assert pictures() == answering, "an answer on its way goes before it"
    chats.set_answering(frozenset())
    assert pictures() == before


def test_what_goes_on_in_a_chat_is_said_in_whole_words(
    sidebar: Sidebar, chats: ChatListViewModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def note(painter: QPainter, room: QRect, words: str, colour: str, font: QFont) -> None:
        painter.setFont(font)
        drawn.append(painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, room.width()))

    monkeypatch.setattr("app.chat.chat_row.paint_line", note)
    chats.set_drafts({"Newest"})
    chats.set_answering({"Oldest"})
    sidebar.list.viewport().grab()
    assert {text.DRAFT, text.ANSWERING} < set(drawn)


def told(sidebar: Sidebar, row: int) -> tuple[str, str]:
    """What a row's tooltip says, and what screen readers say."""
    index = sidebar.list.model().index(row, 0)
    return index.data(Qt.ItemDataRole.ToolTipRole), index.data(Qt.ItemDataRole.AccessibleTextRole)


def test_chats_are_listed(sidebar: Sidebar) -> None:
    assert sidebar.list.titles()[::2] == ["Newest", "Oldest"]
    assert sidebar.hint == ""
    assert not sidebar.grab().isNull()


def test_an_empty_list_says_what_will_be_there(
    qtbot: QtBot, appearance: Appearance, pins: PinsViewModel
) -> None:
    sidebar = Sidebar(appearance, ChatListViewModel(InstantStore()), pins)
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
    item(menu, "Rename").trigger()
    editor = next(e for e in sidebar.list.findChildren(QLineEdit) if e.isVisible())
    assert editor.text() == "Oldest"
    editor.setText("Renamed")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: sidebar.list.titles()[2] == "Renamed")


def test_a_title_that_is_being_typed_stays_while_the_list_is_told_something(
    qtbot: QtBot, sidebar: Sidebar, chats: ChatListViewModel, pins: PinsViewModel
) -> None:
    chats.set_current("Oldest")
    sidebar.list.edit(sidebar.list.currentIndex())
    editor = next(e for e in sidebar.list.findChildren(QLineEdit) if e.isVisible())
    qtbot.keyClicks(editor, "Half a ti")
    chats.handle(ChatsCached({"Oldest": ChatMemory(4096, 0, 0)}))
    chats.set_answering({"Oldest"})
    pins.pin("Oldest", True)
    assert editor.text() == "Half a ti"
    qtbot.keyClicks(editor, "tle")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: sidebar.list.titles()[2] == "Half a title")


def test_a_chat_that_comes_while_a_title_is_typed_leaves_it_alone(
    qtbot: QtBot, sidebar: Sidebar, chats: ChatListViewModel
) -> None:
    sidebar.list.edit(sidebar.list.model().index(2, 0))
    editor = next(e for e in sidebar.list.findChildren(QLineEdit) if e.isVisible())
    qtbot.keyClicks(editor, "Half a ti")
    chats.upsert(Chat("Came meanwhile", id="new", updated=9.0))  # a file that was read, say
    chats.delete("Newest")
    assert editor.isVisible()
    qtbot.keyClick(editor, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: sidebar.list.titles()[::2] == ["Came meanwhile", "Oldest"])


def test_the_enter_that_ends_a_title_does_not_open_the_chat(qtbot: QtBot, sidebar: Sidebar) -> None:
    chosen: list[str] = []
    sidebar.chosen.connect(chosen.append)
    index = sidebar.list.model().index(2, 0)
    sidebar.list.setCurrentIndex(index)
    sidebar.list.edit(index)
    editor = next(e for e in sidebar.list.findChildren(QLineEdit) if e.isVisible())
    qtbot.keyClicks(editor, "Renamed")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: sidebar.list.state() == QAbstractItemView.State.NoState)
    assert sidebar.list.titles()[2] == "Renamed"
    assert chosen == []
    sidebar.list.setCurrentIndex(sidebar.list.model().index(2, 0))
    qtbot.keyClick(sidebar.list, Qt.Key.Key_Return)
    assert chosen == ["Oldest"]


@pytest.mark.parametrize("words", ["Delete", text.PIN, EXPORT, COPY_LINK])
def test_the_menu_is_of_the_chat_that_it_was_opened_for(
    sidebar: Sidebar, chats: ChatListViewModel, words: str
) -> None:
    menu = sidebar.list.menu_for(sidebar.list.model().index(0, 0))
    meant: list[str] = []
    rows = sidebar.list
    for signal in (rows.deleted, rows.export_wanted, rows.link_wanted):
        signal.connect(meant.append)
    rows.pin_wanted.connect(lambda chat, _: meant.append(chat))
    chats.upsert(Chat("Came meanwhile", id="new", updated=9.0))  # a file that was read, say
    item(menu, words).trigger()
    assert meant == ["Newest"]


def test_the_menu_renames_the_chat_that_it_was_opened_for(sidebar: Sidebar, chats: ChatListViewModel) -> None:
    menu = sidebar.list.menu_for(sidebar.list.model().index(0, 0))
    chats.upsert(Chat("Came meanwhile", id="new", updated=9.0))
    item(menu, "Rename").trigger()
    editor = next(e for e in sidebar.list.findChildren(QLineEdit) if e.isVisible())
    assert editor.text() == "Newest"


def test_a_chat_that_is_gone_is_not_renamed(sidebar: Sidebar, chats: ChatListViewModel) -> None:
    menu = sidebar.list.menu_for(sidebar.list.model().index(0, 0))
    chats.delete("Newest")
    item(menu, "Rename").trigger()
    assert sidebar.list.findChildren(QLineEdit) == []


def test_a_delete_key_that_is_held_deletes_one_chat(sidebar: Sidebar, chats: ChatListViewModel) -> None:
    chats.set_current("Newest")
    sidebar.list.setCurrentIndex(sidebar.list.model().index(2, 0))
    for is_repeat in (False, True, True):
        key, none = Qt.Key.Key_Delete, Qt.KeyboardModifier.NoModifier
        QApplication.sendEvent(sidebar.list, QKeyEvent(QEvent.Type.KeyPress, key, none, autorep=is_repeat))
    assert [row.chat.id for row in chats.rows if row.chat.id in ("Newest", "Oldest")] == ["Newest"]


def test_the_menu_deletes(qtbot: QtBot, sidebar: Sidebar, chats: ChatListViewModel) -> None:
    with qtbot.waitSignal(chats.deleted):
        item(sidebar.list.menu_for(sidebar.list.model().index(0, 0)), "Delete").trigger()
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


def test_the_menu_keeps_a_chat_in_memory_and_lets_go_of_it(
    qtbot: QtBot, sidebar: Sidebar, store: InstantStore, submitted: list[Command]
) -> None:
    choose_in_menu(qtbot, sidebar, 2, text.PIN)
    assert submitted == [Pin("Oldest", True)]
    assert store.chats.pinned() == ["Oldest"]
    choose_in_menu(qtbot, sidebar, 2, text.UNPIN)
    assert submitted[1:] == [Pin("Oldest", False)]
    assert store.chats.pinned() == []


def test_a_pin_is_told_in_words(qtbot: QtBot, sidebar: Sidebar, chats: ChatListViewModel) -> None:
    assert told(sidebar, 2) == ("Oldest", "Oldest")
    choose_in_menu(qtbot, sidebar, 2, text.PIN)
    assert told(sidebar, 2) == (f"Oldest\n{text.PINNED_COLD}", f"Oldest, {text.PINNED_COLD}")
    chats.handle(ChatsCached({"Oldest": ChatMemory(2_100_000, 0, 0)}))
    assert told(sidebar, 2) == (
        f"Oldest\n2.1 MB in memory\n{text.PINNED}",
        f"Oldest, 2.1 MB in memory, {text.PINNED}",
    )
    assert told(sidebar, 0) == (f"Newest\n{text.COLD}", f"Newest, {text.COLD}")


def test_a_cold_chat_is_told_from_one_that_nothing_is_known_of(
    sidebar: Sidebar, chats: ChatListViewModel
) -> None:
    unknown, said = row_picture(sidebar, 0), told(sidebar, 0)
    chats.handle(ChatsCached({}))
    assert row_picture(sidebar, 0) != unknown
    assert said == ("Newest", "Newest")
    assert told(sidebar, 0) == (f"Newest\n{text.COLD}", f"Newest, {text.COLD}")


@pytest.mark.parametrize("look", ["light", "dark"])
def test_a_cold_chats_dot_can_be_seen_on_every_ground(
    sidebar: Sidebar, appearance: Appearance, chats: ChatListViewModel, look: Literal["light", "dark"]
) -> None:
    appearance.choose(look)
    chats.handle(ChatsCached({}))
    for current in (None, "Newest"):
        chats.set_current(current)
        image = row_picture(sidebar, 0)
        ground = image.pixelColor(INSET + 1, image.height() // 2).name()
        place = QRect(INSET + 2, image.height() // 2 - 5, PADDING - 4, 10)
        seen = {
            image.pixelColor(x, y).name()
            for x in range(place.left(), place.right())
            for y in range(place.top(), place.bottom())
        }
        assert max(contrast(colour, ground) for colour in seen) >= 3.0


def test_only_the_pinned_row_is_painted_anew(qtbot: QtBot, sidebar: Sidebar, pins: PinsViewModel) -> None:
    pins.pin("Newest", True)
    changed: list[tuple[int, int]] = []
    sidebar.list.model().dataChanged.connect(lambda first, last: changed.append((first.row(), last.row())))
    pins.pin("Oldest", True)
    pins.pin("Newest", False)
    assert changed == [(2, 2), (0, 0)]


def row_picture(sidebar: Sidebar, row: int) -> QImage:
    return sidebar.list.viewport().grab(sidebar.list.visualRect(sidebar.list.model().index(row, 0))).toImage()


def coloured(image: QImage, colour: str, left: int, right: int) -> bool:
    """Whether the colour shows between two columns of a row."""
    scale, wanted = image.devicePixelRatio(), QColor(colour)
    columns = range(round(left * scale), round(right * scale))
    return any(image.pixelColor(x, y) == wanted for x in columns for y in range(image.height()))


def test_the_pin_stands_beside_the_dot_of_its_row_only(
    qtbot: QtBot, sidebar: Sidebar, appearance: Appearance, chats: ChatListViewModel
) -> None:
    chats.handle(ChatsCached({"Oldest": ChatMemory(2_100_000, 0, 0)}))
    plain, other = row_picture(sidebar, 2), row_picture(sidebar, 0)
    choose_in_menu(qtbot, sidebar, 2, text.PIN)
    pinned = row_picture(sidebar, 2)
    title = INSET + PADDING
    assert pinned != plain
    assert coloured(pinned, appearance.theme.accent, title - PADDING, title - int(DOT))
    assert coloured(pinned, appearance.theme.muted, title, title + PIN)
    assert not coloured(pinned, appearance.theme.text, title, title + PIN)
    assert coloured(plain, appearance.theme.text, title, title + PIN)
    assert row_picture(sidebar, 0) == other


def test_a_row_that_has_the_keys_is_framed_before_it_is_chosen(qtbot: QtBot, sidebar: Sidebar) -> None:
    sidebar.activateWindow()
    qtbot.waitUntil(sidebar.isActiveWindow)
    sidebar.focus_search()
    plain = sidebar.list.viewport().grab().toImage()
    qtbot.keyClick(sidebar.search_field, Qt.Key.Key_Tab)
    assert sidebar.list.hasFocus()
    row = sidebar.list.visualRect(sidebar.list.currentIndex())
    assert row.isValid()
    framed = sidebar.list.viewport().grab().toImage()
    assert framed.copy(row) != plain.copy(row)
    assert not sidebar.list.selectedIndexes()
