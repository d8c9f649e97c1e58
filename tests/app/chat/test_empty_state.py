"""The empty state."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QStyle, QStyleOptionButton
from pytestqt.qtbot import QtBot

from app import text
from app.appearance import Appearance
from app.chat.empty_state import WIDTH, EmptyState


@pytest.fixture
def empty(qtbot: QtBot, appearance: Appearance) -> EmptyState:
    empty = EmptyState(appearance)
    qtbot.addWidget(empty)
    empty.resize(600, 500)
    empty.show_words("Title", "Text", ("One?", "Two?"))
    empty.show()
    return empty


def test_suggestions_are_sent_by_a_click(qtbot: QtBot, empty: EmptyState) -> None:
    with qtbot.waitSignal(empty.suggested) as suggested:
        empty.suggestions[1].click()
    assert suggested.args == ["Two?"]


def test_they_wait_for_a_model(empty: EmptyState) -> None:
    empty.set_ready(False)
    assert not any(button.isEnabled() for button in empty.suggestions)
    empty.set_ready(True)
    assert all(button.isEnabled() for button in empty.suggestions)


def test_the_link_s_words_stand_under_those_of_the_suggestions(empty: EmptyState) -> None:
    empty.show_words("Title", "Text", ("One?",), offers_models=True)
    lefts: set[int] = set()
    for button in (*empty.suggestions, empty.find_model):
        option = QStyleOptionButton()
        button.initStyleOption(option)
        words = button.style().subElementRect(QStyle.SubElement.SE_PushButtonContents, option, button)
        lefts.add(button.mapTo(empty, words.topLeft()).x())
    assert len(lefts) == 1


def test_other_words_replace_them(empty: EmptyState) -> None:
    empty.show_words("Title", "Text", ("Three?",))
    assert [button.text() for button in empty.suggestions] == ["Three?"]


@pytest.mark.parametrize("size", [(360, 300), (600, 330), (1200, 900)])
def test_everything_fits(qtbot: QtBot, empty: EmptyState, size: tuple[int, int]) -> None:
    empty.show_words(
        "What would you like to know?", "A sentence of a usual length, as it is. " * 3, ("One?", "Two?", "3?")
    )
    empty.resize(*size)

    def fits() -> bool:
        inside = empty.rect()
        return all(
            inside.contains(button.geometry().translated(empty._inner.pos())) for button in empty.suggestions
        )

    qtbot.waitUntil(fits)


def test_a_suggestion_that_is_too_long_says_so_and_is_sent_whole(qtbot: QtBot, empty: EmptyState) -> None:
    words = "Write a short, friendly note that moves a meeting."
    empty.show_words("Title", "Text", (words,))
    button = empty.suggestions[0]
    empty.resize(320, 500)
    qtbot.waitUntil(lambda: button.text().endswith("…"))
    assert words.startswith(button.text()[:-1])
    assert (button.toolTip(), button.accessibleName()) == (words, words)
    assert button.fontMetrics().horizontalAdvance(button.text()) < button.width() <= 320
    with qtbot.waitSignal(empty.suggested) as suggested:
        button.click()
    assert suggested.args == [words]
    empty.resize(900, 500)
    qtbot.waitUntil(lambda: button.text() == words)
    assert not button.toolTip()


def test_where_there_is_no_room_the_last_suggestions_go(appearance: Appearance, qtbot: QtBot) -> None:
    empty = EmptyState(appearance)
    qtbot.addWidget(empty)
    empty.show_words("Title", "Text", ("One?", "Two?", "Three?"), offers_models=True)
    empty.resize(500, 190)
    empty.show()
    assert empty.suggestions[0].isVisible()
    assert not empty.suggestions[2].isVisible()
    assert empty.find_model.isVisible()
    empty.resize(500, 600)
    assert all(button.isVisible() for button in empty.suggestions)
    with qtbot.waitSignal(empty.models_wanted):
        empty.find_model.click()
    empty.show_words("Title", "Text", ())
    assert not empty.find_model.isVisible()


@pytest.mark.parametrize("words", [text.GUIDE_SUGGESTIONS, text.MODEL_SUGGESTIONS])
def test_our_suggestions_are_shown_whole_in_a_usual_window(
    qtbot: QtBot, empty: EmptyState, words: tuple[str, ...]
) -> None:
    empty.show_words("Title", "Text", words)
    empty.resize(800, 500)
    qtbot.waitUntil(lambda: empty.suggestions[0].width() == WIDTH)
    assert [button.text() for button in empty.suggestions] == list(words)
