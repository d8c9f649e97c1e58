"""The setting of updates: whether MLXR looks for a newer version by itself."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.appearance import Appearance
from app.settings import Switch as OnOff
from app.updates import words
from app.widgets.plain_label import plain_label
from app.widgets.switch import Switch


class UpdatesSection(QWidget):
    """Intent: `chosen("on" or "off")`."""

    chosen = Signal(str)

    def __init__(
        self, appearance: Appearance, current: OnOff, *, can_check: bool, parent: QWidget | None = None
    ) -> None:
        """`can_check`: whether this build can ask anybody; where not, it says so."""
        super().__init__(parent)
        self.switch = Switch(appearance, words.SWITCH)
        self.switch.setChecked(current == "on" and can_check)
        self.switch.setEnabled(can_check)
        self.switch.clicked.connect(lambda on: self.chosen.emit("on" if on else "off"))
        self.note = plain_label(words.NOTE if can_check else words.CANNOT, "muted")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self.switch)
        column.addWidget(self.note)
