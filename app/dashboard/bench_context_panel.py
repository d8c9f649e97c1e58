"""How long a context fits with the model on show, and buttons that set it."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QGridLayout, QPushButton, QWidget

from app.dashboard.bench_context import NAMES, SafeContext
from app.dashboard.bench_context_view_model import ContextViewModel
from app.dashboard.pane import Panel
from app.widgets.plain_label import plain_label

TITLE = "Largest safe context"
USE, USED = "Use", "In use"
ABOUT = "{name} opens again with what you choose, which is then set for it on the models page too."


class ContextPanel(Panel):
    """Shows a ContextViewModel; hidden while there is nothing to choose."""

    def __init__(self, contexts: ContextViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.contexts = contexts
        self.about = plain_label("", "muted", self)
        self.lines = {kv_cache: plain_label(parent=self) for kv_cache in NAMES}
        self.buttons = {kv_cache: QPushButton(USE, self) for kv_cache in NAMES}
        grid = QGridLayout()
        grid.setColumnStretch(0, 1)
        for row, kv_cache in enumerate(NAMES):
            grid.addWidget(self.lines[kv_cache], row, 0)
            grid.addWidget(self.buttons[kv_cache], row, 1)
            self.buttons[kv_cache].clicked.connect(lambda _=False, of=kv_cache: self._apply(of))
        self.column.addWidget(plain_label(TITLE, "strong", self))
        self.column.addLayout(grid)
        self.column.addWidget(self.about)
        contexts.changed.connect(self.refresh)
        self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Show what is known now."""
        choices = self._choices
        self.setVisible(bool(choices))
        self.about.setText(ABOUT.format(name=self.contexts.name))
        for kv_cache, line in self.lines.items():
            choice = choices.get(kv_cache)
            button = self.buttons[kv_cache]
            line.setVisible(choice is not None)
            button.setVisible(choice is not None)
            if choice is not None:
                is_used = self.contexts.is_used(choice)
                line.setText(choice.words)
                button.setText(USED if is_used else USE)
                button.setAccessibleName(f"{button.text()}: {choice.words}")
                button.setEnabled(not is_used)

    @property
    def _choices(self) -> dict[str, SafeContext]:
        return {choice.kv_cache: choice for choice in self.contexts.choices}

    def _apply(self, kv_cache: str) -> None:
        self.contexts.apply(self._choices[kv_cache])
