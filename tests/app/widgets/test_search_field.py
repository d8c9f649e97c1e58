"""The search field's keys."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.widgets.search_field import SearchField


class Around(QWidget):
    """What stands around the field, and the keys that came through to it."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.keys: list[int] = []
        self.field = SearchField(appearance, "Search the shelf")
        QVBoxLayout(self).addWidget(self.field)

    def keyPressEvent(self, event: object) -> None:  # noqa: N802 (Qt's name)
        self.keys.append(event.key())  # type: ignore[attr-defined]


def test_escape_empties_it_and_then_is_for_others(qtbot: QtBot, appearance: Appearance) -> None:
    around = Around(appearance)
    qtbot.addWidget(around)
    qtbot.keyClicks(around.field, "words")
    qtbot.keyClick(around.field, Qt.Key.Key_Escape)
    assert (around.field.text(), around.keys) == ("", [])
    qtbot.keyClick(around.field, Qt.Key.Key_Escape)
    assert around.keys == [Qt.Key.Key_Escape]


def test_down_leads_into_the_list(qtbot: QtBot, appearance: Appearance) -> None:
    around = Around(appearance)
    qtbot.addWidget(around)
    assert around.field.accessibleName() == "Search the shelf"
    with qtbot.waitSignal(around.field.entered):
        qtbot.keyClick(around.field, Qt.Key.Key_Down)
