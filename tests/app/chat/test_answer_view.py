"""An answer as widgets: blocks, growth, ends and errors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat import block_column
from app.chat.answer_view import AnswerView
from app.chat.code_view import CodeView
from app.chat.prose_view import ProseView
from app.chat.tree import Versions
from app.store.records import ChatMessage
from app.theme import DARK
from app.widgets.copy_button import CopyButton

TEXT = "Before.\n\n```python\nprint(1)\n```\n\nAfter."
STREAMING = ChatMessage("c", "assistant", status="streaming")


@pytest.fixture(autouse=True)
def _in_one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, everything is built at once."""
    monkeypatch.setattr(block_column, "SLICE_SECONDS", 60)


@pytest.fixture
def view(qtbot: QtBot, appearance: Appearance) -> AnswerView:
    view = AnswerView(STREAMING, appearance, Versions())
    qtbot.addWidget(view)
    view.show()
    return view


def prose(view: AnswerView) -> list[str]:
    return [child.shown for child in view.findChildren(ProseView) if not child.isHidden()]


def code(view: AnswerView) -> list[str]:
    return [child.code for child in view.findChildren(CodeView) if not child.isHidden()]


def test_prose_and_code_are_shown_apart(view: AnswerView) -> None:
    view.show_message(replace(STREAMING, text=TEXT))
    assert prose(view) == ["Before.", "After."]
    assert code(view) == ["print(1)"]


def test_blocks_that_do_not_change_stay_the_same_widgets(view: AnswerView) -> None:
    view.show_message(replace(STREAMING, text=TEXT))
    view.fit(600)
    before = list(view._body._blocks._views)
    view.show_message(replace(STREAMING, text=TEXT + " And more."))
    view.fit(600)
    assert view._body._blocks._views == before
    assert prose(view) == ["Before.", "After. And more."]


def test_a_line_that_turns_into_a_fence_changes_the_kind_of_block(view: AnswerView) -> None:
    view.show_message(replace(STREAMING, text="``"))
    assert prose(view) == ["``"]
    view.show_message(replace(STREAMING, text="```py\nx"))
    assert prose(view) == []
    assert code(view) == ["x"]


def test_every_way_to_grow_ends_in_the_same_picture(
    view: AnswerView, qtbot: QtBot, appearance: Appearance
) -> None:
    for end in range(len(TEXT) + 1):
        view.show_message(replace(STREAMING, text=TEXT[:end]))
        view.fit(500)
    whole = AnswerView(replace(STREAMING, text=TEXT), appearance, Versions())
    qtbot.addWidget(whole)
    whole.show()
    assert view.fit(500) == whole.fit(500)
    assert (prose(view), code(view)) == (prose(whole), code(whole))


def test_shorter_text_takes_blocks_away(view: AnswerView) -> None:
    view.show_message(replace(STREAMING, text=TEXT))
    view.fit(500)
    view.show_message(replace(STREAMING, text="Before."))
    assert prose(view) == ["Before."]
    assert code(view) == []
    assert view.fit(500) < 60


def test_the_footer_comes_with_the_end(view: AnswerView) -> None:
    view.show_message(replace(STREAMING, text="Words"))
    assert not view._footer.isVisible()
    view.show_message(replace(STREAMING, text="Words", status="stopped"))
    assert view._footer.isVisible()
    assert view._note.text() == "Stopped"
    view._footer.findChild(CopyButton).click()
    assert QGuiApplication.clipboard().text() == "Words"


def test_a_failure_shows_its_line_and_keeps_the_words(view: AnswerView) -> None:
    view.show_message(
        replace(STREAMING, text="Half", status="failed", error="the model broke; load it again")
    )
    assert view._body._error.isVisible()
    assert view._body._error.text == "The model broke; load it again"
    assert prose(view) == ["Half"]


def test_narrower_means_higher(view: AnswerView) -> None:
    view.show_message(replace(STREAMING, text="word " * 200))
    assert view.fit(300) > view.fit(700)


def test_another_theme_colours_the_markdown_anew(view: AnswerView, appearance: Appearance) -> None:
    view.show_message(replace(STREAMING, text="some `code` here"))
    appearance.choose("dark")
    view.set_theme(appearance.theme)
    assert DARK.hover in view.findChild(ProseView).toHtml()


def test_what_can_be_done_with_an_answer(view: AnswerView, qtbot: QtBot) -> None:
    view.show_message(replace(STREAMING, text="Words", status="complete"))
    with qtbot.waitSignal(view.regenerated):
        view._again.click()
    with qtbot.waitSignal(view.branched):
        view._branch.click()
    view.set_ready(False)
    assert not view._again.isEnabled()
    assert view._branch.isEnabled()


def test_an_answer_without_words_can_only_be_asked_for_anew(view: AnswerView) -> None:
    view.show_message(replace(STREAMING, status="failed", error="no"))
    assert view._again.isVisible()
    assert not view._branch.isVisible()
    assert not view._copy.isVisible()
