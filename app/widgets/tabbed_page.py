"""A page in the place of the chats: the way back, a title, and tabs of which one is on show."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QGridLayout, QHBoxLayout, QLabel, QStackedLayout, QWidget

from app import text
from app.appearance import Appearance
from app.widgets.icon_button import IconButton
from app.widgets.tab_button import TabButton


class TabbedPage(QWidget):
    """Shows one of its panes, which are added when they are made. Intent: `left` to go back to the chats.

    Attributes:
        bar: title and tabs, to be laid out by the page; in a narrow window the tabs stand below the title.
        end: what stands at the end of the title's line.
        stack: the panes, to be laid out by the page.
        tab: the name of the one that is chosen.
    """

    left = Signal()

    def __init__(
        self, appearance: Appearance, title: str, tabs: Mapping[str, str], parent: QWidget | None = None
    ) -> None:
        """`tabs`: words by name, the first of which is on show."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.bar, self.end, self.stack = QGridLayout(), QHBoxLayout(), QStackedLayout()
        self._head, self._tab_row = QWidget(self), QWidget(self)
        self._panes: dict[str, QWidget] = {}
        self._tabs = {name: TabButton(words, self._tab_row) for name, words in tabs.items()}
        self.tab = next(iter(tabs))
        self._tabs[self.tab].setChecked(True)
        self._fill_bar(appearance, title)

    @property
    def is_whole(self) -> bool:
        """Whether all panes were added."""
        return len(self._panes) == len(self._tabs)

    def add_pane(self, name: str, pane: QWidget) -> None:
        """Take in a pane, and show it if it is the one that is chosen."""
        self._panes[name] = pane
        pane.setAccessibleName(self._tabs[name].text())
        self.stack.addWidget(pane)
        if name == self.tab:
            self.stack.setCurrentWidget(pane)

    def tab_button(self, name: str) -> TabButton:
        """The button that shows a pane."""
        return self._tabs[name]

    def show_tab(self, name: str) -> None:
        """Show one of the panes; one that is not there yet is shown when it is added."""
        self.tab = name
        self._tabs[name].setChecked(True)
        if pane := self._panes.get(name):
            self.stack.setCurrentWidget(pane)

    def fit(self) -> None:
        """Arrange title, tabs and end for this width; to be called when they have become others."""
        ends = [item.widget() for place in range(self.end.count()) if (item := self.end.itemAt(place))]
        parts = [self._head, self._tab_row, *filter(None, ends)]
        margins = self.bar.contentsMargins()
        needed = sum(part.sizeHint().width() + self.bar.horizontalSpacing() for part in parts)
        if needed + margins.left() + margins.right() <= self.width():
            self.bar.addWidget(self._tab_row, 0, 1)
        else:
            self.bar.addWidget(self._tab_row, 1, 0, 1, 3)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """One line or two."""
        super().resizeEvent(event)
        self.fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Escape goes back to the chat."""
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def _fill_bar(self, appearance: Appearance, title: str) -> None:
        back = IconButton(appearance, "chevron-left", text.BACK_TO_CHAT, parent=self._head)
        back.clicked.connect(self.left)
        words = QLabel(title, self._head)
        words.setObjectName("sidebarTitle")
        head, tabs = _row(self._head), _row(self._tab_row)
        head.addWidget(back)
        head.addWidget(words)
        head.addSpacing(16)
        group = QButtonGroup(self)
        for name, tab in self._tabs.items():
            tab.clicked.connect(lambda _=False, name=name: self.show_tab(name))
            group.addButton(tab)
            tabs.addWidget(tab)
        tabs.addStretch(1)
        self.bar.setContentsMargins(8, 6, 8, 10)
        self.bar.setSpacing(4)
        self.bar.addWidget(self._head, 0, 0)
        self.bar.addWidget(self._tab_row, 0, 1)
        self.bar.addLayout(self.end, 0, 2)
        self.bar.setColumnStretch(2, 1)


def _row(parent: QWidget) -> QHBoxLayout:
    row = QHBoxLayout(parent)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(4)
    return row
