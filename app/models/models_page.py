"""The models page: my models, what there is to discover, and the downloads under both."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMimeData, Signal, Slot
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app import text
from app.appearance import Appearance
from app.models.discover_pane import DiscoverPane
from app.models.downloads_strip import DownloadsStrip
from app.models.library_pane import LibraryPane
from app.models.model_choice import model_at
from app.widgets.banner import Banner
from app.widgets.icon_button import IconButton
from app.widgets.tabbed_page import TabbedPage
from app.widgets.toast import Toast

LIBRARY, DISCOVER = "library", "discover"
SIDE = 16
DOWNLOADS_SHARE = 0.3


class ModelsPage(TabbedPage):
    """Holds the panes. Intents: `left` to go back to the chat, `opened(path)` from anywhere on it,
    `token_wanted`, and `dropped(path)` for each folder or file that was dropped on it."""

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
        tabs = {LIBRARY: text.MY_MODELS, DISCOVER: text.DISCOVER}
        super().__init__(appearance, text.MODELS_PAGE, tabs, parent)
        self.setObjectName("modelsPage")
        self.setAcceptDrops(True)
        self.library, self.discover, self.downloads = library, discover, downloads
        self.banner = Banner(appearance, "danger")
        token = IconButton(appearance, "key", text.TOKEN, parent=self)
        token.clicked.connect(self.token_wanted)
        self.end.addStretch(1)
        self.end.addWidget(token)
        banners = QVBoxLayout()
        banners.setContentsMargins(SIDE, 0, SIDE, 8)
        banners.addWidget(self.banner)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self.bar)
        column.addLayout(banners)
        column.addLayout(self.stack, 1)
        column.addWidget(downloads)
        self.add_pane(LIBRARY, library)  # not before: the stack shows it, as a window of its own
        self.add_pane(DISCOVER, discover)
        self.toast = Toast(self)
        for pane in (library, discover, downloads):
            pane.opened.connect(self.opened)
        library.discover_wanted.connect(lambda: self.show_tab(DISCOVER))
        discover.token_wanted.connect(self.token_wanted)
        self.show_tab(LIBRARY)

    def show_tab(self, name: str) -> None:
        """Show one of the panes, with the cursor in its field."""
        super().show_tab(name)
        field = self.library.filter_field if name == LIBRARY else self.discover.search_field
        field.setFocus()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """The downloads take a part of the height, however many there are."""
        super().resizeEvent(event)
        self.downloads.set_room(round(DOWNLOADS_SHARE * self.height()))

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


def _places(data: QMimeData) -> list[str]:
    """The folders and GGUF files that are being dragged; of a split model the first part stands for all."""
    models = (model_at(Path(url.toLocalFile())) for url in data.urls() if url.isLocalFile())
    return list(dict.fromkeys(str(model) for model in models if model))
