"""A card: a figure with its name, which shows its chart when it is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QPalette,
    QPixmap,
)
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QStyle, QStyleOptionButton, QWidget

from app.dashboard.live_cards import Face

SIZE = QSize(128, 92)
SIDE, TOP = 12, 8
"""Pixels between its words and its edges."""

GAP = 5
"""Pixels between a value and its unit."""


class Titled(Protocol):
    """What a button needs of its card."""

    @property
    def title(self) -> str:
        """Its name."""
        ...


C = TypeVar("C", bound=Titled)


@dataclass(frozen=True, slots=True)
class _Look:
    """How a card is drawn.

    Attributes:
        key: of what it depends on.
        ground: all but the face.
        middle, below: where the value and the detail stand, in pixels from the top.
    """

    key: object
    ground: QPixmap
    large: QFont
    small: QFont
    ink: QColor
    pale: QColor
    metrics: QFontMetrics
    middle: int
    below: int


class CardButton(QPushButton, Generic[C]):
    """Shows what a card says; checked while its chart is on show."""

    def __init__(self, card: C, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.card = card
        self.setProperty("kind", "card")
        self.setCheckable(True)
        self.setAutoExclusive(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(SIZE.height())
        self._face = Face("")
        self._figure, self._muted = (_specimen(role, self) for role in ("figure", "muted"))
        self._looked: _Look | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # all that is around it stays as it is

    def show_face(self, face: Face) -> None:
        """Say this."""
        if face == self._face:
            return
        before, self._face = self._face, face
        if face.about != before.about:
            self.setToolTip(face.about)
            self.setAccessibleDescription(face.about)
        if (face.value, face.unit, face.detail) != (before.value, before.unit, before.detail):
            self.setAccessibleName(f"{self.card.title}: {self.words}")
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """Draw the button as the style sheets have it, and its words: the value stands in the middle."""
        look, face = self._look(), self._face
        painter = QPainter(self)
        painter.drawPixmap(0, 0, look.ground)
        painter.setClipRect(self.rect().adjusted(SIDE, TOP, -SIDE, -TOP))
        painter.setFont(look.large)
        painter.setPen(look.ink)
        painter.drawText(SIDE, look.middle, face.value)
        painter.setFont(look.small)
        painter.setPen(look.pale)
        painter.drawText(SIDE + look.metrics.horizontalAdvance(face.value) + GAP, look.middle, face.unit)
        painter.drawText(SIDE, look.below, face.detail)
        painter.end()

    def _look(self) -> _Look:
        """What was drawn of it before, unless it is to look otherwise now: style sheets take their time."""
        option = QStyleOptionButton()
        self.initStyleOption(option)
        scale, colours = self.devicePixelRatioF(), QGuiApplication.palette()
        key = (self.size().toTuple(), scale, option.state, colours.cacheKey())
        if self._looked is None or self._looked.key != key:
            large, small = self._figure.fontMetrics(), self._muted.fontMetrics()
            top = (self.height() - large.height()) // 2
            pale = self._muted.palette().color(QPalette.ColorRole.WindowText)
            ground = QPixmap(self.size() * scale)
            ground.setDevicePixelRatio(scale)
            ground.fill(colours.color(QPalette.ColorRole.Window))
            painter = QPainter(ground)
            self.style().drawControl(QStyle.ControlElement.CE_PushButton, option, painter, self)
            painter.setFont(self._muted.font())
            painter.setPen(pale)
            painter.drawText(SIDE, _centred(small, TOP, top), self.card.title)
            painter.end()
            self._looked = _Look(
                key,
                ground,
                self._figure.font(),
                self._muted.font(),
                self._figure.palette().color(QPalette.ColorRole.WindowText),
                pale,
                large,
                top + large.ascent() + 1,
                _centred(small, top + large.height(), self.height() - TOP),
            )
        return self._looked

    @property
    def words(self) -> str:
        """What it says below its title."""
        parts = (f"{self._face.value} {self._face.unit}".rstrip(), self._face.detail)
        return ", ".join(part for part in parts if part)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """The same for all."""
        return SIZE

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Long words are cut off before the window grows."""
        return SIZE


def _specimen(role: str, parent: QWidget) -> QLabel:
    """A label that is never seen: it has the font and the colour that the style sheets give to its role."""
    label = QLabel(parent)
    label.setProperty("role", role)
    label.hide()
    label.ensurePolished()
    return label


def _centred(metrics: QFontMetrics, top: int, bottom: int) -> int:
    """The base line of words in the middle between `top` and `bottom`."""
    return (top + bottom - metrics.height()) // 2 + metrics.ascent() + 1
