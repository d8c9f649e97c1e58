"""The library as a list: open, unload, rename in place, favourite, delete."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QModelIndex, QPoint, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QMenu, QWidget

from app import text
from app.appearance import Appearance
from app.icons import icon
from app.library.records import Model
from app.library.updates import can_be_newer
from app.models.known_model import ModelState
from app.models.library_list_model import LibraryListModel
from app.models.library_row import LibraryRow
from app.models.library_view_model import Shelf
from app.widgets.row_list import RowList

FORGET = "Take off the list"
DELETE = "Delete…"
DELETE_FILES = "Delete its files…"
LOOK_FOR_UPDATE = "Look for an update"
SETTINGS = "Settings…"
UPDATE = "Update"
SHOW_FOLDER = "Show in its folder"


class LibraryView(RowList):
    """Shows the models.

    Intents: `opened(path)`, `unloaded(path)`, `renamed(key, name)`, `favoured(Model, whether)`, and
    `removal_wanted(Model, whether files that the user brought go too)`, `update_looked_for(Model)`,
    `update_wanted(Model)`, and `settings_wanted(Model)`.
    """

    opened = Signal(str)
    unloaded = Signal(str)
    renamed = Signal(str, str)
    favoured = Signal(object, bool)
    removal_wanted = Signal(object, bool)
    update_looked_for = Signal(object)
    update_wanted = Signal(object)
    settings_wanted = Signal(object)

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent, menu_at=QPoint(40, 8))
        self.setObjectName("modelList")
        self.setAccessibleName(text.MY_MODELS)
        self._appearance = appearance
        self._rows = LibraryListModel()
        row = LibraryRow(appearance, self._rows, self)
        self.setModel(self._rows)
        self.setItemDelegate(row)
        self.setUniformItemSizes(True)
        self.doubleClicked.connect(self.open_row)
        row.opened.connect(lambda index: self._press(self._rows.model(index)))
        row.more_wanted.connect(self.show_menu_at)
        self._rows.renamed.connect(self.renamed)
        appearance.changed.connect(self.viewport().update)

    @property
    def rows(self) -> LibraryListModel:
        """What it shows."""
        return self._rows

    def show_shelf(self, shelf: Shelf) -> None:
        """Replace what the list shows; the row that was current stays so."""
        self.when_named(lambda: self._show_shelf(shelf))

    def _show_shelf(self, shelf: Shelf) -> None:
        index = self.currentIndex()
        key = self._rows.model(index).key if index.isValid() else ""
        self._rows.show_shelf(shelf)
        self.setCurrentIndex(self._rows.index_of(key))

    @Slot(object)
    def show_states(self, states: Mapping[str, ModelState]) -> None:
        """Show what the engine has loaded, or is loading, by path."""
        self._rows.show_states(states)

    def names(self) -> list[str]:
        """The names on show, from the top."""
        return [self._rows.index(place).data() for place in range(self._rows.rowCount())]

    def menu_for(self, index: QModelIndex) -> QMenu:
        """What can be done with the model at `index`."""
        model = self._rows.model(index)
        colour = self._appearance.theme.text
        menu = QMenu(self)
        if words := self._rows.button_words(model):
            act = menu.addAction(icon("unload" if self._rows.open_state(model) else "play", colour), words)
            act.triggered.connect(lambda: self._press(model))
            menu.addSeparator()
        if model.source != "built in":
            rename = menu.addAction(icon("rename", colour), "Rename")
            rename.triggered.connect(lambda: self.type_name(self._rows.index_of(model.key)))
        favour = menu.addAction(
            icon("star-full" if model.favourite else "star", colour),
            "No favourite any more" if model.favourite else "Favourite",
        )
        favour.triggered.connect(lambda: self.favoured.emit(model, not model.favourite))
        settings = menu.addAction(icon("settings", colour), SETTINGS)
        settings.triggered.connect(lambda: self.settings_wanted.emit(model))
        if can_be_newer(model):
            has_newer = self._rows.has_update(model)
            update = menu.addAction(icon("download", colour), UPDATE if has_newer else LOOK_FOR_UPDATE)
            wanted = self.update_wanted if has_newer else self.update_looked_for
            update.triggered.connect(lambda: wanted.emit(model))
        if model.state == "here":
            show = menu.addAction(icon("folder", colour), SHOW_FOLDER)
            show.triggered.connect(lambda: _show_folder(model))
        for words, files in _removals(model):
            remove = menu.addAction(icon("trash" if words != FORGET else "close", colour), words)
            remove.triggered.connect(lambda _=False, files=files: self.removal_wanted.emit(model, files))
        return menu

    def delete_row(self, index: QModelIndex) -> None:
        """Ask to be rid of the model, in the usual way."""
        model = self._rows.model(index)
        for _, files in _removals(model)[:1]:
            self.removal_wanted.emit(model, files)

    @Slot(QModelIndex)
    def open_row(self, index: QModelIndex) -> None:
        """Open the model, where that can be."""
        self._open(self._rows.model(index))

    def _open(self, model: Model) -> None:
        if self._rows.button_words(model) == text.OPEN:
            self.opened.emit(str(model.path))

    def _press(self, model: Model) -> None:
        if state := self._rows.open_state(model):
            self.unloaded.emit(state.path)
        else:
            self._open(model)


def _removals(model: Model) -> list[tuple[str, bool]]:
    """Ways to be rid of a model, the usual one first: words, and whether the user's own files go."""
    if model.source == "built in":
        return []
    if model.source == "hugging face" and model.state != "gone":
        return [(DELETE, False)]
    own = model.source == "folder" and model.state != "gone"
    return [(FORGET, False), *([(DELETE_FILES, True)] if own else [])]


def _show_folder(model: Model) -> None:
    folder = model.path if model.path.is_dir() else model.path.parent
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
