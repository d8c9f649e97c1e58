"""A setting that is on or off, with a note on what follows."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.appearance import Appearance
from app.settings import Switch as OnOff
from app.widgets.plain_label import plain_label
from app.widgets.switch import Switch


class SwitchSection(QWidget):
    """Intent: `chosen("on" or "off")`."""

    chosen = Signal(str)

    def __init__(
        self, appearance: Appearance, label: str, current: OnOff, note: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.switch = Switch(appearance, label)
        self.switch.setChecked(current == "on")
        self.switch.clicked.connect(lambda on: self.chosen.emit("on" if on else "off"))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self.switch)
        column.addWidget(plain_label(note, "muted"))
