"""A row of choices: one holds, and a click tells another."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.widgets.choice_row import ChoiceRow

CHOICES = (("s", "Small"), ("m", "Middling"), ("l", "Large"))


def test_a_click_chooses_and_lets_go_of_the_one_before(qtbot: QtBot) -> None:
    row = ChoiceRow("Size", CHOICES, "m")
    qtbot.addWidget(row)
    told: list[str] = []
    row.chosen.connect(told.append)
    assert row.current == "m"
    row.button("l").click()
    assert (row.current, told) == ("l", ["l"])
    assert not row.button("m").isChecked()


def test_arrow_keys_choose(qtbot: QtBot) -> None:
    row = ChoiceRow("Size", CHOICES, "s")
    qtbot.addWidget(row)
    row.show()
    row.activateWindow()
    row.button("s").setFocus()
    qtbot.waitUntil(row.button("s").hasFocus)
    with qtbot.waitSignal(row.chosen) as chosen:
        qtbot.keyClick(row.button("s"), Qt.Key.Key_Right)
    assert chosen.args == ["m"]
    assert row.current == "m"


def test_screen_readers_hear_what_is_chosen(qtbot: QtBot) -> None:
    row = ChoiceRow("Size", CHOICES, "")
    qtbot.addWidget(row)
    assert row.current == ""
    assert row.button("l").accessibleName() == "Size: Large"
