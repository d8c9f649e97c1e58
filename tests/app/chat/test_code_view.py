"""Code blocks: exact text, copying, sideways scrolling."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QGuiApplication
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


def test_long_lines_scroll_sideways(view: CodeView, qtbot: QtBot) -> None:
    view.show_code("x" * 500, "")
    qtbot.waitUntil(lambda: view._text.horizontalScrollBar().maximum() > 0)
