"""What the panes of the dashboard are made of: a column that scrolls, panels, sections, words.

Every part is made where it belongs, parents first: what is moved into its place with all that is in it costs
Qt as much again as making it, at each level.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from app.widgets.key_frame import KeyFrame
from app.widgets.plain_label import plain_label

SIDE = 16
"""Pixels between a pane's parts and its edges."""

ROOM_FOR_ALL = 760
"""Pixels; in a narrower pane fewer figures stand beside each other."""

FEWEST = 2


class Pane(QScrollArea):
    """A column of parts, scrolled where the window is low: `content` is their parent, `column` its layout."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("dashboardPane")
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.content = QWidget(self)
        self.content.setObjectName("dashboardColumn")
        self.column = QVBoxLayout(self.content)
        self.column.setContentsMargins(SIDE, 4, SIDE, SIDE)
        self.column.setSpacing(10)
        self.setWidget(self.content)
        KeyFrame(self)


class Panel(QFrame):
    """A frame around parts that belong together; `column` is its layout."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("panel")
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(12, 12, 12, 12)


class Section(QWidget):
    """Parts below a heading: `column` is its layout, `head` the line of the heading."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.heading, self.head = plain_label(title, "section", self), QHBoxLayout()
        self.head.addWidget(self.heading, 1)
        self.column.addLayout(self.head)


class FigureGrid(QGridLayout):
    """Figures beside each other, `most` in a row and in a narrow pane FEWEST."""

    def __init__(self, figures: Sequence[QWidget], most: int) -> None:
        super().__init__()
        self.setSpacing(8)
        self._figures, self._most, self._columns = figures, most, 0
        self.fit(ROOM_FOR_ALL)

    def fit(self, width: int) -> None:
        """Arrange them for a pane that is `width` pixels wide."""
        columns = self._most if width >= ROOM_FOR_ALL else FEWEST
        if columns == self._columns:
            return
        self._columns = columns
        for place, figure in enumerate(self._figures):
            self.addWidget(figure, *divmod(place, columns))
        for column in range(self._most):
            self.setColumnStretch(column, int(column < columns))
