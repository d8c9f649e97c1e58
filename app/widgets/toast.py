"""A note that floats over its parent for a while, perhaps with one way back."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QWidget

SHOWN_MS = 8000
MARGIN = 152  # above the end of its parent
GAP = 64  # above what it stands over: the button that jumps to the end is between them
SIDE = 16


class Toast(QFrame):
    """Shows one note at a time, low in the middle of its parent, and over `above`, which may grow."""

    def __init__(self, parent: QWidget, above: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("toast")
        self._over = parent
        self._above = above
        self._undo: Callable[[], None] | None = None
        self._words = ""
        self._text = QLabel()
        self._text.setTextFormat(Qt.TextFormat.PlainText)  # names in it may come from elsewhere
        self._button = QPushButton()
        self._button.setProperty("kind", "link")
        self._button.clicked.connect(self._act)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 8, 16, 8)
        row.addWidget(self._text)
        row.addWidget(self._button)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(SHOWN_MS)
        self._timer.timeout.connect(self.hide)
        parent.installEventFilter(self)
        if above is not None:
            above.installEventFilter(self)
        self.hide()

    @property
    def text(self) -> str:
        """What it says."""
        return self._words

    def say(self, text: str) -> None:
        """Say `text`."""
        self._undo = None
        self._button.hide()
        self._show(text)

    def offer(self, text: str, action: str, undo: Callable[[], None]) -> None:
        """Say `text`; clicking `action` calls `undo`."""
        self._undo = undo
        self._button.setText(action)
        self._button.show()
        self._show(text)

    def _show(self, text: str) -> None:
        self._words = text
        self.setAccessibleName(text)
        self._place()
        self.show()
        self.raise_()
        self._timer.start()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Stay in place when the parent changes its size, and on top of what is shown in it meanwhile."""
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Move):
            self._place()
        elif event.type() == QEvent.Type.LayoutRequest:  # a stack of pages raises the one that it shows
            self.raise_()
        return super().eventFilter(watched, event)

    def _place(self) -> None:
        """Low in the middle; what is too long for one line there takes more, and a word for that is cut."""
        self._text.setText(self._words)
        self._text.setWordWrap(False)
        self._text.setMinimumWidth(0)
        beside = self.sizeHint().width() - self._text.sizeHint().width()
        room = self._over.width() - 2 * SIDE - beside
        if self._text.sizeHint().width() > room:
            cut, middle = self._text.fontMetrics().elidedText, Qt.TextElideMode.ElideMiddle
            self._text.setText(" ".join(cut(word, middle, room) for word in self._words.split(" ")))
            self._text.setWordWrap(True)
            self._text.setMinimumWidth(room)
        self.adjustSize()
        end = self._over.height() - MARGIN
        if self._above is not None:
            end = self._above.mapTo(self._over, QPoint()).y() - GAP
        self.move((self._over.width() - self.width()) // 2, end - self.height())

    @Slot()
    def _act(self) -> None:
        self.hide()
        if self._undo:
            self._undo()
