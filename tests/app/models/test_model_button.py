"""The model button names the model and offers others."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QKeySequence
from pytestqt.qtbot import QtBot

from app import text
from app.appearance import Appearance
from app.models.known_model import ModelState
from app.models.model_button import ModelButton


@pytest.fixture
def button(qtbot: QtBot, appearance: Appearance) -> ModelButton:
    button = ModelButton(appearance, "/app/guide")
    qtbot.addWidget(button)
    return button


def offered(button: ModelButton) -> list[str]:
    button.menu().aboutToShow.emit()
    return [action.text() for action in button.menu().actions() if action.text()]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (ModelState(), text.NO_MODEL),
        (ModelState("loading", "/models/tiny", progress=0.42), "tiny  42%"),
        (ModelState("ready", "/models/tiny"), "tiny"),
        (ModelState("ready", "/app/guide"), text.GUIDE_NAME),
    ],
)
def test_it_names_the_model(button: ModelButton, state: ModelState, words: str) -> None:
    button.show_state(state)
    assert button.text() == words
    assert words in button.accessibleName()


def test_an_ampersand_in_a_name_marks_no_key(button: ModelButton) -> None:
    button.show_recent(["/models/R&D"])
    button.show_state(ModelState("ready", "/models/R&D"))
    assert button.accessibleName() == "Model: R&D"
    for words in (button.text(), offered(button)[2]):
        assert QKeySequence.mnemonic(words).isEmpty()
        assert words.replace("&&", "&") == "R&D"


def test_it_offers_the_guide_recent_models_and_a_folder(qtbot: QtBot, button: ModelButton) -> None:
    button.show_recent(["/models/tiny", "/models/big"])
    button.show_state(ModelState("ready", "/models/big"))
    assert offered(button) == [
        text.GUIDE_NAME,
        text.RECENT_MODELS,
        "tiny",
        "big",
        text.MANAGE_MODELS,
        text.OPEN_MODEL,
        text.OPEN_FOLDER,
    ]
    checked = [action.text() for action in button.menu().actions() if action.isChecked()]
    assert checked == ["big"]
    by_name = {action.text(): action for action in button.menu().actions()}
    with qtbot.waitSignal(button.chosen) as chosen:
        by_name["tiny"].trigger()
    assert chosen.args == ["/models/tiny"]
    with qtbot.waitSignal(button.files_wanted):
        by_name[text.OPEN_MODEL].trigger()
    with qtbot.waitSignal(button.page_wanted):
        by_name[text.MANAGE_MODELS].trigger()


def test_without_recent_models_there_is_no_heading(button: ModelButton) -> None:
    assert offered(button) == [text.GUIDE_NAME, text.MANAGE_MODELS, text.OPEN_MODEL, text.OPEN_FOLDER]
