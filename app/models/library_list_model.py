"""The rows of the library, for Qt's list view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, Qt, Signal

from app import text
from app.library.library import real_place
from app.library.records import Model
from app.models.known_model import ModelState
from app.models.library_view_model import Shelf
from app.models.model_words import fit_words, joined, model_details, model_line
from app.widgets.index import Index

MODEL_ROLE = Qt.ItemDataRole.UserRole + 1
"""The library's Model of a row."""


class LibraryListModel(QAbstractListModel):
    """Shows a shelf, with what the engine says. An edited name is a wish: `renamed(key, name)`."""

    renamed = Signal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self._shelf = Shelf()
        self._rows: Sequence[Model] = ()
        self._words = ""
        self._places: dict[str, str] = {}
        self._states: dict[str, ModelState] = {}
        self._updates: Set[str] = frozenset()

    def show_shelf(self, shelf: Shelf) -> None:
        """Replace the rows; where only their content changed, views keep their place."""
        self._shelf = shelf
        self._refill()

    def filter(self, words: str) -> None:
        """Show only models whose name, family or origin contains each of the words."""
        self._words = words
        self._refill()

    def show_states(self, states: Mapping[str, ModelState]) -> None:
        """Show what the engine has loaded, or is loading; `states` by the path that it knows each by."""
        # Asking the disk for each bit of progress would be too much.
        self._places = {path: self._places.get(path) or str(real_place(Path(path))) for path in states}
        before = self._states
        self._states = {self._places[path]: state for path, state in states.items()}
        for place, model in enumerate(self._rows):
            if before.get(str(model.path)) != self._states.get(str(model.path)):
                self.dataChanged.emit(self.index(place), self.index(place))

    def show_updates(self, keys: Set[str]) -> None:
        """Mark the models that the Hub has a newer commit of."""
        self._updates = keys
        self._tell_all()

    def model(self, index: Index) -> Model:
        """The model at `index`."""
        return self._rows[index.row()]

    def index_of(self, key: str) -> QModelIndex:
        """Where the model stands; an invalid index when it does not."""
        for place, model in enumerate(self._rows):
            if model.key == key:
                return self.index(place)
        return QModelIndex()

    def open_state(self, model: Model) -> ModelState | None:
        """How the engine has it, is loading it, or would for the next request; None where it does not."""
        state = self._states.get(str(model.path))
        return state if state and state.phase in ("loading", "ready", "resting") else None

    def has_update(self, model: Model) -> bool:
        """Whether the Hub has a newer commit of it."""
        return model.key in self._updates

    def button_words(self, model: Model) -> str:
        """What can be done with it at once; "" where nothing can."""
        if state := self.open_state(model):
            return text.UNLOAD if state.phase in ("ready", "resting") else ""
        return text.OPEN if model.is_runnable else ""

    def label(self, model: Model) -> str:
        """What the engine or the memory says of it, in one or two words."""
        if state := self.open_state(model):
            words = {"ready": "Loaded", "resting": "Resting"}
            return words.get(state.phase, f"Loading {state.progress:.0%}")
        if model.state != "here":
            return "Gone" if model.state == "gone" else "Damaged"
        if model.facts.problem:
            return "Does not run here"
        if self.has_update(model):
            return "Update available"
        fit = self._shelf.fits.get(model.key)
        return fit_words(fit) if fit else ""

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008 (Qt's signature)
        """How many rows there are."""
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Name of a row, and words about it."""
        model = self._rows[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.EditRole:
                return model.name
            case Qt.ItemDataRole.ToolTipRole:
                return text.untagged(model_details(model, self._shelf.fits.get(model.key)))
            case Qt.ItemDataRole.AccessibleTextRole:
                favourite = "favourite" if model.favourite else ""
                return joined(model.name, favourite, self.label(model), model_line(model))
            case _ if role == MODEL_ROLE:
                return model
            case _:
                return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:  # noqa: N802
        """Wish for another name."""
        self.renamed.emit(self._rows[index.row()].key, str(value))
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Rows can be selected, and their names edited but for the guide's."""
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        if self._rows[index.row()].source == "built in":
            return flags
        return flags | Qt.ItemFlag.ItemIsEditable

    def _refill(self) -> None:
        wanted = self._words.casefold().split()
        rows = [model for model in self._shelf.models if _matches(model, wanted)]
        if [model.key for model in rows] == [model.key for model in self._rows]:
            self._rows = rows
            self._tell_all()
            return
        self.beginResetModel()
        self._rows = rows
        self.endResetModel()

    def _tell_all(self) -> None:
        if self._rows:
            self.dataChanged.emit(self.index(0), self.index(len(self._rows) - 1))


def _matches(model: Model, wanted: Sequence[str]) -> bool:
    told = f"{model.name} {model.facts.family} {model.origin} {model.source}".casefold()
    return all(word in told for word in wanted)
