"""One repository of the Hub: what it is, whether it may be had, its versions to choose from, and its card."""

from __future__ import annotations

import time

from PySide6.QtCore import Qt, QTimer, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app import text
from app.amounts import count
from app.appearance import Appearance
from app.chat.block_column import SLICE_SECONDS, BlockColumn
from app.hub.details import RepoDetails
from app.hub.fit import USUAL_CONTEXT
from app.models.choice_card import ChoiceCard
from app.models.gate_banner import GateBanner
from app.models.model_words import ago, joined
from app.models.offers import OffersViewModel
from app.models.repo_view_model import RepoViewModel
from app.widgets.choice_menu import ChoiceMenu
from app.widgets.key_frame import KeyFrame
from app.widgets.link_button import link_button
from app.widgets.plain_label import plain_label

SIDE = 20
NOTHING_CHOSEN = "Choose a model on the left to see what there is of it."
ASKING = "Asking the Hub…"
NO_CHOICES = "There is no model in it that MLXR reads."
VERSIONS = "Versions"
CONTEXT = "Length of a chat that is to fit"
CONTEXTS = (
    ("4096", "Fit for 4k tokens"),
    ("8192", "Fit for 8k tokens"),
    ("16384", "Fit for 16k tokens"),
    ("32768", "Fit for 32k tokens"),
    ("131072", "Fit for 128k tokens"),
    ("0", "Fit for its whole context"),
)
CARD = "What its authors say"
BACK = "Back to the list"
LICENCE = "Read its licence"
PAGE = "Open its page"


class RepoPane(QScrollArea):
    """Shows a RepoViewModel. Intents: `opened(path)`, `token_wanted`, and `left` to go back to the list."""

    opened = Signal(str)
    left = Signal()
    token_wanted = Signal()

    def __init__(
        self,
        appearance: Appearance,
        repo: RepoViewModel,
        offers: OffersViewModel,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("repo")
        self.setAccessibleName("Chosen model")
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._appearance = appearance
        self._repo = repo
        self._offers = offers
        self._cards: list[ChoiceCard] = []
        self._shown_repo = ""
        self._shown = 0  # of the offers; fewer than there are while there is work left
        self._work = QTimer(self)
        self._work.setInterval(0)
        self._work.timeout.connect(self._show_some)
        self._make_labels()
        self._arrange()
        repo.changed.connect(self._show)
        offers.changed.connect(self._show_offers)
        appearance.changed.connect(self._restyle)
        KeyFrame(self)
        self._show()

    @property
    def cards(self) -> list[ChoiceCard]:
        """The versions on show."""
        return [card for card in self._cards if not card.isHidden()]

    @property
    def title(self) -> str:
        """The name on show."""
        return self._title.text()

    @property
    def words(self) -> str:
        """What it says under the name."""
        return self._line.text()

    @property
    def note(self) -> str:
        """What stands there in place of versions."""
        return self._note.text() if not self._note.isHidden() else ""

    @property
    def card(self) -> str:
        """The Markdown of the card on show."""
        return "" if self._prose.isHidden() else self._shown_card or ""

    def _make_labels(self) -> None:
        self._title = plain_label("", "heading", selectable=True)
        self._line = plain_label("", "muted", selectable=True)
        self._note = plain_label(selectable=True)
        self._note.setObjectName("emptyText")
        self.gate = GateBanner()
        self.gate.token_wanted.connect(self.token_wanted)
        self.gate.again_wanted.connect(self._repo.reload)
        self._versions, self._card_title = QLabel(VERSIONS), QLabel(CARD)
        for label in (self._versions, self._card_title):
            label.setProperty("role", "section")
        self.context = ChoiceMenu(self._appearance, CONTEXT, CONTEXTS, str(USUAL_CONTEXT))
        self.context.chosen.connect(lambda tokens: self._offers.set_context(int(tokens) or None))
        self.back = link_button(BACK)
        self.back.clicked.connect(self.left)
        self.back.hide()
        self._page = link_button(PAGE)
        self._page.clicked.connect(self._open_page)
        self._licence = link_button(LICENCE)
        self._licence.clicked.connect(self._open_licence)
        self._prose = BlockColumn(self._appearance)
        self._prose.height_changed.connect(self._place_card)
        self._shown_card: str | None = None

    def _arrange(self) -> None:
        self._choices = QVBoxLayout()
        self._choices.setSpacing(8)
        versions = QHBoxLayout()
        versions.addWidget(self._versions, 1)
        versions.addWidget(self.context)
        inner = QWidget()
        inner.setObjectName("repoColumn")
        column = QVBoxLayout(inner)
        column.setContentsMargins(SIDE, 4, SIDE, SIDE)
        column.setSpacing(8)
        column.addWidget(self.back, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self._title)
        column.addWidget(self._line)
        links = QHBoxLayout()
        links.addWidget(self._page)
        links.addWidget(self._licence)
        links.addStretch(1)
        column.addLayout(links)
        column.addWidget(self.gate)
        column.addWidget(self._note)
        column.addSpacing(4)
        column.addLayout(versions)
        column.addLayout(self._choices)
        column.addSpacing(8)
        column.addWidget(self._card_title)
        column.addWidget(self._prose)
        column.addStretch(1)
        self.setWidget(inner)

    @Slot()
    def _show(self) -> None:
        repo, details = self._repo, self._repo.details
        if repo.repo != self._shown_repo:
            self._shown_repo = repo.repo
            self.verticalScrollBar().setValue(0)
        self._title.setText(repo.repo.rpartition("/")[2])
        self._line.setText(_facts(details) if details else repo.repo.rpartition("/")[0])
        self._title.setVisible(bool(repo.repo))
        self._line.setVisible(bool(repo.repo))
        self._page.setVisible(details is not None)
        self._licence.setVisible(bool(details and details.licence_url))
        self.gate.show_access(repo.access)
        self._show_note()
        self._show_offers()
        self._show_card()

    def _show_note(self) -> None:
        repo = self._repo
        if not repo.repo:
            words = NOTHING_CHOSEN
        elif repo.error:
            words = text.sentence(repo.error)
        elif repo.details is None:
            words = ASKING
        else:
            choices = repo.details.choices
            words = "\n".join(([] if choices.choices else [NO_CHOICES]) + list(choices.left_out[:3]))
        self._note.setText(words)
        self._note.setVisible(bool(words))

    @Slot()
    def _show_offers(self) -> None:
        """Show the versions, as many at once as a frame has time for."""
        self._shown = 0
        offers = self._offers.offers
        for card in self._cards[len(offers) :]:
            card.hide()
        self._versions.setVisible(bool(offers))
        self.context.setVisible(bool(offers))
        self._show_some()

    @Slot()
    def _show_some(self) -> None:
        offers = self._offers.offers
        until = time.monotonic() + SLICE_SECONDS
        while self._shown < len(offers) and time.monotonic() < until:
            card = self._card_at(self._shown)
            card.show_offer(offers[self._shown])
            card.show()
            self._shown += 1
        if self._shown < len(offers):
            self._work.start()
        else:
            self._work.stop()

    def _card_at(self, place: int) -> ChoiceCard:
        if place == len(self._cards):
            card = ChoiceCard()
            card.download_wanted.connect(self._offers.download)
            card.opened.connect(self.opened)
            self._choices.addWidget(card)
            self._cards.append(card)
        return self._cards[place]

    def _show_card(self) -> None:
        card = self._repo.card
        self._card_title.setVisible(card is not None)
        self._prose.setVisible(card is not None)
        if card != self._shown_card:
            self._prose.show_blocks(self._repo.card_blocks)  # none: nothing of the last card flashes up
        self._shown_card = card
        self._place_card()

    @Slot()
    def _restyle(self) -> None:
        self._prose.restyle()
        self._place_card()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """The card is as high as it needs to be at this width."""
        super().resizeEvent(event)
        self._place_card()

    @Slot()
    def _place_card(self) -> None:
        width = self.viewport().width() - 2 * SIDE
        if width > 0 and not self._prose.isHidden():
            self._prose.setFixedHeight(self._prose.fit(width))

    @Slot()
    def _open_page(self) -> None:
        QDesktopServices.openUrl(QUrl(self._repo.page))

    @Slot()
    def _open_licence(self) -> None:
        if self._repo.details:
            QDesktopServices.openUrl(QUrl(self._repo.details.licence_url))


def _facts(details: RepoDetails) -> str:
    owner = details.repo.rpartition("/")[0]
    return joined(
        f"By {owner}" if owner else "",
        f"Licence: {details.licence or 'none stated'}",
        "Gated" if details.gated else "",
        f"{count(details.downloads)} downloads a month",
        f"{count(details.likes)} likes",
        f"Updated {ago(details.updated)}" if details.updated else "",
    )
