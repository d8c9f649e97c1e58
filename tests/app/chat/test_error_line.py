"""An error's ways out are read whole where there is room, and from their beginning where there is not."""

from __future__ import annotations

from PySide6.QtWidgets import QStyle, QStyleOptionButton
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.error_line import ErrorLine
from app.widgets.fitting_button import FittingButton

TITLE = "Q&A 北京市朝阳区建国门外大街一号国贸大厦有什么好吃的"
WAYS = ("Shorten it", f"Let go of the memory of “{TITLE}”, 6 pages")


def drawn_width(button: FittingButton) -> int:
    """Of what stands on it, without the sign that marks a key: each & is written twice."""
    return button.fontMetrics().horizontalAdvance(button.text().replace("&&", "&"))


def room_in(button: FittingButton) -> int:
    option = QStyleOptionButton()
    button.initStyleOption(option)
    return button.style().subElementRect(QStyle.SubElement.SE_PushButtonContents, option, button).width()


def test_a_way_that_is_too_long_for_a_line_is_cut_at_its_end(qtbot: QtBot, appearance: Appearance) -> None:
    line = ErrorLine(appearance)
    qtbot.addWidget(line)
    line.say("This needs 10 pages")
    line.resize(1000, 120)
    line.show()
    line.offer(WAYS)
    long = line.ways[1]
    for width in (1000, 300, 1000):
        line.resize(width, 120)
        qtbot.waitUntil(lambda width=width: ("…" in long.text()) == (width == 300))
        assert line.rect().contains(long.geometry())
        assert drawn_width(long) <= room_in(long)
        assert long.text().startswith("Let go of")
        assert long.toolTip() == (WAYS[1] if width == 300 else "")
    assert long.text().replace("&&", "&") == WAYS[1]
    assert "Q&&A" in long.text(), "it is no key"
    buttons = list(line.ways)
    line.offer(list(WAYS))
    assert list(line.ways) == buttons, "they are the same"
    with qtbot.waitSignal(line.way_chosen) as chosen:
        long.click()
    assert chosen.args == [1]
