"""A switch: on or off, with its words beside it."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QCheckBox, QWidget

from app.appearance import Appearance

TRACK_WIDTH, TRACK_HEIGHT = 34, 20
KNOB = 7.0
GAP = 10
RING = 2
"""Room around the track for the ring that shows where the keys go."""


class Switch(QCheckBox):
    """A check box drawn as a switch; screen readers meet a check box."""

    def __init__(self, appearance: Appearance, words: str, parent: QWidget | None = None) -> None:
        super().__init__(words, parent)
        self._appearance = appearance
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        appearance.changed.connect(self.update)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """The track and its words on one line."""
        self.ensurePolished()
        words = self.fontMetrics().size(Qt.TextFlag.TextSingleLine, self.text())
        track = TRACK_HEIGHT + 2 * RING
        return QSize(2 * RING + TRACK_WIDTH + GAP + words.width(), max(track, words.height()))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """The words are never cut."""
        return self.sizeHint()

    def hitButton(self, pos: QPoint) -> bool:  # noqa: N802 (Qt's name)
        """A click anywhere on it counts."""
        return self.rect().contains(pos)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """The knob is on the right, and the track in the accent, while it is on."""
        theme = self._appearance.theme
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        track = QRectF(RING, (self.height() - TRACK_HEIGHT) / 2, TRACK_WIDTH, TRACK_HEIGHT)
        if self.hasFocus():
            painter.setPen(QPen(QColor(theme.accent), 1.5))
            painter.drawRoundedRect(track.adjusted(-1, -1, 1, 1), TRACK_HEIGHT / 2 + 1, TRACK_HEIGHT / 2 + 1)
            track.adjust(1.5, 1.5, -1.5, -1.5)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.accent if self.isChecked() else theme.muted))
        painter.drawRoundedRect(track, track.height() / 2, track.height() / 2)
        painter.setBrush(QColor(theme.on_accent if self.isChecked() else theme.window))
        off = track.left() + track.height() / 2
        on = track.right() - track.height() / 2
        painter.drawEllipse(QPointF(on if self.isChecked() else off, track.center().y()), KNOB, KNOB)
        painter.setPen(QColor(theme.text if self.isEnabled() else theme.muted))
        words = self.rect().adjusted(2 * RING + TRACK_WIDTH + GAP, 0, 0, 0)
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self.text())
        painter.end()
