"""What a card says, and when it is drawn otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import QRect
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication, QHBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.dashboard.card_button import CardButton
from app.dashboard.live_cards import CARDS, Card, Face
from app.theme import DARK, LIGHT, Theme

Cards = tuple[CardButton[Card], CardButton[Card]]

FACE = Face("252", "tok/s", "last answer", "Tokens written a second")


@pytest.fixture
def appearance(qapp: QApplication) -> Appearance:
    return Appearance(qapp, "light")


@pytest.fixture
def cards(qtbot: QtBot, appearance: Appearance) -> Iterator[Cards]:
    window = QWidget()
    qtbot.addWidget(window)
    row = QHBoxLayout(window)
    both = CardButton(CARDS[0], window), CardButton(CARDS[0], window)
    for card in both:
        row.addWidget(card)
    window.resize(500, 120)
    window.show()
    qtbot.waitExposed(window)
    both[1].setFocus()
    yield both
    window.close()


def picture(card: CardButton[Card]) -> QImage:
    return card.grab().toImage()


def ground(card: CardButton[Card]) -> str:
    return QColor(picture(card).pixel(card.width() - 20, card.height() // 2)).name()


def test_each_word_of_a_face_is_drawn_and_told(cards: Cards) -> None:
    card = cards[0]
    card.show_face(FACE)
    first = picture(card)
    told = (card.words, card.accessibleName(), card.toolTip(), card.accessibleDescription())
    assert told == ("252 tok/s, last answer", "Decode: 252 tok/s, last answer", FACE.about, FACE.about)
    for other in (replace(FACE, value="253"), replace(FACE, unit="ms"), replace(FACE, detail="2 answers")):
        card.show_face(other)
        assert picture(card) != first
        assert card.accessibleName() == f"Decode: {other.value} {other.unit}, {other.detail}"
        card.show_face(FACE)
        assert picture(card) == first
    card.show_face(replace(FACE, about="otherwise"))
    assert (card.toolTip(), card.accessibleDescription()) == ("otherwise", "otherwise")
    assert picture(card) == first


def test_long_words_stay_within_the_card(cards: Cards) -> None:
    card = cards[0]
    card.show_face(Face("–"))
    empty = picture(card)
    card.show_face(Face("–", "", "weights 123 GB and more " * 9))
    full = picture(card)
    assert full != empty
    edge = QRect(card.width() - 12, 0, 12, card.height())
    assert full.copy(edge) == empty.copy(edge)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_the_chosen_one_stands_out_in_every_theme(cards: Cards, appearance: Appearance, theme: Theme) -> None:
    card = cards[0]
    card.show_face(FACE)
    assert ground(card) == LIGHT.surface
    appearance.choose("dark" if theme.dark else "light")
    assert ground(card) == theme.surface
    assert QColor(picture(card).pixel(0, 0)).name() == theme.window
    plain = picture(card)
    card.setChecked(True)
    assert ground(card) == theme.accent_soft
    cards[1].setChecked(True)
    assert picture(card) == plain


def test_it_fills_what_it_is_given(cards: Cards) -> None:
    card = cards[0]
    for width in (300, 200):
        card.window().resize(2 * width, 120)
        QApplication.processEvents()
        image = picture(card)
        middle = image.height() // 2
        border = {QColor(image.pixel(x, middle)).name() for x in (0, image.width() - 1)}
        assert border == {LIGHT.border}
        assert image.size().toTuple() == (card.width(), card.height())
