"""The dashboard: its panes, one at a time, with the way back to the chats."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QLabel,
    QStackedLayout,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app import text
from app.appearance import Appearance
from app.widgets.icon_button import IconButton

TITLE = "Dashboard"


class DashboardPage(QWidget):
    """Shows one of `panes`, by the words on their tabs. Intent: `left` to go back to the chats."""

    left = Signal()

    def __init__(
        self, appearance: Appearance, panes: Mapping[str, QWidget], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("dashboardPage")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._panes = dict(panes)
        self._tabs: dict[str, QToolButton] = {}
        self._stack = QStackedLayout()
        self._model = QLabel()
        self._model.setProperty("role", "muted")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self._make_top_bar(appearance))
        column.addLayout(self._stack, 1)
        for pane in self._panes.values():
            self._stack.addWidget(pane)
        self.show_tab(next(iter(self._panes)))

    def show_tab(self, name: str) -> None:
        """Show one of the panes."""
        self._tabs[name].setChecked(True)
        self._stack.setCurrentWidget(self._panes[name])

    def tab_button(self, name: str) -> QToolButton:
        """The button that shows a pane."""
        return self._tabs[name]

    def show_model(self, words: str) -> None:
        """Name the model that is told of."""
        self._model.setText(words)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Escape goes back to the chat."""
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def _make_top_bar(self, appearance: Appearance) -> QHBoxLayout:
        back = IconButton(appearance, "chevron-left", text.BACK_TO_CHAT)
        back.clicked.connect(self.left)
        title = QLabel(TITLE)
        title.setObjectName("sidebarTitle")
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 6, 16, 10)
        bar.setSpacing(4)
        bar.addWidget(back)
        bar.addWidget(title)
        bar.addSpacing(16)
        group = QButtonGroup(self)
        for name in self._panes:
            tab = QToolButton()
            tab.setText(name)
            tab.setProperty("kind", "tab")
            tab.setCheckable(True)
            tab.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            tab.setCursor(Qt.CursorShape.PointingHandCursor)
            tab.clicked.connect(lambda _=False, name=name: self.show_tab(name))
            self._tabs[name] = tab
            group.addButton(tab)
            bar.addWidget(tab)
        bar.addStretch(1)
        bar.addWidget(self._model)
        return bar
