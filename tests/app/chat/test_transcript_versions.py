"""Other versions in the transcript: what is above stays, what is below is built as far as it is seen."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from app.chat.answer_view import AnswerView
from app.chat.transcript import Transcript
from app.chat.user_message_view import UserMessageView
from app.store.records import ChatMessage
from tests.app.chat.transcripts import PARAGRAPH, at_end, conversation, settle, view_of


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
    seen = transcript._sight.first
    assert seen
    at = messages.index(seen.message) + 1
    before = place_of(transcript, seen.message)
    other = answered_anew(messages, at, 6)
    transcript.show_switched(other)
    settle(qtbot, transcript)
    assert transcript._sight.first is seen
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
    transcript.regenerated.connect(lambda name, answers: heard.append(("again", name, answers)))
    transcript.branched.connect(lambda name: heard.append(("branch", name)))
    transcript.stepped.connect(lambda name, step: heard.append(("step", name, step)))
    transcript.edited.connect(lambda name, words, answers: heard.append(("edit", name, words, answers)))
    transcript.drafted.connect(lambda name, words: heard.append(("draft", name, words)))
    first, last = view_of(transcript, question.id), view_of(transcript, answer.id)
    assert isinstance(first, UserMessageView)
    assert isinstance(last, AnswerView)
    last.regenerated.emit(3)
    last.branched.emit()
    last.stepped.emit(-1)
    first.start_editing()
    first.edited.emit("words")
    first.stop_editing()
    assert heard == [
        ("again", answer.id, 3),
        ("branch", answer.id),
        ("step", answer.id, -1),
        ("draft", question.id, question.text),
        ("edit", question.id, "words", 1),
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


ANSWER = ("Copy this answer", "Regenerate this answer", "Answer this several ways", "New chat from here")


def reached_by_tab(qtbot: QtBot, transcript: Transcript, stops: int) -> list[tuple[int, str]]:
    """The next `stops` controls behind the conversation: in which view each is, and its name."""
    transcript.activateWindow()
    qtbot.waitUntil(transcript.isActiveWindow)
    transcript.setFocus()
    reached: list[tuple[int, str]] = []
    views = list(transcript._stack.views)
    while len(reached) < stops:
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        focused = QApplication.focusWidget()
        place = next((place for place, view in enumerate(views) if view.isAncestorOf(focused)), -1)
        reached.append((place, focused.accessibleName()))
    return reached


def test_the_tab_key_goes_through_messages_as_they_are_read(qtbot: QtBot, transcript: Transcript) -> None:
    messages = conversation(2, "Short.")
    transcript.show_messages(messages)
    settle(qtbot, transcript)
    messages += conversation(1, "Short.")
    transcript.show_asked(messages)
    settle(qtbot, transcript)
    assert reached_by_tab(qtbot, transcript, 15) == [
        step
        for place in (0, 2, 4)
        for step in ((place, "Edit this message"), *((place + 1, name) for name in ANSWER))
    ]


def test_the_tab_key_goes_in_order_through_messages_that_came_on_show_by_scrolling(
    qtbot: QtBot, transcript: Transcript
) -> None:
    transcript.show_messages(conversation(12))
    settle(qtbot, transcript)
    assert transcript.built < 24

    def at_top() -> bool:
        transcript.verticalScrollBar().setValue(0)
        return transcript.built == 24 and not transcript._work.isActive()

    qtbot.waitUntil(at_top)
    places = [place for place, _ in reached_by_tab(qtbot, transcript, 5 * 12)]
    assert places == sorted(places)
    assert places[-1] == 23


def test_the_tab_key_goes_through_code_that_was_written_meanwhile_as_it_is_read(
    qtbot: QtBot, transcript: Transcript
) -> None:
    question, answer = conversation(1, "")
    answer = replace(answer, text="", status="streaming")
    transcript.show_asked([question, answer])
    settle(qtbot, transcript)
    answer = replace(answer, text="Look:\n\n```\na page\n```\n")
    transcript.update_last(answer)
    transcript.update_last(replace(answer, text=f"{answer.text}\nThat is it.", status="complete"))
    settle(qtbot, transcript)
    assert reached_by_tab(qtbot, transcript, 6) == [
        (0, "Edit this message"),
        (1, "Copy this code"),
        *((1, name) for name in ANSWER),
    ]


def test_a_view_that_goes_while_it_is_being_built_says_nothing_more(
    qtbot: QtBot, transcript: Transcript
) -> None:
    question, answer = conversation(1, "- a page\n\nof words\n\n```\ncode\n```\n\n" * 300)
    transcript.show_messages([question, answer])
    transcript._work_a_slice()
    old = view_of(transcript, answer.id)
    assert isinstance(old, AnswerView)
    assert old._body._blocks._work.isActive()
    transcript.show_switched([question, ChatMessage("c", "assistant", "Instead.")])
    old._body._blocks._work_a_slice()
    settle(qtbot, transcript)
    assert transcript.built == 2


def test_activity_is_said_by_a_view_that_is_built_later(qtbot: QtBot, transcript: Transcript) -> None:
    question, answer = conversation(1, "")
    streaming = replace(answer, text="", status="streaming")
    transcript.show_messages([question, streaming])
    transcript.show_activity("Reading 5 of 9 tokens")
    settle(qtbot, transcript)
    view = view_of(transcript, answer.id)
    assert view
    assert "Reading 5 of 9 tokens" in [
        label.text() for label in view.findChildren(QLabel) if label.isVisible()
    ]
