"""The copy button copies, and says so for a moment."""

from __future__ import annotations

from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.widgets.copy_button import CopyButton


def test_it_copies_what_is_there_at_the_click(qtbot: QtBot, appearance: Appearance) -> None:
    texts = ["first"]
    button = CopyButton(appearance, "Copy", lambda: texts[-1])
    qtbot.addWidget(button)
    texts.append("second")
    button.click()
    assert QGuiApplication.clipboard().text() == "second"
    assert button.accessibleName() == "Copied"
    button._timer.timeout.emit()
    assert button.accessibleName() == "Copy"
