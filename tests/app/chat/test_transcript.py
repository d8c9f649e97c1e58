"""The transcript builds little, follows the newest words, and stays where the user scrolled."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.appearance import Appearance
from app.chat import block_column, message_stack
from app.chat.block_column import BlockColumn
from app.chat.message_stack import MOST_DELETED
from app.chat.message_view import MessageView
from app.chat.prose_view import ProseView
from app.chat.transcript import Transcript
from app.store.records import ChatMessage
from app.theme import COLUMN_WIDTH, DARK
from tests.app.chat.transcripts import PARAGRAPH, at_end, conversation, settle


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
    seen = transcript._sight.first
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
    seen = transcript._sight.first
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
    seen = transcript._sight.first
    appearance.choose("dark")
    settle(qtbot, transcript)
    assert appearance.theme is DARK
    assert transcript._sight.first is seen


def test_many_messages_are_torn_down_a_few_at_a_time(qtbot: QtBot, transcript: Transcript) -> None:
    build_whole(qtbot, transcript, conversation(30))
    ended, in_a_turn = 0, [0]

    def count() -> None:
        nonlocal ended
        ended += 1
        in_a_turn[-1] += 1

    for view in transcript._stack.views:
        view.destroyed.connect(count)
    turn = QTimer()
    turn.timeout.connect(lambda: in_a_turn.append(0))
    turn.start(0)
    transcript.show_messages(conversation(1))
    assert transcript.built < 10
    qtbot.waitUntil(lambda: ended == 60)
    assert max(in_a_turn) <= 8  # of two turns, at most


def test_only_the_keys_of_new_messages_are_put_in_order(
    qtbot: QtBot, transcript: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = conversation(30)
    build_whole(qtbot, transcript, messages)
    controls, looked_at = message_stack._controls, list[MessageView]()

    def look(view: MessageView) -> list[QWidget]:
        looked_at.append(view)
        return controls(view)

    monkeypatch.setattr(message_stack, "_controls", look)
    transcript.show_asked([*messages, *conversation(1)])
    settle(qtbot, transcript)
    assert transcript._stack.views[-1] in looked_at
    assert len(looked_at) < 10


def build_whole(qtbot: QtBot, transcript: Transcript, messages: list[ChatMessage]) -> None:
    """Show a conversation, and look at all of it."""
    transcript.show_messages(messages)

    def is_whole() -> bool:
        transcript.verticalScrollBar().setValue(0)
        return transcript.built == len(messages) and not transcript._work.isActive()

    qtbot.waitUntil(is_whole)


ENDLESS = {
    "list": "\n".join(f"{number}. item of some words" for number in range(1, 5001)),
    "table": "| # | name | note |\n|--:|---|---|\n"
    + "\n".join(f"| {row} | name | words |" for row in range(1500)),
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_an_endless_list_or_table_does_not_hold_the_window(
    qtbot: QtBot, transcript: Transcript, text: str
) -> None:
    """Opened, laid out for another width, and left: by the thread's own time, whatever else is running."""
    beats: list[float] = []
    heart = QTimer()
    heart.timeout.connect(lambda: beats.append(time.thread_time()))
    heart.start(0)
    qtbot.waitUntil(lambda: bool(beats))
    transcript.show_messages([ChatMessage("c", "user", "All of it?"), ChatMessage("c", "assistant", text)])
    qtbot.waitUntil(lambda: bool(transcript.findChildren(BlockColumn)))
    column = transcript.findChildren(BlockColumn)[0]
    for width in (800, 500):
        transcript.resize(width, 600)
        qtbot.waitUntil(lambda: not (column._work.isActive() or transcript._work.isActive()))
        assert column.complete
    transcript.show_messages([])
    qtbot.waitUntil(lambda: not transcript._stack._ending.isActive())
    heart.stop()
    assert max(after - before for before, after in pairwise(beats)) < 0.1


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_what_is_seen_of_an_endless_answer_is_laid_out_at_once(
    qtbot: QtBot, transcript: Transcript, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_column, "FIT_SECONDS", 1e-9)
    transcript.show_messages([ChatMessage("c", "assistant", text)])
    qtbot.waitUntil(lambda: bool(transcript.findChildren(BlockColumn)))
    column = transcript.findChildren(BlockColumn)[0]
    qtbot.waitUntil(lambda: not (column._work.isActive() or transcript._work.isActive()))
    seen = [view for view in transcript.findChildren(ProseView) if not view.visibleRegion().isEmpty()]
    transcript.resize(500, 600)
    assert seen
    assert {view.lineWrapColumnOrWidth() for view in seen} == {column.width()}
    assert column._work.isActive()  # and is not done with the others


def test_of_an_endless_answer_that_is_left_a_few_blocks_end_at_a_time(
    qtbot: QtBot, transcript: Transcript
) -> None:
    transcript.show_messages([ChatMessage("c", "assistant", ENDLESS["list"])])
    qtbot.waitUntil(lambda: bool(transcript.findChildren(BlockColumn)))
    column = transcript.findChildren(BlockColumn)[0]
    qtbot.waitUntil(lambda: not column._work.isActive())
    left = [len(column.findChildren(ProseView))]
    transcript._stack._ending.timeout.connect(lambda: left.append(len(column.findChildren(ProseView))))
    transcript.show_messages([])
    qtbot.waitUntil(lambda: left[-1] <= MOST_DELETED)
    assert left[0] > 80
    assert max(before - after for before, after in pairwise(left)) <= MOST_DELETED
