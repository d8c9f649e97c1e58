"""Writing a message: keys, growth, and the button that sends and stops."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QMimeData, QObject, Qt, QUrl
from PySide6.QtWidgets import QPlainTextEdit, QWidget
from pytestqt.qtbot import QtBot

from app import text
from app.appearance import Appearance
from app.chat.composer import MOST_LINES, Composer


class Drawn(QObject):
    """Counts how often a widget is drawn."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.count = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        self.count += event.type() == QEvent.Type.Paint
        return False


@pytest.fixture
def composer(qtbot: QtBot, appearance: Appearance) -> Composer:
    composer = Composer(appearance)
    qtbot.addWidget(composer)
    composer.resize(500, 60)
    composer.show()
    composer.set_state(ready=True, busy=False, stopping=False)
    return composer


@pytest.fixture
def sent(composer: Composer) -> list[str]:
    texts: list[str] = []
    composer.sent.connect(texts.append)
    return texts


def press(qtbot: QtBot, composer: Composer, key: Qt.Key, modifier: Qt.KeyboardModifier | None = None) -> None:
    qtbot.keyClick(composer.focusProxy(), key, modifier or Qt.KeyboardModifier.NoModifier)


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter])
def test_enter_sends(qtbot: QtBot, composer: Composer, sent: list[str], key: Qt.Key) -> None:
    qtbot.keyClicks(composer.focusProxy(), "hello there")
    press(qtbot, composer, key)
    assert sent == ["hello there"]


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter])
def test_shift_enter_breaks_the_line(qtbot: QtBot, composer: Composer, sent: list[str], key: Qt.Key) -> None:
    qtbot.keyClicks(composer.focusProxy(), "a")
    press(qtbot, composer, key, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(composer.focusProxy(), "b")
    assert sent == []
    assert composer.text == "a\nb"


@pytest.mark.parametrize("words", ["", "  \n "])
def test_blank_messages_are_not_sent(qtbot: QtBot, composer: Composer, sent: list[str], words: str) -> None:
    composer.set_text(words)
    press(qtbot, composer, Qt.Key.Key_Return)
    assert sent == []
    assert not composer.button.isEnabled()


def test_another_placeholder_is_drawn_at_once(qtbot: QtBot, composer: Composer) -> None:
    field = composer.focusProxy()
    assert isinstance(field, QPlainTextEdit)
    field.setCursorWidth(0)  # nothing blinks
    composer.set_placeholder("Message one")
    qtbot.wait(50)
    drawn = Drawn(field.viewport())
    composer.set_placeholder("Message one")
    qtbot.wait(50)
    assert drawn.count == 0
    composer.set_placeholder("Message two")
    qtbot.waitUntil(lambda: drawn.count == 1)


def test_a_placeholder_keeps_to_the_one_line_that_an_empty_field_has(
    qtbot: QtBot, composer: Composer
) -> None:
    field = composer.focusProxy()
    assert isinstance(field, QPlainTextEdit)
    words = "Message Meta-Llama-3.1-8B-Instruct-abliterated-Q4_K_M-GGUF"
    for width in (900, 300, 900):
        composer.resize(width, composer.height())
        composer.set_placeholder(words)
        qtbot.waitUntil(lambda width=width: (field.placeholderText() == words) == (width == 900))
        shown = field.placeholderText()
        assert field.fontMetrics().horizontalAdvance(shown) < field.viewport().width()
    composer.resize(300, composer.height())
    qtbot.waitUntil(lambda: field.placeholderText().endswith("…"))
    assert field.placeholderText().startswith("Message Meta")


def test_what_has_to_be_done_before_sending_is_said(composer: Composer) -> None:
    composer.set_text("hello")
    composer.set_state(ready=False, busy=False, stopping=False, hindrance="Keep one first")
    assert not composer.button.isEnabled()
    assert composer.button.toolTip() == composer.several_button.toolTip() == "Keep one first"
    composer.set_state(ready=True, busy=False, stopping=False)
    assert composer.button.toolTip() == "Send"
    assert composer.several_button.toolTip() == text.SEND_SEVERAL


def test_nothing_is_sent_before_a_model_is_there(qtbot: QtBot, composer: Composer, sent: list[str]) -> None:
    composer.set_state(ready=False, busy=False, stopping=False)
    composer.set_text("hello")
    press(qtbot, composer, Qt.Key.Key_Return)
    assert sent == []
    assert not composer.button.isEnabled()
    assert composer.text == "hello"


def test_the_button_sends_then_stops_then_waits(qtbot: QtBot, composer: Composer, sent: list[str]) -> None:
    composer.set_text("hello")
    composer.button.click()
    assert sent == ["hello"]
    composer.set_state(ready=False, busy=True, stopping=False)
    assert composer.button.accessibleName() == "Stop"
    with qtbot.waitSignal(composer.stopped):
        composer.button.click()
    composer.set_state(ready=False, busy=True, stopping=True)
    assert not composer.button.isEnabled()


def test_one_can_write_on_while_an_answer_comes(qtbot: QtBot, composer: Composer, sent: list[str]) -> None:
    composer.set_state(ready=False, busy=True, stopping=False)
    qtbot.keyClicks(composer.focusProxy(), "next")
    press(qtbot, composer, Qt.Key.Key_Return)
    assert (composer.text, sent) == ("next", [])


def test_it_grows_with_its_lines_up_to_a_limit(qtbot: QtBot, composer: Composer) -> None:
    field = composer.focusProxy()
    one = field.height()
    composer.set_text("1\n2\n3")
    three = field.height()
    assert three > one
    composer.set_text("x\n" * 50)
    most = field.height()
    assert most > three
    assert most < MOST_LINES * 30
    composer.set_text("")
    assert field.height() == one


def test_wrapped_lines_count(qtbot: QtBot, composer: Composer) -> None:
    one = composer.focusProxy().height()
    composer.set_text("word " * 60)
    qtbot.waitUntil(lambda: composer.focusProxy().height() > one)


def test_dropped_folders_are_left_to_the_window(composer: Composer) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile("/models/tiny")])
    data.setText("/models/tiny")
    assert not composer.focusProxy().canInsertFromMimeData(data)
    words = QMimeData()
    words.setText("words")
    assert composer.focusProxy().canInsertFromMimeData(words)


def test_page_keys_scroll_the_conversation(qtbot: QtBot, composer: Composer) -> None:
    with qtbot.waitSignal(composer.scroll_requested) as up:
        press(qtbot, composer, Qt.Key.Key_PageUp)
    with qtbot.waitSignal(composer.scroll_requested) as down:
        press(qtbot, composer, Qt.Key.Key_PageDown)
    assert (up.args, down.args) == ([-1.0], [1.0])
