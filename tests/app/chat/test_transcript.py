"""The transcript builds little, follows the newest words, and stays where the user scrolled."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat.answer_view import AnswerView
from app.chat.message_view import MessageView
from app.chat.transcript import Transcript
from app.chat.tree import Versions
from app.chat.user_message_view import UserMessageView
from app.store.records import ChatMessage
from app.theme import COLUMN_WIDTH, DARK

PARAGRAPH = "A page is a block of the KV cache. " * 20


def conversation(turns: int, text: str = PARAGRAPH) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    for number in range(turns):
        messages.append(ChatMessage("c", "user", f"Question {number}"))
        messages.append(ChatMessage("c", "assistant", f"{number}. {text}"))
    return messages


@pytest.fixture
def transcript(qtbot: QtBot, appearance: Appearance) -> Transcript:
    transcript = Transcript(appearance, lambda message_id: Versions())
    qtbot.addWidget(transcript)
    transcript.resize(800, 600)
    transcript.show()
    return transcript


def view_of(transcript: Transcript, message_id: str) -> MessageView | None:
    """The message's widget."""
    return next((view for view in transcript._stack.views if view.message.id == message_id), None)


def settle(qtbot: QtBot, transcript: Transcript) -> None:
    """Let the slices of work come to an end."""
    qtbot.waitUntil(lambda: not transcript._work.isActive())


def at_end(transcript: Transcript) -> bool:
    bar = transcript.verticalScrollBar()
    return bar.value() == bar.maximum()


def test_a_short_conversation_is_built_whole(qtbot: QtBot, transcript: Transcript) -> None:
    transcript.show_messages(conversation(2, "Short."))
    settle(qtbot, transcript)
    assert transcript.built == 4


def test_of_a_long_conversation_only_the_end_is_built(qtbot: QtBot, transcript: Transcript) -> None:
    transcript.show_messages(conversation(500))
    settle(qtbot, transcript)
    assert 2 < transcript.built < 40
    assert at_end(transcript)


def test_scrolling_up_builds_what_is_above_without_moving_what_is_seen(
    qtbot: QtBot, transcript: Transcript
) -> None:
    transcript.show_messages(conversation(100))
    settle(qtbot, transcript)
    before = transcript.built
    bar = transcript.verticalScrollBar()
    bar.setValue(bar.maximum() // 3)
    seen = transcript._first_visible()
    assert seen
    place = seen.y() - bar.value()
    settle(qtbot, transcript)
    assert transcript.built > before
    assert seen.y() - bar.value() == place


def test_the_top_can_be_reached(qtbot: QtBot, transcript: Transcript) -> None:
    transcript.show_messages(conversation(30))
    bar = transcript.verticalScrollBar()

    def at_top() -> bool:
        bar.setValue(0)
        return transcript.built == 60 and bar.value() == 0

    qtbot.waitUntil(at_top)


def test_a_growing_answer_is_followed(qtbot: QtBot, transcript: Transcript) -> None:
    messages = conversation(3)
    transcript.show_messages(messages)
    settle(qtbot, transcript)
    height = transcript.verticalScrollBar().maximum()
    transcript.update_last(replace(messages[-1], text=PARAGRAPH * 4))
    qtbot.waitUntil(lambda: transcript.verticalScrollBar().maximum() > height)
    assert at_end(transcript)


def test_scrolling_up_ends_following_and_the_button_brings_it_back(
    qtbot: QtBot, transcript: Transcript
) -> None:
    messages = conversation(6)
    transcript.show_messages(messages)
    settle(qtbot, transcript)
    assert transcript._jump.isHidden()
    transcript.scroll_pages(-0.5)
    assert not transcript.following
    assert transcript._jump.isVisible()
    seen = transcript._first_visible()
    assert seen
    place = seen.y() - transcript.verticalScrollBar().value()
    height = transcript._stack._heights[-1]
    transcript.update_last(replace(messages[-1], text=PARAGRAPH * 4))
    qtbot.waitUntil(lambda: transcript._stack._heights[-1] > height)
    settle(qtbot, transcript)
    assert seen.y() - transcript.verticalScrollBar().value() == place
    transcript._jump.click()
    assert transcript.following
    assert at_end(transcript)
    assert transcript._jump.isHidden()


def test_scrolling_back_down_follows_again(qtbot: QtBot, transcript: Transcript) -> None:
    transcript.show_messages(conversation(6))
    settle(qtbot, transcript)
    transcript.scroll_pages(-1)
    transcript.scroll_pages(5)
    assert transcript.following


def test_a_new_message_jumps_to_the_end(qtbot: QtBot, transcript: Transcript) -> None:
    transcript.show_messages(conversation(6))
    settle(qtbot, transcript)
    transcript.scroll_pages(-1)
    transcript.show_asked([*conversation(6), ChatMessage("c", "user", "New question")])
    assert at_end(transcript)


def test_lines_are_no_wider_than_is_easy_to_read(qtbot: QtBot, transcript: Transcript) -> None:
    transcript.resize(1600, 600)
    transcript.show_messages(conversation(1))
    settle(qtbot, transcript)
    view = transcript._stack.views[0]
    assert view.width() == COLUMN_WIDTH
    assert abs((view.x() + view.width() / 2) - 800) <= 1


def test_resizing_lays_everything_out_anew(qtbot: QtBot, transcript: Transcript) -> None:
    transcript.show_messages(conversation(3))
    settle(qtbot, transcript)
    wide = sum(transcript._stack._heights)
    transcript.resize(480, 600)
    settle(qtbot, transcript)
    assert sum(transcript._stack._heights) > wide
    assert {view.width() for view in transcript._stack.views} == {480 - 48}
    assert at_end(transcript)


def test_messages_do_not_overlap(qtbot: QtBot, transcript: Transcript) -> None:
    transcript.show_messages(conversation(5))
    settle(qtbot, transcript)
    views = transcript._stack.views
    assert all(upper.geometry().bottom() < lower.y() for upper, lower in pairwise(views))


def test_activity_is_said_under_the_last_message(qtbot: QtBot, transcript: Transcript) -> None:
    transcript.show_messages([])
    transcript.show_asked(
        [ChatMessage("c", "user", "Question"), ChatMessage("c", "assistant", status="streaming")]
    )
    empty = sum(transcript._stack._heights)
    transcript.show_activity("Reading 5 of 9 tokens…")
    assert sum(transcript._stack._heights) > empty
    transcript.show_activity("")
    assert sum(transcript._stack._heights) == empty


def test_another_theme_keeps_the_place(qtbot: QtBot, transcript: Transcript, appearance: Appearance) -> None:
    transcript.show_messages(conversation(6))
    settle(qtbot, transcript)
    transcript.scroll_pages(-1)
    seen = transcript._first_visible()
    appearance.choose("dark")
    settle(qtbot, transcript)
    assert appearance.theme is DARK
    assert transcript._first_visible() is seen


def answered_anew(
    messages: list[ChatMessage], place: int, turns: int, text: str = PARAGRAPH
) -> list[ChatMessage]:
    """The conversation with another answer at `place`, and other turns behind it."""
    return [*messages[:place], ChatMessage("c", "assistant", f"Instead. {text}"), *conversation(turns, text)]


def place_of(transcript: Transcript, message: ChatMessage) -> int:
    view = view_of(transcript, message.id)
    assert view
    return view.y() - transcript.verticalScrollBar().value()


def test_switching_a_version_leaves_what_is_above_where_it_is(qtbot: QtBot, transcript: Transcript) -> None:
    messages = conversation(8)
    transcript.show_messages(messages)
    settle(qtbot, transcript)
    transcript.scroll_pages(-2)
    settle(qtbot, transcript)
    seen = transcript._first_visible()
    assert seen
    at = messages.index(seen.message) + 1
    before = place_of(transcript, seen.message)
    other = answered_anew(messages, at, 6)
    transcript.show_switched(other)
    settle(qtbot, transcript)
    assert transcript._first_visible() is seen
    assert place_of(transcript, seen.message) == before
    assert view_of(transcript, other[at].id)
    assert not view_of(transcript, messages[at].id)
    assert not transcript.following
    transcript.jump_to_end()
    settle(qtbot, transcript)
    assert at_end(transcript)
    assert transcript._stack.last
    assert transcript._stack.last.message is other[-1]


def test_a_long_branch_is_built_only_as_far_as_it_is_seen(qtbot: QtBot, transcript: Transcript) -> None:
    messages = conversation(1)
    transcript.show_messages(messages)
    settle(qtbot, transcript)
    other = answered_anew(messages, 1, 300)
    transcript.show_switched(other)
    settle(qtbot, transcript)
    assert 2 < transcript.built < 40
    built = transcript.built
    transcript.scroll_pages(1)
    settle(qtbot, transcript)
    assert built < transcript.built < 60
    transcript.jump_to_end()
    settle(qtbot, transcript)
    assert transcript.built < 60
    assert transcript._stack.last
    assert transcript.following


def test_asking_from_far_above_builds_no_more_than_is_seen(qtbot: QtBot, transcript: Transcript) -> None:
    messages = conversation(1)
    transcript.show_messages(messages)
    settle(qtbot, transcript)
    other = answered_anew(messages, 1, 300)
    transcript.show_switched(other)
    settle(qtbot, transcript)
    transcript.show_asked([*other, *conversation(1)])
    assert transcript.built < 40
    settle(qtbot, transcript)
    assert transcript.built < 40
    assert transcript._stack.last
    assert at_end(transcript)


def test_a_path_that_differs_above_what_is_built_is_built_anew(qtbot: QtBot, transcript: Transcript) -> None:
    transcript.show_messages(conversation(100))
    settle(qtbot, transcript)
    other = conversation(1)
    transcript.show_asked(other)
    settle(qtbot, transcript)
    assert [view.message for view in transcript._stack.views] == other


def test_a_short_branch_is_followed(qtbot: QtBot, transcript: Transcript) -> None:
    messages = conversation(1, "Short.")
    transcript.show_messages(messages)
    settle(qtbot, transcript)
    transcript.show_switched(answered_anew(messages, 1, 0, "Short."))
    settle(qtbot, transcript)
    assert transcript.following
    assert transcript._jump.isHidden()


def test_asking_keeps_the_widgets_of_what_stays(qtbot: QtBot, transcript: Transcript) -> None:
    messages = conversation(3)
    transcript.show_messages(messages)
    settle(qtbot, transcript)
    kept = [view_of(transcript, message.id) for message in messages[:3]]
    assert all(kept)
    transcript.show_asked([*messages[:3], ChatMessage("c", "assistant", status="streaming")])
    assert list(transcript._stack.views) == [*kept, transcript._stack.last]
    assert at_end(transcript)


def test_wishes_carry_the_messages_name(qtbot: QtBot, transcript: Transcript) -> None:
    question, answer = conversation(1, "Short.")
    transcript.show_messages([question, answer])
    settle(qtbot, transcript)
    heard: list[tuple[object, ...]] = []
    transcript.regenerated.connect(lambda name: heard.append(("again", name)))
    transcript.branched.connect(lambda name: heard.append(("branch", name)))
    transcript.stepped.connect(lambda name, step: heard.append(("step", name, step)))
    transcript.edited.connect(lambda name, words: heard.append(("edit", name, words)))
    transcript.drafted.connect(lambda name, words: heard.append(("draft", name, words)))
    first, last = view_of(transcript, question.id), view_of(transcript, answer.id)
    assert isinstance(first, UserMessageView)
    assert isinstance(last, AnswerView)
    last.regenerated.emit()
    last.branched.emit()
    last.stepped.emit(-1)
    first.start_editing()
    first.edited.emit("words")
    first.stop_editing()
    assert heard == [
        ("again", answer.id),
        ("branch", answer.id),
        ("step", answer.id, -1),
        ("draft", question.id, question.text),
        ("edit", question.id, "words"),
        ("draft", "", ""),
    ]


def test_an_editor_comes_into_view_and_stays_there(qtbot: QtBot, transcript: Transcript) -> None:
    messages = conversation(4)
    transcript.show_messages(messages)
    settle(qtbot, transcript)
    view = view_of(transcript, messages[-2].id)
    assert isinstance(view, UserMessageView)
    view.start_editing()
    assert view.editor
    view.editor.focusProxy().setPlainText("word\n" * 11)
    assert view.editor.visibleRegion().boundingRect().height() == view.editor.height()


def test_the_tab_key_goes_through_messages_as_they_are_read(qtbot: QtBot, transcript: Transcript) -> None:
    messages = conversation(2, "Short.")
    transcript.show_messages(messages)
    settle(qtbot, transcript)
    messages += conversation(1, "Short.")
    transcript.show_asked(messages)
    settle(qtbot, transcript)
    transcript.activateWindow()
    qtbot.waitUntil(transcript.isActiveWindow)
    transcript.setFocus()
    reached: list[tuple[int, str]] = []
    views = list(transcript._stack.views)
    while len(reached) < 12:
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        focused = QApplication.focusWidget()
        place = next(place for place, view in enumerate(views) if view.isAncestorOf(focused))
        reached.append((place, focused.accessibleName()))
    answer = ("Copy this answer", "Regenerate this answer", "New chat from here")
    assert reached == [
        step
        for place in (0, 2, 4)
        for step in ((place, "Edit this message"), *((place + 1, name) for name in answer))
    ]
