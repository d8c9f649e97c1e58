"""My models: the library's list with a filter, and what to do while it is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.appearance import Appearance
from app.library.records import LeftOut, Model
from app.models.add_button import AddButton
from app.models.left_out_dialog import LeftOutDialog
from app.models.library_row import HEIGHT
from app.models.library_view import LibraryView
from app.models.library_view_model import LibraryViewModel
from app.models.model_settings_dialog import ModelSettingsDialog
from app.models.model_words import shelf_words
from app.models.models_view_model import ModelsViewModel
from app.models.removal_dialog import RemovalDialog
from app.models.updates_view_model import UpdatesViewModel
from app.widgets.button_menu import give_menu
from app.widgets.icon_button import IconButton
from app.widgets.link_button import link_button
from app.widgets.list_entry import enter_list
from app.widgets.plain_label import plain_label
from app.widgets.search_field import SearchField

if TYPE_CHECKING:
    from app.library.removal import Removal

QWIDGETSIZE_MAX = (1 << 24) - 1
FILTER = "Filter by name, family or place"
AGAIN = "Look again"
SCAN = "Look through all places again"
UPDATES = "Look for updates on the Hub"
PLANNING = "Finding out what that frees…"
LEFT_OUT = "Show them"
LOOKING = "Looking through your models…"
LOOKING_AT = "Looking at models: {done:,} of {total:,}"
FEW = 3
"""Models from which on nobody needs to be told how to get some."""

INVITATION_WIDTH = 480
INVITATION = (
    "Models that other apps keep in the Hugging Face cache, in LM Studio's or in Ollama's folders are listed "
    "here by themselves. Drop a folder or a .gguf file here to add yours, or get one from the Hub."
)
DISCOVER = "Discover models"
NOTHING_FOUND = "No model here has these words."


class LibraryPane(QWidget):
    """Shows a LibraryViewModel.

    Intents: `opened(path)`, and `discover_wanted` where there is little. `outdated(Model)`: what was set for
    an open model holds in part when it is opened again.
    """

    opened = Signal(str)
    outdated = Signal(object)
    discover_wanted = Signal()

    def __init__(
        self,
        appearance: Appearance,
        library: LibraryViewModel,
        models: ModelsViewModel,
        updates: UpdatesViewModel,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._appearance = appearance
        self._library = library
        self._models = models
        self._updates = updates
        self._filter = SearchField(appearance, FILTER)
        self._again = IconButton(appearance, "again", AGAIN)
        self._again.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._add = AddButton(appearance)
        self._list = LibraryView(appearance)
        self._invitation = QWidget()
        self._note = plain_label("", "muted")
        self.left_out = link_button(LEFT_OUT)
        self.left_out.clicked.connect(self._show_left_out)
        self._arrange()
        self._connect()
        self._list.show_states(models.states)
        self._show()

    @property
    def list(self) -> LibraryView:
        """The list of models."""
        return self._list

    @property
    def filter_field(self) -> SearchField:
        """Where words are typed that a model is to have."""
        return self._filter

    @property
    def note(self) -> str:
        """What it says under the list."""
        return self._note.text() if not self._note.isHidden() else ""

    def _arrange(self) -> None:
        top = QHBoxLayout()
        top.setContentsMargins(16, 0, 12, 8)
        top.setSpacing(4)
        top.addWidget(self._filter, 1)
        top.addWidget(self._add)
        top.addWidget(self._again)
        bottom = QHBoxLayout()
        bottom.setContentsMargins(20, 8, 20, 12)
        bottom.addWidget(self._note, 1)
        bottom.addWidget(self.left_out, 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(top)
        column.addWidget(self._list, 1)
        column.addWidget(self._make_invitation(), 1)
        column.addLayout(bottom)

    def _make_invitation(self) -> QWidget:
        words = QLabel(INVITATION)
        words.setObjectName("emptyText")
        words.setWordWrap(True)
        words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        words.setFixedWidth(INVITATION_WIDTH)
        discover = QPushButton(DISCOVER)
        discover.setProperty("kind", "primary")
        discover.clicked.connect(self.discover_wanted)
        column = QVBoxLayout(self._invitation)
        column.setContentsMargins(24, 40, 24, 24)
        column.setSpacing(16)
        row = QHBoxLayout()  # alone in the column its height would be that of the column's whole width
        row.addStretch(1)
        row.addWidget(words)
        row.addStretch(1)
        column.addLayout(row)
        column.addWidget(discover, 0, Qt.AlignmentFlag.AlignCenter)
        column.addStretch(1)
        return self._invitation

    def _connect(self) -> None:
        self._filter.entered.connect(lambda: enter_list(self._list))
        self._filter.textChanged.connect(self._list.rows.filter)
        self._filter.textChanged.connect(self._show)
        again = QMenu(self._again)
        again.addAction(SCAN).triggered.connect(lambda: self._library.scan(again=True))
        again.addAction(UPDATES).triggered.connect(self._look_for_updates)
        give_menu(self._again, again)
        self._add.place_chosen.connect(self._library.take_in)
        self._list.update_looked_for.connect(self._updates.look)
        self._list.update_wanted.connect(self._updates.update)
        self._list.settings_wanted.connect(self.show_settings)
        self._updates.changed.connect(self._show)
        self._list.opened.connect(self.opened)
        self._list.unloaded.connect(self._models.unload)
        self._list.renamed.connect(self._rename)
        self._list.favoured.connect(lambda model, favour: self._library.set_favourite(model, favour))
        self._list.removal_wanted.connect(self._plan_removal)
        self._models.states_changed.connect(self._list.show_states)
        self._library.changed.connect(self._show)
        self._library.scanning.connect(self._show_scan)
        self._library.scanned.connect(self._show)
        self._library.failed.connect(self._show)
        self._library.removal_planned.connect(self._confirm)
        self._library.chosen.connect(self._take_own)

    @Slot(str, str)
    def _rename(self, key: str, name: str) -> None:
        model = self._library.find(key)
        if model:
            self._library.rename(model, name)

    @Slot(object, bool)
    def _plan_removal(self, model: Model, files: bool) -> None:
        self._say(PLANNING)  # a large cache takes a moment
        self._library.plan_removal(model, files=files)

    @Slot()
    def _look_for_updates(self) -> None:
        self._updates.look_at_all(self._library.shelf.models)

    def show_settings(self, model: Model, field: str = "") -> None:
        """Open the settings of a model, with the cursor in one of the fields."""
        dialog = ModelSettingsDialog(self._appearance, model, self._library.shelf.models, self)
        dialog.saved.connect(lambda changes: self._library.save_settings(model, changes))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()
        if field:
            dialog.field(field).setFocus()
            dialog.field(field).selectAll()

    @Slot(object)
    def _take_own(self, model: Model) -> None:
        state = self._list.rows.open_state(model)
        if state and self._models.take_own(state.path, model.settings):
            self.outdated.emit(model)

    @Slot()
    def _show_left_out(self) -> None:
        dialog = LeftOutDialog(self._library.shelf.left_out, self)
        dialog.removal_wanted.connect(self._plan_leftover_removal)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    @Slot(object)
    def _plan_leftover_removal(self, left: LeftOut) -> None:
        self._say(PLANNING)
        self._library.plan_leftover_removal(left)

    @Slot(object)
    def _confirm(self, removal: Removal) -> None:
        """Ask before files go; what is only taken off the list can be brought back."""
        if not removal.deletes:
            self._library.remove(removal)
            return
        dialog = RemovalDialog(removal, self)
        dialog.accepted.connect(lambda: self._delete(removal))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def _delete(self, removal: Removal) -> None:
        if state := self._list.rows.open_state(removal.model):
            self._models.unload(state.path)
        self._library.remove(removal)

    @Slot(int, int)
    def _show_scan(self, done: int, total: int) -> None:
        self._say(LOOKING_AT.format(done=done + 1, total=total) if done < total else LOOKING)

    @Slot()
    def _show(self) -> None:
        shelf = self._library.shelf
        self._list.show_shelf(shelf)
        self._list.rows.show_updates(self._updates.newer(shelf.models))
        self.left_out.setVisible(bool(shelf.left_out))
        self._invite(bool(shelf.models) and len(shelf.models) < FEW)
        if self._library.is_scanning:
            return
        shown = self._list.rows.rowCount()
        if shelf.models and not shown:
            self._say(NOTHING_FOUND)
            return
        lines = [shelf_words(shelf), *self._library.notes]
        self._say("\n".join(line for line in lines if line))

    def _invite(self, invited: bool) -> None:
        """Say right under a short list how to get more models."""
        self._invitation.setVisible(invited)
        rows = self._list.rows.rowCount()
        self._list.setMaximumHeight(rows * HEIGHT + 4 if invited else QWIDGETSIZE_MAX)

    def _say(self, words: str) -> None:
        self._note.setText(words)
        self._note.setVisible(bool(words))
