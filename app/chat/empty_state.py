"""What a new chat shows: what this is, and things to try."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.appearance import Appearance
from app.icons import pixmap
from app.text import FIND_MODEL
from app.theme import Theme
from app.widgets.fitting_button import FittingButton

MARK = 40
WIDTH = 520
NARROWEST = 240
MARGIN = 24
ABOVE_MIDDLE = 0.4
ROOMY = 400  # pixels of height from which on nothing has to be left out
BUTTON = 48
SMALL_BUTTON = 40
INDENT = 8
"""Pixels that the link's words need to stand under those of the suggestions."""


class Suggestion(FittingButton):
    """Something to try."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.setObjectName("suggestion")
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)


class EmptyState(QWidget):
    """A heading, a sentence, and what to try. Intents: `suggested(text)`, and `models_wanted`."""

    suggested = Signal(str)
    models_wanted = Signal()

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._mark = QLabel()
        self._title = QLabel()
        self._title.setProperty("role", "title")
        self._title.setWordWrap(True)
        self._text = QLabel()
        self._text.setObjectName("emptyText")
        self._text.setWordWrap(True)
        self._buttons = QVBoxLayout()
        self._buttons.setSpacing(8)
        self.find_model = QPushButton(FIND_MODEL)
        self.find_model.setProperty("kind", "link")
        self.find_model.setCursor(Qt.CursorShape.PointingHandCursor)
        self.find_model.clicked.connect(self.models_wanted)
        self._inner = QWidget(self)
        self._column = column = QVBoxLayout(self._inner)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        for widget in (self._mark, self._title, self._text):
            column.addWidget(widget)
        column.addSpacing(16)
        column.addLayout(self._buttons)
        under = QHBoxLayout()
        under.setContentsMargins(INDENT, 0, 0, 0)
        under.addWidget(self.find_model)
        under.addStretch(1)
        column.addLayout(under)
        appearance.changed.connect(self._paint)
        self._paint(appearance.theme)

    @property
    def suggestions(self) -> list[Suggestion]:
        """The suggestions' buttons."""
        return [self._buttons.itemAt(i).widget() for i in range(self._buttons.count())]  # type: ignore[misc]

    def show_words(
        self, title: str, text: str, suggestions: Sequence[str], *, offers_models: bool = False
    ) -> None:
        """Greet with these words, and perhaps offer a look at what models there are."""
        self.find_model.setVisible(offers_models)
        self._title.setText(title)
        self._text.setText(text)
        if [button.words for button in self.suggestions] != list(suggestions):
            self._replace(suggestions)
        self._place()

    def set_ready(self, ready: bool) -> None:
        """Whether a suggestion can be sent now."""
        for button in self.suggestions:
            button.setEnabled(ready)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Keep to the middle."""
        super().resizeEvent(event)
        self._place()

    def _place(self) -> None:
        """A little above the middle; where room is short the mark goes, buttons shrink, and the last ones go.

        By hand: a layout gives wrapped words too little height, and would keep the window from being narrow.
        """
        roomy = self.height() >= ROOMY
        width = max(NARROWEST, min(WIDTH, self.width() - 2 * MARGIN))
        self._mark.setVisible(roomy)
        for button in self.suggestions:
            button.setFixedHeight(BUTTON if roomy else SMALL_BUTTON)
            button.show()
        for label in (self._title, self._text):
            label.ensurePolished()
            label.setMinimumHeight(0)  # it is never less than the last one otherwise
            label.setFixedHeight(max(0, label.heightForWidth(width)))
        self._buttons.invalidate()
        self._column.invalidate()
        for button in reversed(self.suggestions[1:]):
            if self._column.sizeHint().height() > self.height():
                button.hide()
                self._buttons.invalidate()
                self._column.invalidate()
        height = self._column.sizeHint().height()
        top = max(0, round((self.height() - height) * ABOVE_MIDDLE))
        self._inner.setGeometry((self.width() - width) // 2, top, width, height)
        self._column.activate()

    def _replace(self, suggestions: Sequence[str]) -> None:
        for button in self.suggestions:
            self._buttons.removeWidget(button)
            button.deleteLater()
        for words in suggestions:
            button = Suggestion(words)
            button.clicked.connect(lambda _=False, words=words: self.suggested.emit(words))
            self._buttons.addWidget(button)
        in_order = (self.find_model, *self.suggestions, self.find_model)
        for before, button in pairwise(in_order):  # made anew, they would come last in the window
            QWidget.setTabOrder(before, button)

    @Slot(object)
    def _paint(self, theme: Theme) -> None:
        self._mark.setPixmap(pixmap("mark", theme.accent, MARK, self.devicePixelRatioF()))
