"""The button that adds folders and files to the library."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QFileDialog, QMenu, QToolButton, QWidget

from app.appearance import Appearance
from app.widgets.button_menu import give_menu
from app.widgets.icon_button import IconButton

ADD = "Add models that lie elsewhere"
ADD_FOLDER = "Add a folder…"
ADD_FILE = "Add a GGUF file…"


class AddButton(IconButton):
    """Opens a menu. Intent: `place_chosen(path)`."""

    place_chosen = Signal(str)

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(appearance, "plus", ADD, parent=parent)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        menu.addAction(ADD_FOLDER).triggered.connect(self._choose_folder)
        menu.addAction(ADD_FILE).triggered.connect(self._choose_file)
        give_menu(self, menu)

    @Slot()
    def _choose_folder(self) -> None:
        self._tell(QFileDialog.getExistingDirectory(self, ADD_FOLDER.rstrip("…")))

    @Slot()
    def _choose_file(self) -> None:
        self._tell(QFileDialog.getOpenFileName(self, ADD_FILE.rstrip("…"), "", "GGUF (*.gguf)")[0])

    def _tell(self, path: str) -> None:
        if path:
            self.place_chosen.emit(path)
