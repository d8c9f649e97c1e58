"""The main window: the list of chats beside the conversation, and the actions that keys and menus reach."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QMimeData, QSize, Signal, Slot
from PySide6.QtGui import QAction, QCloseEvent, QDragEnterEvent, QDropEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QMainWindow, QStackedWidget, QWidget

from app import text
from app.chat.chat_pane import ChatPane
from app.chat.sidebar import Sidebar
from app.models.model_choice import FILES, model_at
from app.shortcuts import SHORTCUTS
from app.store.chat_file import SUFFIX as CHAT_FILE
from app.widgets.toast import Toast

SIZE = (1080, 720)
SMALLEST = (560, 420)
TITLE_BAR = 40
"""Pixels that a system's frame takes of the screen's height."""
MENUS = (
    ("File", ("new_chat", "open_model", "models", "settings", "quit")),
    ("Chat", ("stop", "search")),
    ("View", ("toggle_sidebar", "dashboard")),
)
ROOM_FOR_SIDEBAR = 760
"""In a narrower window the list of chats is hidden until it is asked for."""


class MainWindow(QMainWindow):
    """Holds the sidebar and the chat pane.

    Intents: `model_chosen(path)`, `chat_file_dropped(path)` and, once, `closed`.
    """

    model_chosen = Signal(str)
    chat_file_dropped = Signal(str)
    closed = Signal()

    def __init__(self, sidebar: Sidebar, pane: ChatPane) -> None:
        super().__init__()
        self.setWindowTitle(text.APP_NAME)
        self.setAcceptDrops(True)
        self.setMinimumSize(*SMALLEST)
        self.sidebar = sidebar
        self.pane = pane
        self._was_wide = True
        central = QWidget()
        row = QHBoxLayout(central)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(sidebar)
        row.addWidget(pane, 1)
        self._chat = central
        self._pages = QStackedWidget()
        self._pages.addWidget(central)
        self.setCentralWidget(self._pages)
        self.toast = Toast(pane, pane.composer)
        room = self.screen().availableSize()
        self.resize(QSize(*SIZE).boundedTo(QSize(room.width(), room.height() - TITLE_BAR)))
        pane.composer.setFocus()

    def bind(self, intents: dict[str, Callable[[], object]]) -> dict[str, QAction]:
        """Make an action of each shortcut that has an intent; returns them by name.

        Keys that a message field handles itself ("send", "line_break", "send_edit") are in no `intents`.
        """
        actions: dict[str, QAction] = {}
        for shortcut in SHORTCUTS:
            if shortcut.action not in intents:
                continue
            action = QAction(shortcut.does[0].upper() + shortcut.does[1:], self)
            action.setShortcut(QKeySequence(shortcut.keys))
            action.triggered.connect(lambda _=False, intent=intents[shortcut.action]: intent())
            self.addAction(action)
            actions[shortcut.action] = action
        if sys.platform == "darwin":
            self.fill_menu_bar(actions)
        return actions

    def fill_menu_bar(self, actions: Mapping[str, QAction]) -> None:
        """The menu bar that people look for on a Mac; elsewhere the window does without."""
        for title, names in MENUS:
            menu = self.menuBar().addMenu(title)
            menu.addActions([actions[name] for name in names if name in actions])
        actions["settings"].setMenuRole(QAction.MenuRole.PreferencesRole)
        actions["quit"].setMenuRole(QAction.MenuRole.QuitRole)

    def add_help(self, actions: Sequence[QAction]) -> None:
        """What a Help menu holds; only a Mac has a menu bar."""
        if sys.platform == "darwin":
            self.fill_help_menu(actions)

    def fill_help_menu(self, actions: Sequence[QAction]) -> None:
        """The last menu; macOS moves About and the like under the app's name by their roles."""
        self.menuBar().addMenu("Help").addActions(list(actions))

    def show_page(self, page: QWidget) -> None:
        """Show `page` in the place of the chats."""
        if self._pages.indexOf(page) < 0:
            self._pages.addWidget(page)
        self._pages.setCurrentWidget(page)

    def is_shown(self, page: QWidget) -> bool:
        """Whether `page` is on show in the place of the chats."""
        return self._pages.currentWidget() is page

    @Slot()
    def show_chat(self) -> None:
        """Show the chats again."""
        if not self.is_chat_shown:
            self._pages.setCurrentWidget(self._chat)
            self.pane.composer.setFocus()

    @property
    def is_chat_shown(self) -> bool:
        """Whether the chats are on show, and not a page in their place."""
        return self._pages.currentWidget() is self._chat

    def come_forward(self) -> None:
        """Be before other windows, as far as the system lets a program do that."""
        if self.isMinimized():
            self.showNormal()
        self.raise_()
        self.activateWindow()

    def show_title(self, chat_title: str) -> None:
        """Name the chat that is open in the title bar."""
        self.setWindowTitle(f"{chat_title} – {text.APP_NAME}" if chat_title else text.APP_NAME)

    @Slot()
    def toggle_sidebar(self) -> None:
        """Show or hide the list of chats."""
        self.show_chat()
        self._show_sidebar(self.sidebar.isHidden())

    @Slot()
    def search(self) -> None:
        """Show the list of chats and put the cursor into its search field."""
        self.show_chat()
        self.sidebar.show()
        self.sidebar.focus_search()

    @Slot()
    def browse_files(self) -> None:
        """Let the user choose a model's file, or any file in a model's folder."""
        names = f"{text.MODELS} ({' '.join(FILES)})"
        path, _ = QFileDialog.getOpenFileName(self, text.OPEN_MODEL.rstrip("…"), "", names)
        self._open(path)

    @Slot()
    def browse_folders(self) -> None:
        """Let the user choose a model's folder."""
        self._open(QFileDialog.getExistingDirectory(self, text.OPEN_FOLDER.rstrip("…")))

    def _open(self, chosen: str) -> None:
        model = model_at(Path(chosen)) if chosen else None
        if model:
            self.model_chosen.emit(str(model))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Hide the sidebar when the window becomes narrow, show it when it becomes wide."""
        super().resizeEvent(event)
        wide = self.width() >= ROOM_FOR_SIDEBAR
        if wide != self._was_wide:
            self._was_wide = wide
            self._show_sidebar(wide)

    def _show_sidebar(self, shown: bool) -> None:
        if not shown and self.sidebar.isAncestorOf(self.focusWidget() or self):
            self.pane.composer.setFocus()  # hidden, it would hand the keys to the next button
        self.sidebar.setVisible(shown)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 (Qt's name)
        """A model, or chats that were saved as files, may be dropped anywhere."""
        if _model(event.mimeData()) or _chat_files(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 (Qt's name)
        """Open the model, or take in the chats."""
        model = _model(event.mimeData())
        if model:
            event.acceptProposedAction()
            self.model_chosen.emit(str(model))
        for path in _chat_files(event.mimeData()):
            event.acceptProposedAction()
            self.chat_file_dropped.emit(path)

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802 (Qt's name)
        """Closing the window ends the app."""
        super().closeEvent(event)
        self.closed.emit()


def _model(data: QMimeData) -> Path | None:
    """The model that is being dragged: one, though perhaps by several of its parts; None for other things."""
    models = {model_at(Path(url.toLocalFile())) if url.isLocalFile() else None for url in data.urls()}
    return models.pop() if len(models) == 1 else None


def _chat_files(data: QMimeData) -> list[str]:
    """The chats among the files that are being dragged."""
    paths = (url.toLocalFile() for url in data.urls() if url.isLocalFile())
    return [path for path in paths if path.lower().endswith(CHAT_FILE)]
