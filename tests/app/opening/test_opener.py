"""Links, chat files and models as they reach a window, and chats that leave it as files."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog, QLabel, QMenu
from pytestqt.qtbot import QtBot

from app.instance.client import hand_over
from app.instance.protocol import Opening
from app.opening import opening_words as words
from app.store.chat_file import from_json, to_json
from app.store.chats import ChatStore
from app.store.records import Chat, ChatMessage
from app.wiring import Desktop
from tests.app.conftest import OpenDesktop
from tests.app.instance.conftest import connected
from tests.app.models.conftest import hub as hub
from tests.app.models.conftest import hub_home as hub_home
from tests.app.models.conftest import own_home as own_home
from tests.app.test_screenshots import save, say
from tests.fakes.dragging import drop
from tests.hub.repos import Repo
from tests.hub.server import HubServer


def saved(folder: Path, system: str = "") -> Path:
    """A chat's file, from elsewhere."""
    chat = Chat("About <b>pages</b>", system=system)
    question = ChatMessage(chat.id, "user", "What is a page?")
    answer = ChatMessage(chat.id, "assistant", "Sixteen tokens.", question.id, model="elsewhere/tiny")
    path = folder / "Über pages.mlxrchat"
    path.write_text(to_json(chat, [question, answer], lambda model: model), "utf-8")
    return path


def texts(desktop: Desktop) -> list[str]:
    """What is on show."""
    return [message.text for message in desktop.conversation.messages]


def menu_action(desktop: Desktop, title: str, action: str) -> None:
    """Choose from the menu of a chat in the list."""
    rows = desktop.window.sidebar.list
    place = rows.titles().index(title)
    menu = rows.menu_for(rows.model().index(place, 0))
    next(one for one in menu.actions() if one.text() == action).trigger()


def dialog_of(desktop: Desktop) -> QFileDialog:
    """The dialog that is open."""
    return next(one for one in desktop.window.findChildren(QFileDialog) if one.isVisible())


def test_a_link_shows_the_page_of_a_model_and_downloads_nothing(
    open_desktop: OpenDesktop, qtbot: QtBot, hub: HubServer
) -> None:
    hub.update(Repo("lab/tiny", {"config.json": b"{}"}, card="# Tiny", downloads=5))
    desktop = open_desktop()
    desktop.opener.open("mlxr://model/lab/tiny")
    qtbot.waitUntil(lambda: desktop.models_door.desk is not None)
    desk = desktop.models_door.desk
    assert desk is not None
    qtbot.waitUntil(lambda: desk.repo.card is not None or bool(desk.repo.error))
    assert (desk.repo.repo, desk.repo.error) == ("lab/tiny", "")
    assert desktop.window.is_shown(desk.page)
    assert desk.page.discover.isVisible()
    assert not any("/resolve/" in one.path and "README" not in one.path for one in hub.requests)
    assert desk.downloads.states == ()


@pytest.mark.parametrize("link", ["mlxr://model/a/../b", "mlxr://run/rm", "mlxr://model/a/b?x=<b>"])
def test_a_link_of_another_kind_is_refused_in_one_line(
    open_desktop: OpenDesktop, qtbot: QtBot, link: str
) -> None:
    desktop = open_desktop()
    desktop.dashboard.toggle()
    desktop.opener.open(link)
    assert desktop.window.toast.isVisible()
    assert desktop.window.toast.text.startswith(f"The link {link} was not opened")
    assert desktop.models_door.desk is None


def test_a_link_to_a_chat_shows_it_and_says_where_there_is_none(
    open_desktop: OpenDesktop, qtbot: QtBot
) -> None:
    desktop = open_desktop()
    say(qtbot, desktop, "What is a page?")
    before = texts(desktop)
    menu_action(desktop, "What is a page?", words.COPY_LINK)
    link = QGuiApplication.clipboard().text()
    desktop.conversation.new_chat()
    desktop.opener.open(link)
    qtbot.waitUntil(lambda: texts(desktop) == before)
    desktop.opener.open("mlxr://chat/" + "0" * 32)
    qtbot.waitUntil(lambda: desktop.window.toast.text == words.NO_SUCH_CHAT)
    assert texts(desktop) == before


def test_a_chat_goes_out_whole_and_comes_back_as_a_copy(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    desktop = open_desktop()
    say(qtbot, desktop, "What is a page?")
    desktop.conversation.regenerate(desktop.conversation.messages[-1].id)
    qtbot.waitUntil(lambda: not desktop.conversation.state.busy)
    before, chat = texts(desktop), desktop.conversation.chat
    assert chat is not None
    menu_action(desktop, "What is a page?", words.EXPORT)
    dialog = dialog_of(desktop)
    assert dialog.selectedFiles()[0].endswith("What is a page.mlxrchat")
    dialog.filterSelected.emit(dialog.nameFilters()[1])
    assert dialog.selectedFiles()[0].endswith("What is a page.md")
    path = tmp_path / "page.mlxrchat"
    dialog.fileSelected.emit(str(path))
    dialog.close()
    qtbot.waitUntil(path.exists)
    qtbot.waitUntil(lambda: desktop.window.toast.text == "“What is a page?” is saved as page.mlxrchat")
    _, messages = from_json(path.read_bytes(), path.name)
    assert [message.role for message in messages] == ["user", "assistant", "assistant"]
    assert messages[1].model == "tiny-chat"
    assert str(tmp_path) not in path.read_text("utf-8")

    desktop.opener.open(str(path))
    qtbot.waitUntil(lambda: desktop.window.sidebar.list.titles() == ["What is a page?"] * 2)
    qtbot.waitUntil(lambda: desktop.conversation.chat not in (None, chat))
    assert texts(desktop) == before
    assert desktop.conversation.versions(desktop.conversation.messages[-1].id).count == 2
    say(qtbot, desktop, "And then?")
    assert len(texts(desktop)) == 4


def test_a_chat_goes_out_as_markdown(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path) -> None:
    desktop = open_desktop()
    say(qtbot, desktop, "What is a page?")
    chat = desktop.conversation.chat
    assert chat is not None
    desktop.opener.export(chat.id, tmp_path / "page.md")
    qtbot.waitUntil((tmp_path / "page.md").exists)
    text = (tmp_path / "page.md").read_text("utf-8")
    assert text.startswith("# What is a page?\n")
    assert texts(desktop)[1] in text
    qtbot.waitUntil(lambda: "page.md" in desktop.window.toast.text)


def test_what_is_exported_and_imported_right_before_the_end_is_written(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    desktop = open_desktop(home=tmp_path / "home")
    say(qtbot, desktop, "What is a page?")
    chat = desktop.conversation.chat
    assert chat
    path = tmp_path / "out.mlxrchat"
    desktop.opener.export(chat.id, path)
    desktop.opener.open(str(saved(tmp_path)))
    desktop.close()  # and no event is handled in between
    written, messages = from_json(path.read_bytes(), path.name)
    assert written.title == "What is a page?"
    assert [message.text for message in messages] == ["What is a page?", "Pages hold tokens."]
    again = open_desktop(home=tmp_path / "home")
    qtbot.waitUntil(lambda: len(again.chats.rows) == 2)
    assert {row.chat.title for row in again.chats.rows} == {"What is a page?", "About <b>pages</b>"}


def test_where_it_cannot_be_read_that_is_said_and_the_next_one_is_written(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desktop = open_desktop()
    say(qtbot, desktop, "What is a page?")
    chat = desktop.conversation.chat
    assert chat
    with monkeypatch.context() as broken:
        broken.setattr(ChatStore, "messages", lambda store, chat_id: [][0])
        desktop.opener.export(chat.id, tmp_path / "first.mlxrchat")
        qtbot.waitUntil(lambda: "Chats cannot be read right now" in desktop.window.toast.text)
    desktop.opener.export(chat.id, tmp_path / "second.mlxrchat")
    qtbot.waitUntil(lambda: "second.mlxrchat" in desktop.window.toast.text)
    assert [path.name for path in tmp_path.glob("*.mlxrchat")] == ["second.mlxrchat"]


def test_where_it_cannot_be_written_that_is_said(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    desktop = open_desktop()
    say(qtbot, desktop, "What is a page?")
    chat = desktop.conversation.chat
    assert chat is not None
    (tmp_path / "file").write_text("mine")
    desktop.opener.export(chat.id, tmp_path / "file" / "page.mlxrchat")
    qtbot.waitUntil(lambda: "cannot be written" in desktop.window.toast.text)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_dropped_chat_is_imported_and_says_what_it_tells_the_model(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    desktop = open_desktop()
    assert drop(desktop.window, saved(tmp_path, system="Always answer\nin rhymes."))
    qtbot.waitUntil(lambda: texts(desktop) == ["What is a page?", "Sixteen tokens."])
    qtbot.waitUntil(lambda: "Always answer in rhymes." in desktop.window.toast.text)
    save(desktop, "light-chat-imported")
    toast = desktop.window.toast
    assert desktop.pane.childAt(toast.geometry().center()) in (toast, *toast.findChildren(QLabel))


def test_a_second_mlxr_hands_its_chat_file_over(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    desktop = open_desktop(home=home)
    connected(home).__exit__(None, None, None)
    assert hand_over(home, Opening(wanted=str(saved(tmp_path))))
    qtbot.waitUntil(lambda: texts(desktop) == ["What is a page?", "Sixteen tokens."])


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"{}", "Über.mlxrchat is no chat of MLXR's"),
        (b'{"format": "mlxr-chat", "version": 9}', "Über.mlxrchat was written by a newer MLXR"),
        (b"\x00\x01", "Über.mlxrchat is damaged"),
        (None, "Über.mlxrchat cannot be read"),
    ],
)
def test_a_bad_file_is_said_in_one_line_and_leaves_nothing(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path, data: bytes | None, line: str
) -> None:
    desktop = open_desktop()
    if data is not None:
        (tmp_path / "Über.mlxrchat").write_bytes(data)
    desktop.opener.open(str(tmp_path / "Über.mlxrchat"))
    qtbot.waitUntil(lambda: desktop.window.toast.text.startswith(line))
    found: list[list[Chat]] = []
    desktop.store.ask(lambda store: store.chats(), found.append)
    qtbot.waitUntil(lambda: found == [[]])


def test_half_a_chat_is_never_stored(open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path) -> None:
    """The database refuses the last message: the chat and its first messages go with it."""
    desktop = open_desktop()
    desktop.store.change(
        lambda store: (
            store._db.execute(  # pyright: ignore[reportPrivateUsage]
                "CREATE TRIGGER refuse BEFORE INSERT ON messages WHEN new.role = 'assistant' "
                "BEGIN SELECT RAISE(ABORT, 'no room'); END"
            )
            and None
        )
    )
    desktop.opener.open(str(saved(tmp_path)))
    qtbot.waitUntil(lambda: "could not be stored" in desktop.window.toast.text)
    counts: list[tuple[int, ...]] = []
    desktop.store.ask(
        lambda store: store._db.execute(  # pyright: ignore[reportPrivateUsage]
            "SELECT (SELECT count(*) FROM chats), (SELECT count(*) FROM messages)"
        ).fetchone(),
        counts.append,
    )
    qtbot.waitUntil(lambda: counts == [(0, 0)])


def test_import_is_in_the_menu_beside_the_chats_too(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    desktop = open_desktop()
    rows = desktop.window.sidebar.list
    rows.import_wanted.emit()
    dialog = dialog_of(desktop)
    dialog.fileSelected.emit(str(saved(tmp_path)))
    dialog.close()
    qtbot.waitUntil(lambda: rows.titles() == ["About <b>pages</b>"])
    menu = rows.menu_for(rows.model().index(0, 0))
    assert isinstance(menu, QMenu)
    assert [one.text() for one in menu.actions() if one.text()] == [
        "Rename",
        "Keep in memory",
        "Delete",
        words.EXPORT,
        words.COPY_LINK,
        words.IMPORT,
    ]
