"""The user's bubble."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.prose_view import ProseView
from app.chat.tree import Versions
from app.chat.user_message_view import LONGEST, PADDING, WIDEST, UserMessageView
from app.store.records import ChatMessage
from app.widgets.growing_text import GrowingText


def view_of(qtbot: QtBot, appearance: Appearance, text: str) -> UserMessageView:
    view = UserMessageView(ChatMessage("c", "user", text), appearance, Versions())
    qtbot.addWidget(view)
    view.show()
    return view


def bubble(view: UserMessageView) -> ProseView:
    return view.findChild(ProseView)


@pytest.mark.parametrize("text", ["Hi", "Here is a text of some length.", "two\nlines"])
def test_a_short_message_fits_its_bubble_on_its_own_lines(
    qtbot: QtBot, appearance: Appearance, text: str
) -> None:
    view = view_of(qtbot, appearance, text)
    height = view.fit(728)
    lines = text.count("\n") + 1
    assert height <= 2 * PADDING[1] + lines * 20
    assert bubble(view).geometry().right() == 727


def test_a_long_message_is_no_wider_than_most_of_the_column(qtbot: QtBot, appearance: Appearance) -> None:
    view = view_of(qtbot, appearance, "word " * 200)
    view.fit(700)
    assert bubble(view).width() <= 700 * WIDEST


def test_markdown_of_the_user_stays_text(qtbot: QtBot, appearance: Appearance) -> None:
    assert bubble(view_of(qtbot, appearance, "**stars** <b>")).toPlainText() == "**stars** <b>"


def test_a_very_long_message_is_folded_until_asked(qtbot: QtBot, appearance: Appearance) -> None:
    text = "word " * LONGEST
    view = view_of(qtbot, appearance, text)
    folded = view.fit(700)
    assert len(bubble(view).toPlainText()) <= LONGEST + 1
    assert f"{len(text):,}" in view._unfold.text()
    with qtbot.waitSignal(view.height_changed):
        view._unfold.click()
    assert bubble(view).toPlainText() == text
    assert view.fit(700) > folded


def test_the_cursor_of_an_editor_that_opens_is_seen(qtbot: QtBot, appearance: Appearance) -> None:
    view = view_of(qtbot, appearance, "word " * 500)
    view.height_changed.connect(lambda: view.resize(400, view.fit(400)))
    view.start_editing()
    assert view.editor
    field = view.editor.focusProxy()
    assert isinstance(field, GrowingText)
    assert field.textCursor().atEnd()
    assert field.viewport().rect().contains(field.cursorRect())


def test_lines_of_a_long_message_end_before_the_scroll_bar_of_its_editor(
    qtbot: QtBot, appearance: Appearance
) -> None:
    view = view_of(qtbot, appearance, "i" * 2000)  # broken anywhere, so that its lines are full
    view.height_changed.connect(lambda: view.resize(400, view.fit(400)))
    view.start_editing()
    assert view.editor
    field = view.editor.focusProxy()
    assert isinstance(field, GrowingText)
    assert field.verticalScrollBar().maximum() > 0
    assert field.horizontalScrollBar().maximum() == 0


def test_the_pencil_stands_beside_the_bubble(qtbot: QtBot, appearance: Appearance) -> None:
    for text in ("Hi", "word " * 200):
        view = view_of(qtbot, appearance, text)
        view.resize(512, view.fit(512))
        assert view.rect().contains(view.edit_button.geometry())
        assert not view.edit_button.geometry().intersects(bubble(view).geometry())
        assert view.edit_button.accessibleName() == "Edit this message"


def test_versions_stand_under_the_bubble(qtbot: QtBot, appearance: Appearance) -> None:
    alone = view_of(qtbot, appearance, "Hi")
    among = UserMessageView(ChatMessage("c", "user", "Hi"), appearance, Versions(2, 3))
    qtbot.addWidget(among)
    among.show()
    among.resize(600, among.fit(600))
    assert among.switch.isVisible()
    assert among.switch.y() > bubble(among).geometry().bottom()
    assert among.rect().contains(among.switch.geometry())
    assert among.height() > alone.fit(600)


def test_editing_takes_the_messages_place_and_gives_it_back(qtbot: QtBot, appearance: Appearance) -> None:
    view = view_of(qtbot, appearance, "word " * LONGEST)
    before = view.fit(600)
    drafts: list[str | None] = []
    view.drafted.connect(drafts.append)
    with qtbot.waitSignal(view.height_changed):
        view.edit_button.click()
    assert view.editor
    assert view.editor.text == "word " * LONGEST
    assert not bubble(view).isVisible()
    assert not view._unfold.isVisible()
    assert view.fit(600) != before
    with qtbot.waitSignal(view.edited) as edited:
        view.editor.sent.emit("other")
    assert edited.args == ["other"]
    view.editor.cancelled.emit()
    assert view.editor is None
    assert bubble(view).isVisible()
    assert view._unfold.isVisible()
    assert view.fit(600) == before
    assert drafts == ["word " * LONGEST, None]


def test_nothing_is_edited_while_nothing_can_be_sent(qtbot: QtBot, appearance: Appearance) -> None:
    view = view_of(qtbot, appearance, "Hi")
    view.set_ready(False)
    assert not view.edit_button.isEnabled()
