"""The button that asks for several answers at once."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from app import text
from app.appearance import Appearance
from app.widgets.button_menu import give_menu
from app.widgets.icon_button import IconButton

ANSWERS = (2, 3, 4)


class SeveralButton(IconButton):
    """Opens a menu of how many answers there may be. Intent: `chosen(how many)`."""

    chosen = Signal(int)

    def __init__(
        self, appearance: Appearance, label: str, size: int = 28, parent: QWidget | None = None
    ) -> None:
        super().__init__(appearance, "several", label, size=size, icon_size=16, parent=parent)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        for count in ANSWERS:
            action = menu.addAction(text.SEVERAL_ANSWERS.format(count=count))
            action.triggered.connect(lambda _=False, count=count: self.chosen.emit(count))
        give_menu(self, menu)
