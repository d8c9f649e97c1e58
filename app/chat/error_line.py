"""One line that says why an answer failed, with what would help under it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.appearance import Appearance
from app.icons import pixmap
from app.widgets.fitting_button import FittingButton
from app.widgets.plain_label import plain_label

ICON = 20


class ErrorLine(QFrame):
    """An error's text, which can be selected and copied. Intent: `way_chosen(number of the way)`."""

    way_chosen = Signal(int)

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("errorLine")
        self._appearance = appearance
        self._icon = QLabel()
        self._icon.setFixedSize(ICON, ICON)
        self._text = plain_label(selectable=True)
        self._text.setContentsMargins(2, 2, 0, 0)  # above the words of the ways, beside the icon's middle
        self._ways: list[FittingButton] = []
        self._column = QVBoxLayout()
        self._column.setSpacing(4)
        self._column.addWidget(self._text)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 10, 12, 10)
        row.setSpacing(8)
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(self._column, 1)
        appearance.changed.connect(self._paint)
        self._paint()

    @property
    def text(self) -> str:
        """The error."""
        return self._text.text()

    def say(self, error: str) -> None:
        """Show the error."""
        self._text.setText(error)
        self.setAccessibleName(f"Error: {error}")

    @property
    def ways(self) -> Sequence[FittingButton]:
        """The buttons of what would help."""
        return self._ways

    def offer(self, ways: Sequence[str]) -> None:
        """Offer these ways out."""
        if [button.words for button in self._ways] == list(ways):
            return
        for button in self._ways:
            self._column.removeWidget(button)
            button.deleteLater()
        self._ways = [self._make_way(number, words) for number, words in enumerate(ways)]

    def _make_way(self, number: int, words: str) -> FittingButton:
        button = FittingButton(words)
        button.setProperty("kind", "link")
        button.clicked.connect(lambda: self.way_chosen.emit(number))
        self._column.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        button.show()  # a layout does it later, and does not count what is hidden
        return button

    @Slot()
    def _paint(self) -> None:
        self._icon.setPixmap(pixmap("warning", self._appearance.theme.danger, ICON, self.devicePixelRatioF()))
