"""Several answers in the transcript: columns where there is room, else tabs; one of them is kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.answer_view import AnswerView
from app.chat.answers_view import GAP, NARROWEST, AnswersView
from app.chat.edits import Edits
from app.chat.several_button import SeveralButton
from app.chat.transcript import Transcript
from app.store.records import ChatMessage
from app.theme import COLUMN_WIDTH
from tests.app.chat.conftest import Alone
from tests.app.chat.transcripts import settle
from tests.fakes.instant_store import InstantStore

QUESTION = ChatMessage("c", "user", "Tell me")
WORDS = ("One word", "Two words, and some more of them. " * 9, "")


class Answers(Alone):
    """Answers that are on show together."""

    def __init__(self, count: int = 3) -> None:
        self.messages = [
            ChatMessage("c", "assistant", words, status="streaming", generated_tokens=len(words))
            for words in WORDS[:count]
        ]

    def together(self, message_id: str) -> list[ChatMessage]:
        return self.messages if any(message.id == message_id for message in self.messages) else []


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def view(qtbot: QtBot, appearance: Appearance, answers: Answers) -> AnswersView:
    view = AnswersView(answers.messages[-1], appearance, answers.together)
    qtbot.addWidget(view)
    view.show()
    return view


def fitted(view: AnswersView, room: int) -> int:
    """Lay the view out where there is so much room; returns its height."""
    width = view.width_in(room)
    view.resize(width, view.fit(width))
    return view.height()


def test_columns_stand_side_by_side_at_one_height(view: AnswersView) -> None:
    height = fitted(view, 1200)
    assert all(card.isVisible() and card.height() == height for card in view.cards)
    assert not any(tab.isVisible() for tab in view.tabs)
    edges = [(card.x(), card.x() + card.width()) for card in view.cards]
    assert all(left[1] + GAP == right[0] for left, right in pairwise(edges))
    assert edges[-1][1] <= view.width() <= 1200
    feet = {card.keep_button.mapTo(view, card.keep_button.rect().topLeft()).y() for card in view.cards}
    assert len(feet) == 1


def test_where_columns_are_too_narrow_there_is_a_tab_for_each(view: AnswersView, qtbot: QtBot) -> None:
    room = 3 * NARROWEST + 2 * GAP - 1
    fitted(view, room)
    assert view.width() == min(room, COLUMN_WIDTH)
    assert [card.isVisible() for card in view.cards] == [True, False, False]
    heights: list[int] = []
    view.height_changed.connect(lambda: heights.append(fitted(view, room)))
    view.tabs[1].setFocus()
    qtbot.keyClick(view.tabs[1], Qt.Key.Key_Space)
    assert [card.isVisible() for card in view.cards] == [False, True, False]
    assert heights
    assert view.tabs[1].text() == "Answer 2"
    assert view.tabs[1].toolTip() == "Show answer 2  ·  306 tokens  ·  Writing…"


def test_each_says_how_far_it_is(view: AnswersView, answers: Answers) -> None:
    assert view.cards[0].progress == "8 tokens  ·  Writing…"
    assert view.cards[2].progress == "Writing…"
    answers.messages[0] = replace(answers.messages[0], status="complete")
    answers.messages[1] = replace(answers.messages[1], status="stopped", generated_tokens=1)
    view.show_message(answers.messages[-1])
    assert view.cards[0].progress == "8 tokens"
    assert view.cards[1].progress == "1 token  ·  Stopped"


def test_only_an_answer_with_words_can_be_kept(view: AnswersView, answers: Answers, qtbot: QtBot) -> None:
    kept: list[str] = []
    view.kept.connect(kept.append)
    fitted(view, 1200)
    assert [card.keep_button.isEnabled() for card in view.cards] == [True, True, False]
    qtbot.mouseClick(view.cards[1].keep_button, Qt.MouseButton.LeftButton)
    assert kept == [answers.messages[1].id]


def test_what_goes_on_is_said_where_there_are_no_words(view: AnswersView) -> None:
    before = view.fit(1200)
    view.show_activity("Reading 5 of 9 tokens")
    assert [card._body._activity.isHidden() for card in view.cards] == [True, True, False]
    assert view.fit(1200) == before


def test_the_transcript_shows_them_wider_than_a_line_and_then_the_kept_one_alone(
    qtbot: QtBot, appearance: Appearance, answers: Answers
) -> None:
    transcript = Transcript(appearance, answers, Edits(InstantStore()))
    qtbot.addWidget(transcript)
    transcript.resize(1400, 600)
    transcript.show()
    path = [QUESTION, answers.messages[-1]]
    transcript.show_asked(path)
    settle(qtbot, transcript)
    shown = transcript._stack.last
    assert isinstance(shown, AnswersView)
    assert shown.width() > COLUMN_WIDTH
    assert shown.x() + shown.width() // 2 == transcript.width() // 2
    answers.messages[-1] = replace(answers.messages[-1], text="Words " * 400)
    transcript.update_last(answers.messages[-1])
    qtbot.waitUntil(lambda: shown.height() > 600)
    answers.messages = []
    transcript.show_switched(path)
    settle(qtbot, transcript)
    assert isinstance(transcript._stack.last, AnswerView)


def test_the_button_asks_for_as_many_as_were_chosen(qtbot: QtBot, appearance: Appearance) -> None:
    button = SeveralButton(appearance, "Answer several ways")
    qtbot.addWidget(button)
    chosen: list[int] = []
    button.chosen.connect(chosen.append)
    for action in button.menu().actions():
        action.trigger()
    assert chosen == [2, 3, 4]
