"""Where a person gives a token of the Hub, for models whose licence they have accepted."""

from __future__ import annotations

from PySide6.QtCore import QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app import text
from app.hub.failures import HUB
from app.hub.token import Kept, Source
from app.models.token_view_model import TokenViewModel
from app.widgets.plain_label import plain_label

TITLE = "Token for gated models"
WHAT = (
    "Some models are given only to accounts that accepted their licence. A token of your account on the Hub "
    "shows that you are one of them; reading is all it needs to be allowed."
)
FIELD = "Paste the token here: hf_…"
MAKE = "Make one on the Hub"
KEEP = "Keep it"
FORGET = "Forget the token"
ASKING = "Asking the Hub whose token it is…"
SOURCES: dict[Source, str] = {
    "HF_TOKEN": "The token of the variable HF_TOKEN is used.",
    "keychain": "A token lies in the system's keychain.",
    "this session": "A token is kept until MLXR ends.",
    "hf auth login": "The token that `hf auth login` left is used.",
}
WHERE = "It is kept in the system's keychain, in no file and no log."
TOKENS_PAGE = f"{HUB}/settings/tokens"


class TokenDialog(QDialog):
    """Shows a TokenViewModel. `done_with(words)`: a token was kept or forgotten, and what to say of it."""

    done_with = Signal(str)

    def __init__(self, token: TokenViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._token = token
        self.setWindowTitle(TITLE)
        self.setFixedWidth(460)
        self.field = QLineEdit()
        self.field.setEchoMode(QLineEdit.EchoMode.Password)
        self.field.setPlaceholderText(FIELD)
        self.field.setAccessibleName(TITLE)
        self._note = plain_label(WHERE, "muted")
        self.keep = QPushButton(KEEP)
        self.keep.setDefault(True)
        self.keep.setEnabled(False)
        self.keep.clicked.connect(self._keep)
        self.forget = QPushButton(FORGET)
        self.forget.setAutoDefault(False)
        self.forget.clicked.connect(token.forget)
        self.forget.hide()
        self._arrange()
        self.field.textChanged.connect(lambda words: self.keep.setEnabled(bool(words.strip())))
        token.found.connect(self._show_source)
        token.kept.connect(self._end)
        token.forgotten.connect(self._end)
        token.failed.connect(self._say_problem)
        token.look()

    @property
    def note(self) -> str:
        """What it says under the field."""
        return self._note.text()

    def _arrange(self) -> None:
        make = QPushButton(MAKE)
        make.setAutoDefault(False)
        make.clicked.connect(lambda: QDesktopServices.openUrl(QUrl(TOKENS_PAGE)))
        cancel = QPushButton(text.CANCEL)
        cancel.setAutoDefault(False)
        cancel.clicked.connect(self.reject)
        buttons = QHBoxLayout()
        buttons.addWidget(make)
        buttons.addWidget(self.forget)
        buttons.addStretch(1)
        buttons.addWidget(cancel)
        buttons.addWidget(self.keep)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 24)
        column.setSpacing(12)
        for widget in (plain_label(TITLE, "heading"), plain_label(WHAT), self.field, self._note):
            column.addWidget(widget)
        column.addLayout(buttons)

    def _say(self, words: str, role: str) -> None:
        self._note.setText(words)
        self._note.setProperty("role", role)
        self._note.style().polish(self._note)

    @Slot()
    def _keep(self) -> None:
        self.keep.setEnabled(False)
        self._say(ASKING, "muted")
        self._token.keep(self.field.text())

    @Slot(object)
    def _show_source(self, source: Source | None) -> None:
        self.forget.setVisible(source in ("keychain", "this session"))
        if source is not None:
            self._say(f"{SOURCES[source]} {WHERE}" if source != "HF_TOKEN" else SOURCES[source], "muted")

    @Slot(str)
    def _say_problem(self, words: str) -> None:
        self.keep.setEnabled(bool(self.field.text().strip()))
        self._say(text.sentence(words), "danger")

    @Slot()
    @Slot(object)
    def _end(self, kept: Kept | None = None) -> None:
        self.field.clear()
        words = text.TOKEN_FORGOTTEN
        if kept is not None:
            words = text.TOKEN_KEPT.format(name=kept.account.name)
            if kept.problem:
                words = f"{words} {text.sentence(kept.problem)}."
        self.done_with.emit(words)
        self.accept()
