"""A button with a menu: the menu opens right below it, and its arrow stands behind its words."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.icons import icon
from app.widgets.button_menu import give_menu
from app.widgets.menu_button import MenuButton


def shown(qtbot: QtBot, appearance: Appearance, words: str) -> MenuButton:
    button = MenuButton(appearance, 16)
    qtbot.addWidget(button)
    button.setText(words)
    button.move(300, 40)
    button.show()
    qtbot.waitExposed(button)
    return button


def test_its_menu_begins_where_it_does(qtbot: QtBot, appearance: Appearance) -> None:
    button = shown(qtbot, appearance, "Guide")
    menu = QMenu(button)
    menu.addAction("A longer line than that of the button")
    give_menu(button, menu)
    places: list[QPoint] = []
    menu.aboutToShow.connect(lambda: QTimer.singleShot(0, lambda: (places.append(menu.pos()), menu.close())))
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert places[0].x() == button.mapToGlobal(QPoint(0, 0)).x()
    assert menu.width() > button.width()


def test_its_arrow_stands_behind_its_words(qtbot: QtBot, appearance: Appearance) -> None:
    button = shown(qtbot, appearance, "Guide")
    before = button.grab().toImage()
    button.setIcon(icon("chevron-down", "#ff0000", 16))
    after = button.grab().toImage()
    places = [(x, y) for x in range(after.width()) for y in range(after.height())]
    arrow = [x for x, y in places if before.pixelColor(x, y) != after.pixelColor(x, y)]
    assert min(arrow) > after.width() / 2
