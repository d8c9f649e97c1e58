"""A card: a figure with its name, which shows its chart when it is chosen."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.dashboard.live_cards import Face

SIZE = QSize(128, 92)


class Titled(Protocol):
    """What a button needs of its card."""

    @property
    def title(self) -> str:
        """Its name."""
        ...


C = TypeVar("C", bound=Titled)


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
        self._title, self._value, self._unit, self._detail = (QLabel(self) for _ in range(4))
        self._title.setText(card.title)
        self._title.setProperty("role", "muted")
        self._value.setProperty("role", "figure")
        self._unit.setProperty("role", "muted")
        self._detail.setProperty("role", "muted")
        self._detail.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        for label in (self._title, self._value, self._unit, self._detail):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            label.setTextFormat(Qt.TextFormat.PlainText)
        row = QHBoxLayout()
        row.setSpacing(4)
        row.addWidget(self._value)
        row.addWidget(self._unit, 1, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 12, 8)
        column.setSpacing(0)
        column.addWidget(self._title)
        column.addLayout(row)
        column.addWidget(self._detail)

    def show_face(self, face: Face) -> None:
        """Say this."""
        for label, words in ((self._value, face.value), (self._unit, face.unit), (self._detail, face.detail)):
            if label.text() != words:
                label.setText(words)
        if self.toolTip() != face.about:
            self.setToolTip(face.about)
        words = f"{self.card.title}: {self.words}"
        if self.accessibleName() != words:
            self.setAccessibleName(words)
            self.setAccessibleDescription(face.about)

    @property
    def words(self) -> str:
        """What it says below its title."""
        parts = (f"{self._value.text()} {self._unit.text()}".rstrip(), self._detail.text())
        return ", ".join(part for part in parts if part)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """The same for all."""
        return SIZE

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Long words are cut off before the window grows."""
        return SIZE
