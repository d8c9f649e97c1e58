"""Several answers to one question: side by side where there is room, else one of them and the way to each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtWidgets import QButtonGroup, QToolButton, QWidget

from app import text
from app.appearance import Appearance
from app.chat.answer_card import AnswerCard
from app.chat.answer_notes import progress_of
from app.chat.message_view import MessageView
from app.chat.tree import Versions
from app.store.records import ChatMessage
from app.theme import COLUMN_WIDTH, Theme

NARROWEST = 270
"""Pixels that words in a column need."""
WIDEST = 440
GAP = 12
TAB_HEIGHT = 30


class AnswersView(MessageView):
    """Shows the answers that `together_with` gives for the id of one of them, until one is kept."""

    def __init__(
        self,
        message: ChatMessage,
        appearance: Appearance,
        together_with: Callable[[str], Sequence[ChatMessage]],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(message, appearance, Versions(), parent)
        self._together_with = together_with
        answers = together_with(message.id)
        self._cards = [
            AnswerCard(appearance, number, answer, self) for number, answer in enumerate(answers, start=1)
        ]
        for card in self._cards:
            card.kept.connect(self.kept)
            card.height_changed.connect(self.height_changed)
        self._group = QButtonGroup(self)
        self._tabs = [self._make_tab(number) for number in range(1, len(answers) + 1)]
        self._tabs[0].setChecked(True)
        self._group.idToggled.connect(lambda _: self.height_changed.emit())
        self.setAccessibleName("Answers")
        self.show_message(message)

    @property
    def cards(self) -> Sequence[AnswerCard]:
        """The answers."""
        return self._cards

    @property
    def tabs(self) -> Sequence[QToolButton]:
        """The ways to each, on show where there is room for one only."""
        return self._tabs

    def show_message(self, message: ChatMessage) -> None:
        """Show all answers as they are now."""
        answers = self._together_with(message.id)
        for number, (card, tab, answer) in enumerate(zip(self._cards, self._tabs, answers, strict=False), 1):
            card.show_message(answer)
            shown = text.SHOW_ANSWER.format(number=number)
            tab.setToolTip("  ·  ".join(part for part in (shown, progress_of(answer)) if part))

    def show_activity(self, activity: str) -> None:
        """Say in each answer without a word what is going on."""
        changed = [card.show_activity(activity) for card in self._cards]
        if any(changed):
            self.height_changed.emit()

    def set_theme(self, theme: Theme) -> None:
        """Colour the Markdown anew."""
        for card in self._cards:
            card.restyle()

    def width_in(self, room: int) -> int:
        """All of the room for columns, up to the width at which they are easy to read."""
        count = len(self._cards)
        wanted = count * WIDEST + (count - 1) * GAP if self._column(room) >= NARROWEST else COLUMN_WIDTH
        return min(room, wanted)

    def fit(self, width: int) -> int:
        """Lay the answers out as columns, or one of them under the row of tabs."""
        column = self._column(width)
        is_wide = column >= NARROWEST
        for tab in self._tabs:
            tab.setVisible(not is_wide)
        shown = self._cards if is_wide else [self._cards[self._group.checkedId() - 1]]
        for card in self._cards:
            card.setVisible(card in shown)
            card.show_title(is_wide)
        return self._fit_columns(column) if is_wide else self._fit_one(shown[0], width)

    def _column(self, width: int) -> int:
        """How wide each of the columns is in `width` pixels."""
        return (width - (len(self._cards) - 1) * GAP) // len(self._cards)

    def _fit_columns(self, column: int) -> int:
        height = max(card.height_for(column) for card in self._cards)
        for place, card in enumerate(self._cards):
            card.setGeometry(place * (column + GAP), 0, column, height)
            card.fit(column, height)
        return height

    def _fit_one(self, card: AnswerCard, width: int) -> int:
        left = 0
        for tab in self._tabs:
            tab.setGeometry(left, 0, tab.sizeHint().width(), TAB_HEIGHT)
            left += tab.width() + 4
        top, height = TAB_HEIGHT + 8, card.height_for(width)
        card.setGeometry(0, top, width, height)
        card.fit(width, height)
        return top + height

    def _make_tab(self, number: int) -> QToolButton:
        tab = QToolButton(self)
        tab.setProperty("kind", "tab")
        tab.setCheckable(True)
        tab.setText(text.ANSWER_NUMBER.format(number=number))
        tab.setAccessibleName(text.SHOW_ANSWER.format(number=number))
        self._group.addButton(tab, number)
        return tab
