"""Conversations to fill a transcript with, and ways to look at it."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from app.chat.message_view import MessageView
from app.chat.transcript import Transcript
from app.store.records import ChatMessage

PARAGRAPH = "A page is a block of the KV cache. " * 20


def conversation(turns: int, text: str = PARAGRAPH) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    for number in range(turns):
        messages.append(ChatMessage("c", "user", f"Question {number}"))
        messages.append(ChatMessage("c", "assistant", f"{number}. {text}"))
    return messages


def view_of(transcript: Transcript, message_id: str) -> MessageView | None:
    """The message's widget."""
    return next((view for view in transcript._stack.views if view.message.id == message_id), None)


def settle(qtbot: QtBot, transcript: Transcript) -> None:
    """Let the slices of work come to an end."""
    qtbot.waitUntil(lambda: not transcript._work.isActive())


def at_end(transcript: Transcript) -> bool:
    bar = transcript.verticalScrollBar()
    return bar.value() == bar.maximum()
