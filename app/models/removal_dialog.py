"""The question before a model's files are deleted: what that frees, what stays, what else is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QDialog, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.amounts import size
from app.widgets.plain_label import plain_label

if TYPE_CHECKING:
    from app.library.removal import Removal

TITLE = "Delete {name}?"
FREES = "{size} will be freed by deleting {path}."
STAYS = "{size} of it stay, since others need them."
LOSES = "Lost with it, since they are links to the same files: {names}."


class RemovalDialog(QDialog):
    """Asks; accepted when the answer is to delete. Cancelling is what Enter does."""

    def __init__(self, removal: Removal, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        title = TITLE.format(name=removal.model.name)
        self.setWindowTitle(title)
        self.setMinimumWidth(420)
        self.words = removal_words(removal)
        heading, words = plain_label(title, "heading"), plain_label(self.words)
        cancel = QPushButton("Cancel")
        cancel.setDefault(True)
        cancel.clicked.connect(self.reject)
        self.delete_button = QPushButton("Delete")
        self.delete_button.setProperty("kind", "danger")
        self.delete_button.setAutoDefault(False)
        self.delete_button.clicked.connect(self.accept)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.delete_button)
        buttons.addWidget(cancel)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 24)
        column.setSpacing(12)
        column.addWidget(heading)
        column.addWidget(words)
        column.addSpacing(8)
        column.addLayout(buttons)


def removal_words(removal: Removal) -> str:
    """What deleting does, a line each."""
    lines = [FREES.format(size=size(removal.freed), path=removal.model.path)]
    if removal.kept:
        lines.append(STAYS.format(size=size(removal.kept)))
    if removal.also_lost:
        lines.append(LOSES.format(names=", ".join(removal.also_lost)))
    return "\n\n".join(lines)
