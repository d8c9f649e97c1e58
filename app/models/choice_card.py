"""One model of a repository, to be chosen: its name, size, quality, whether it fits, and a button."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app import text
from app.amounts import size
from app.hub.choice import Choice
from app.hub.fit import ChoiceFit, Verdict
from app.models.model_words import joined

TONES: dict[Verdict, str] = {
    "fits": "calm",
    "tight": "notice",
    "does not fit": "danger",
    "does not run": "danger",
}
DOWNLOAD = "Download"
BEST_REASON = "The best quality that leaves room for chats in this machine's memory"
BUTTON_WIDTH = 104
BEST = "Best here"


@dataclass(frozen=True, slots=True)
class Offer:
    """A choice as it is shown.

    Attributes:
        is_best: whether it is what this app would take.
        fit: how it goes into the memory; None where that is not known.
        path: where it is on this machine, "" where it is not.
        progress: how far it is downloaded, in words; "" while it is not.
        is_open: whether the engine has it.
        may_download: whether the account may.
    """

    choice: Choice
    is_best: bool = False
    fit: ChoiceFit | None = None
    path: str = ""
    progress: str = ""
    is_open: bool = False
    may_download: bool = True

    @property
    def problem(self) -> str:
        """Why it does not run; "" when it does."""
        if self.choice.unsupported:
            return self.choice.unsupported
        return self.fit.words if self.fit is not None and self.fit.verdict == "does not run" else ""


class ChoiceCard(QFrame):
    """Shows an Offer. Intents: `download_wanted(key of the choice)` and `opened(path)`."""

    download_wanted = Signal(str)
    opened = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("choice")
        self._offer: Offer | None = None
        self._name = QLabel()
        self._name.setProperty("role", "strong")
        self._best = QLabel(BEST)
        self._best.setProperty("role", "label")
        self._best.setToolTip(BEST_REASON)
        self._best.setAccessibleName(BEST_REASON)
        self._words = QLabel()
        self._words.setProperty("role", "muted")
        self._words.setWordWrap(True)
        self._fit = QLabel()
        self._fit.setProperty("role", "label")
        for label in (self._name, self._words, self._fit):
            label.setTextFormat(Qt.TextFormat.PlainText)
        self.button = QPushButton()
        self.button.setMinimumWidth(BUTTON_WIDTH)
        self.button.clicked.connect(self._press)
        title = QHBoxLayout()
        title.setSpacing(8)
        title.addWidget(self._name)
        title.addWidget(self._best)
        title.addStretch(1)
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addLayout(title)
        words.addWidget(self._words)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 10, 12, 10)
        row.setSpacing(10)
        row.addLayout(words, 1)
        row.addWidget(self._fit, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignVCenter)

    @property
    def offer(self) -> Offer | None:
        """What it shows."""
        return self._offer

    @property
    def words(self) -> str:
        """What it says of the choice."""
        return self._words.text()

    @property
    def fit_words(self) -> str:
        """What it says of the memory."""
        return self._fit.text()

    def show_offer(self, offer: Offer) -> None:
        """Show another offer, or the same as it stands now."""
        if offer == self._offer:
            return
        self._offer = offer
        choice = offer.choice
        self._name.setText(choice.name)
        self._best.setVisible(offer.is_best)
        self._words.setText(text.sentence(offer.problem) or joined(size(choice.bytes), choice.hint))
        self._show_fit(offer)
        self._show_button(offer)

    def _show_fit(self, offer: Offer) -> None:
        fit = offer.fit
        self._fit.setVisible(fit is not None and not offer.problem)
        if fit is not None:
            reason = "\n".join(text.sentence(line) for line in (fit.words, fit.assumed) if line)
            self._fit.setText(text.sentence(fit.verdict))
            self._fit.setToolTip(reason)
            self._fit.setAccessibleName(reason)
            self._fit.setProperty("tone", TONES[fit.verdict])
            self._fit.style().polish(self._fit)

    def _show_button(self, offer: Offer) -> None:
        words = offer.progress or (text.OPEN if offer.path else DOWNLOAD)
        primary = offer.is_best and words == DOWNLOAD
        self.button.setText("Loaded" if offer.is_open else words)
        self.button.setAccessibleName(f"{self.button.text()}: {offer.choice.name}")
        self.button.setProperty("kind", "primary" if primary else "plain")
        self.button.style().polish(self.button)
        can = (offer.may_download or bool(offer.path)) and not offer.progress and not offer.is_open
        self.button.setEnabled(can)
        self.button.setVisible(not offer.problem or bool(offer.path))

    @Slot()
    def _press(self) -> None:
        if self._offer is None:
            return
        if self._offer.path:
            self.opened.emit(self._offer.path)
        else:
            self.download_wanted.emit(self._offer.choice.key)
