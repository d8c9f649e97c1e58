"""The banner says what is wrong until it is over."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.widgets.banner import Banner
from app.widgets.icon_button import IconButton


def test_it_is_there_only_with_something_to_say(qtbot: QtBot, appearance: Appearance) -> None:
    banner = Banner(appearance)
    qtbot.addWidget(banner)
    assert banner.isHidden()
    banner.say("The disk is full")
    assert not banner.isHidden()
    assert banner.accessibleName() == "The disk is full"
    banner.say("")
    assert banner.isHidden()


def test_its_action_and_its_end(qtbot: QtBot, appearance: Appearance) -> None:
    banner = Banner(appearance, "danger")
    qtbot.addWidget(banner)
    banner.say("It failed", "Try again")
    with qtbot.waitSignal(banner.acted):
        banner._action.click()
    banner.findChild(IconButton).click()
    assert banner.isHidden()
    banner.say("It failed without a way out")
    assert banner._action.isHidden()


def test_plain_information_has_no_sign_of_a_warning(qtbot: QtBot, appearance: Appearance) -> None:
    banner = Banner(appearance)
    qtbot.addWidget(banner)
    banner.say("It was ended")
    warning = banner.grab().toImage()
    banner.set_tone("muted")
    assert not banner._icon.isVisibleTo(banner)
    assert banner.grab().toImage() != warning
    banner.set_tone("notice")
    assert banner._icon.isVisibleTo(banner)
    assert banner.grab().toImage() == warning


def test_markup_in_an_error_is_text(qtbot: QtBot, appearance: Appearance) -> None:
    banner = Banner(appearance)
    qtbot.addWidget(banner)
    banner.say("<b>bold</b>")
    assert banner.text == "<b>bold</b>"
