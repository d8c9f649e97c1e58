"""The settings: few, and each takes effect at once."""

from __future__ import annotations

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QButtonGroup,
    QDialog,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

CHOICES = (("system", "Like the system"), ("light", "Light"), ("dark", "Dark"))


class SettingsDialog(QDialog):
    """Chooses the look and shows where data is kept: `theme_chosen(choice)`."""

    theme_chosen = Signal(str)

    def __init__(self, theme: str, data_folder: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Settings")
        self.setMinimumWidth(440)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 24)
        column.setSpacing(8)
        column.addWidget(_heading("Look"))
        column.addLayout(self._make_choices(theme))
        column.addSpacing(16)
        column.addWidget(_heading("Your data"))
        where = QLabel(f"Chats and settings are kept on this machine only, in\n{data_folder}")
        where.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        where.setWordWrap(True)
        column.addWidget(where)
        show = QPushButton("Show the folder")
        show.clicked.connect(lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(data_folder)))
        close = QPushButton("Done")
        close.setDefault(True)
        close.clicked.connect(self.accept)
        buttons = QHBoxLayout()
        buttons.addWidget(show)
        buttons.addStretch(1)
        buttons.addWidget(close)
        column.addSpacing(16)
        column.addLayout(buttons)

    def choice(self, name: str) -> QRadioButton:
        """The button of a choice: "system", "light" or "dark"."""
        return self._buttons[name]

    def _make_choices(self, theme: str) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(8)
        group = QButtonGroup(self)
        self._buttons: dict[str, QRadioButton] = {}
        for name, words in CHOICES:
            button = QRadioButton(words)
            button.setChecked(name == theme)
            button.clicked.connect(lambda _=False, name=name: self.theme_chosen.emit(name))
            group.addButton(button)
            row.addWidget(button)
            self._buttons[name] = button
        row.addStretch(1)
        return row


def _heading(words: str) -> QLabel:
    label = QLabel(words)
    font = label.font()
    font.setBold(True)
    label.setFont(font)
    return label
