"""A button whose menu was open."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QMenu, QToolButton
from pytestqt.qtbot import QtBot

from app.widgets.button_menu import give_menu


class Button(QToolButton):
    """Counts how often the pointer has left it."""

    left = 0

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        self.left += 1
        super().leaveEvent(event)


@pytest.mark.parametrize("is_over", [False, True])
def test_behind_a_menu_a_button_knows_whether_the_pointer_is_over_it(is_over: bool, qtbot: QtBot) -> None:
    button = Button()
    qtbot.addWidget(button)
    menu = QMenu(button)
    menu.addAction("One")
    give_menu(button, menu)
    button.move(QCursor.pos() - QPoint(8, 8) if is_over else QCursor.pos() + QPoint(200, 200))
    button.show()
    button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse)  # as when it was pressed
    button.left = 0
    menu.popup(QPoint(0, 0))
    menu.close()
    qtbot.wait(20)
    assert button.underMouse() is is_over
    assert button.left == (0 if is_over else 1)
