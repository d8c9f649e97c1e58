"""Code blocks: exact text, copying, sideways scrolling."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.code_view import CodeView
from app.widgets.copy_button import CopyButton

CODE = "def f(x):\n\treturn  x  # ünï\n\n"


@pytest.fixture
def view(qtbot: QtBot, appearance: Appearance) -> CodeView:
    view = CodeView(appearance)
    qtbot.addWidget(view)
    view.resize(300, 200)
    view.show()
    return view


def test_code_is_shown_and_copied_exactly(view: CodeView) -> None:
    view.show_code(CODE, "python")
    assert view.code == CODE
    view.findChild(CopyButton).click()
    assert QGuiApplication.clipboard().text() == CODE


def test_growing_and_changing_code_ends_up_the_same(view: CodeView) -> None:
    for end in range(len(CODE)):
        view.show_code(CODE[:end], "")
    view.show_code(CODE, "python")
    assert view.code == CODE
    view.show_code("other", "python")
    assert view.code == "other"


def test_each_line_adds_to_the_height_but_width_does_not(view: CodeView) -> None:
    view.show_code("one", "")
    one = view.height_for(300)
    view.show_code("one\ntwo", "")
    assert view.height_for(300) > one
    view.show_code("x" * 500, "")
    assert view.height_for(300) == one


def test_what_stands_behind_a_fence_is_shown_as_it_is_and_leaves_the_button_its_place(
    view: CodeView, qtbot: QtBot
) -> None:
    """A model writes it."""
    view.resize(240, 120)
    view.show_code(CODE, "<h1>html</h1> <img src=/etc/a.png> " * 5)
    button = view.findChild(CopyButton)
    qtbot.waitUntil(lambda: view.rect().contains(button.geometry()))
    assert button.width() >= button.sizeHint().width()
    label = view.findChild(QLabel, "codeLanguage")
    assert label.textFormat() == Qt.TextFormat.PlainText


def test_long_lines_scroll_sideways(view: CodeView, qtbot: QtBot) -> None:
    view.show_code("x" * 500, "")
    qtbot.waitUntil(lambda: view._text.horizontalScrollBar().maximum() > 0)
