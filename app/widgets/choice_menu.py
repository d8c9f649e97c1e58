"""One of several choices, behind a button that names the one that holds."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QMenu, QWidget

from app.appearance import Appearance
from app.widgets.button_menu import give_menu
from app.widgets.menu_button import MenuButton


class ChoiceMenu(MenuButton):
    """A button with a menu of `choices`, pairs of name and words: `chosen(name)`."""

    chosen = Signal(str)

    def __init__(
        self,
        appearance: Appearance,
        label: str,
        choices: Sequence[tuple[str, str]],
        current: str,
        parent: QWidget | None = None,
    ) -> None:
        """`label` says what is chosen; `current` is the name of the choice that holds."""
        super().__init__(appearance, 14, parent)
        self._label = label
        self._words = dict(choices)
        self._current = current
        self.setProperty("kind", "choice")
        menu = QMenu(self)
        group = QActionGroup(self)
        for name, words in choices:
            action = menu.addAction(words)
            action.setCheckable(True)
            action.setChecked(name == current)
            action.triggered.connect(lambda _=False, name=name: self._choose(name))
            group.addAction(action)
        give_menu(self, menu)
        self._show()

    @property
    def current(self) -> str:
        """The name of the choice that holds."""
        return self._current

    def choose(self, name: str) -> None:
        """Let another choice hold, as if it was chosen in the menu. Raises KeyError for one there is not."""
        words = self._words[name]
        next(action for action in self.menu().actions() if action.text() == words).trigger()

    def _choose(self, name: str) -> None:
        if name != self._current:
            self._current = name
            self._show()
            self.chosen.emit(name)

    def _show(self) -> None:
        words = self._words[self._current]
        self.setText(words)
        self.setAccessibleName(f"{self._label}: {words}")
        self.setToolTip(self._label)
