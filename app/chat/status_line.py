"""The line at the window's foot: model, speed, context, pages and memory, as the engine reports them."""

from __future__ import annotations

from dataclasses import astuple

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLayout, QWidget

from app.chat.engine_status import StatusTexts

HEIGHT = 32
SIDE = 16
GAP = 16
MODEL_SHARE = 0.4
"""Of the line, which the model's name takes at most where there is more to say."""


class StatusLine(QWidget):
    """Shows status texts; a field without one takes no room. Where room is short, the last ones give way.

    What goes on stays longest, at last with its end cut off. Of a long model's name the middle is left out:
    it is named over the conversation too.

    Intent: `clicked`, to see more of this.
    """

    clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("statusLine")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedHeight(HEIGHT)
        self._model = QLabel()
        self._activity = QLabel()
        self._why = QLabel()
        self._speed = QLabel()
        self._speed.setToolTip("Tokens a second, now or in the last answer")
        self._first = QLabel()
        self._first.setToolTip("From sending to the first token, in the last answer")
        self._context = QLabel()
        self._context.setToolTip("Tokens in this chat's context, of those there may be")
        self._pages = QLabel()
        self._pages.setToolTip("Pages of the KV cache that hold chats, running or kept, of those there are")
        self._memory = QLabel()
        self._memory.setToolTip("Memory of the whole app")
        self._labels = (
            self._activity,
            self._model,
            self._speed,
            self._context,
            self._why,
            self._pages,
            self._first,
            self._memory,
        )
        self._wanted = "", StatusTexts()
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        row = QHBoxLayout(self)
        row.setContentsMargins(SIDE, 0, SIDE, 0)
        row.setSpacing(GAP)
        row.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        row.addWidget(self._model)
        row.addWidget(self._activity)
        row.addWidget(self._why)
        row.addStretch(1)
        for label in (self._speed, self._context, self._pages, self._first, self._memory):
            row.addWidget(label)

    def show_texts(self, model: str, texts: StatusTexts) -> None:
        """Show these words; behind the dashboard, which has the same figures, when it comes into view."""
        self._wanted = model, texts
        if self.isVisible():
            self._show_wanted()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 (Qt's name)
        """It comes into view."""
        super().showEvent(event)
        self._show_wanted()

    def _show_wanted(self) -> None:
        texts = self._wanted[1]
        for label, words in (
            (self._speed, texts.speed),
            (self._context, texts.context),
            (self._why, texts.why),
            (self._pages, texts.pages),
            (self._first, texts.first),
            (self._memory, texts.memory),
        ):
            _set(label, words)
        self._activity.setToolTip(texts.why)  # where there is no room for it
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Show what there is room for."""
        super().resizeEvent(event)
        self._fit()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 (Qt's name)
        """A click is a wish to see more."""
        if event.button() == Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.clicked.emit()

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Its words do not keep the window from being narrow."""
        return QSize(0, HEIGHT)

    def _fit(self) -> None:
        room = self.width() - 2 * SIDE
        metrics = self._activity.fontMetrics()
        model, texts = self._wanted
        _set(self._activity, metrics.elidedText(texts.activity, Qt.TextElideMode.ElideRight, room))
        most = int(room * MODEL_SHARE) if any(astuple(texts)) else room
        _set(self._model, metrics.elidedText(model, Qt.TextElideMode.ElideMiddle, most))
        for label in self._labels:
            needed = label.sizeHint().width() + GAP
            label.setVisible(bool(label.text()) and needed <= room + GAP)
            room -= needed if label.text() else 0

    @property
    def words(self) -> str:
        """Everything it says, for tests and screen readers."""
        model, texts = self._wanted
        return "  ".join(filter(None, (model, *astuple(texts))))


def _set(label: QLabel, words: str) -> None:
    if label.text() != words:
        label.setText(words)
