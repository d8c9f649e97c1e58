"""The model's name over the conversation, and the menu that opens another one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QMenu, QWidget

from app import text
from app.appearance import Appearance
from app.icons import icon
from app.model_location import model_title
from app.models.known_model import ModelState
from app.widgets.button_menu import give_menu
from app.widgets.menu_button import MenuButton


class ModelButton(MenuButton):
    """Names the model. Intents: `chosen(path)`, `files_wanted`, `folders_wanted` and `page_wanted`."""

    chosen = Signal(str)
    page_wanted = Signal()
    files_wanted = Signal()
    folders_wanted = Signal()

    def __init__(self, appearance: Appearance, guide: str, parent: QWidget | None = None) -> None:
        super().__init__(appearance, 16, parent)
        self._appearance = appearance
        self._guide = guide
        self._current = ""
        self._recent: tuple[str, ...] = ()
        self.setObjectName("modelButton")
        self._menu = QMenu(self)
        self._menu.aboutToShow.connect(self._fill)
        give_menu(self, self._menu)
        self.show_state(ModelState())

    def show_state(self, state: ModelState) -> None:
        """Name the model, and how far it is loaded."""
        self._current = state.path
        name = text.model_title(state.name, state.path == self._guide)
        if state.phase == "loading":
            name = f"{name}  {state.progress:.0%}"
        self.setText(text.unmarked(name))
        self.setToolTip(text.untagged(state.path))
        self.setAccessibleName(f"Model: {name}")

    def show_recent(self, paths: Sequence[str]) -> None:
        """The models to offer."""
        self._recent = tuple(paths)

    def open_menu(self) -> None:
        """Open the menu of models for the keys."""
        self._menu.popup(self.mapToGlobal(self.rect().bottomLeft()))
        self._menu.setActiveAction(self._menu.actions()[0])

    @Slot()
    def _fill(self) -> None:
        self._menu.clear()
        self._offer(text.GUIDE_NAME, self._guide)
        if self._recent:
            self._menu.addSeparator()
            self._menu.addAction(text.RECENT_MODELS).setEnabled(False)
        for path in self._recent:
            self._offer(model_title(Path(path)), path)
        self._menu.addSeparator()
        for words, name, wanted in (
            (text.MANAGE_MODELS, "models", self.page_wanted),
            (text.OPEN_MODEL, "file", self.files_wanted),
            (text.OPEN_FOLDER, "folder", self.folders_wanted),
        ):
            action = self._menu.addAction(icon(name, self._appearance.theme.text), words)
            action.triggered.connect(wanted)

    def _offer(self, name: str, path: str) -> None:
        action = self._menu.addAction(text.unmarked(name))
        action.setToolTip(text.untagged(path))
        action.setCheckable(True)
        action.setChecked(path == self._current)
        action.triggered.connect(lambda: self.chosen.emit(path))
