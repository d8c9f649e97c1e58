"""The models page: my models, what there is to discover, and the downloads under both."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from PySide6.QtCore import QMimeData, Qt, Signal, Slot
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QKeyEvent, QResizeEvent
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
from app.models.discover_pane import DiscoverPane
from app.models.downloads_strip import DownloadsStrip
from app.models.library_pane import LibraryPane
from app.models.model_choice import model_at
from app.widgets.banner import Banner
from app.widgets.icon_button import IconButton
from app.widgets.toast import Toast

Tab = Literal["library", "discover"]
SIDE = 16
DOWNLOADS_SHARE = 0.3


class ModelsPage(QWidget):
    """Holds the panes. Intents: `left` to go back to the chat, `opened(path)` from anywhere on it,
    `token_wanted`, and `dropped(path)` for each folder or file that was dropped on it."""

    left = Signal()
    opened = Signal(str)
    token_wanted = Signal()
    dropped = Signal(str)

    def __init__(
        self,
        appearance: Appearance,
        library: LibraryPane,
        discover: DiscoverPane,
        downloads: DownloadsStrip,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("modelsPage")
        self.setAcceptDrops(True)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.library, self.discover, self.downloads = library, discover, downloads
        self.banner = Banner(appearance, "danger")
        self._tabs: dict[Tab, QToolButton] = {}
        self._panes: dict[Tab, QWidget] = {"library": library, "discover": discover}
        self._stack = QStackedLayout()
        banners = QVBoxLayout()
        banners.setContentsMargins(SIDE, 0, SIDE, 8)
        banners.addWidget(self.banner)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self._make_top_bar(appearance))
        column.addLayout(banners)
        column.addLayout(self._stack, 1)
        column.addWidget(downloads)
        for pane in (library, discover):  # not before: it shows the first one, as a window of its own
            self._stack.addWidget(pane)
        self.toast = Toast(self)
        for pane in (library, discover, downloads):
            pane.opened.connect(self.opened)
        library.discover_wanted.connect(lambda: self.show_tab("discover"))
        discover.token_wanted.connect(self.token_wanted)
        self.show_tab("library")

    @property
    def tab(self) -> Tab:
        """What is on show."""
        return "library" if self._stack.currentWidget() is self.library else "discover"

    def tab_button(self, tab: Tab) -> QToolButton:
        """The button that shows a pane."""
        return self._tabs[tab]

    def show_tab(self, tab: Tab) -> None:
        """Show one of the panes, with the cursor in its field."""
        self._tabs[tab].setChecked(True)
        self._stack.setCurrentWidget(self._panes[tab])
        field = self.library.filter_field if tab == "library" else self.discover.search_field
        field.setFocus()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """The downloads take a part of the height, however many there are."""
        super().resizeEvent(event)
        self.downloads.set_room(round(DOWNLOADS_SHARE * self.height()))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Escape goes back to the chat."""
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 (Qt's name)
        """Folders and GGUF files may be dropped anywhere."""
        if _places(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 (Qt's name)
        """List what is in them."""
        event.acceptProposedAction()
        for place in _places(event.mimeData()):
            self.dropped.emit(place)

    @Slot(str)
    def say_problem(self, words: str) -> None:
        """Say what could not be done."""
        self.banner.say(text.sentence(words))

    def _make_top_bar(self, appearance: Appearance) -> QHBoxLayout:
        back = IconButton(appearance, "chevron-left", text.BACK_TO_CHAT)
        back.clicked.connect(self.left)
        title = QLabel(text.MODELS_PAGE)
        title.setObjectName("sidebarTitle")
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 6, 8, 10)
        bar.setSpacing(4)
        bar.addWidget(back)
        bar.addWidget(title)
        bar.addSpacing(16)
        group = QButtonGroup(self)
        names: tuple[tuple[Tab, str], ...] = (("library", text.MY_MODELS), ("discover", text.DISCOVER))
        for tab, words in names:
            self._tabs[tab] = self._make_tab(tab, words)
            group.addButton(self._tabs[tab])
            bar.addWidget(self._tabs[tab])
        token = IconButton(appearance, "key", text.TOKEN)
        token.clicked.connect(self.token_wanted)
        bar.addStretch(1)
        bar.addWidget(token)
        return bar

    def _make_tab(self, tab: Tab, words: str) -> QToolButton:
        button = QToolButton()
        button.setText(words)
        button.setProperty("kind", "tab")
        button.setCheckable(True)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setCursor(Qt.CursorShape.PointingHandCursor)
        button.clicked.connect(lambda: self.show_tab(tab))
        return button


def _places(data: QMimeData) -> list[str]:
    """The folders and GGUF files that are being dragged; of a split model the first part stands for all."""
    models = (model_at(Path(url.toLocalFile())) for url in data.urls() if url.isLocalFile())
    return list(dict.fromkeys(str(model) for model in models if model))
