"""The answers on their way, on show or not: folds the engine's events into their chats, and saves them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from PySide6.QtCore import QObject, QTimer

from app.chat.answer import Answer, advance
from app.chat.open_chat import OpenChat
from app.chat.refusal_words import failure_words
from app.chat.token_path import with_tokens
from app.store.records import Chat, ChatMessage
from engine import (
    CacheReport,
    Cancel,
    Command,
    Event,
    Failed,
    Finished,
    Generate,
    PrefillProgress,
    TextChunk,
)

SAVE_INTERVAL_MS = 300


class Saver(Protocol):
    """What saves chats and messages; `StoreWorker` is one."""

    def save(self, value: Chat | ChatMessage) -> None:
        """Save the value soon."""
        ...


class Answering(QObject):
    """Every request in flight, with the chat it writes to.

    `title_of` gives a chat's title for its id; "" for one that is not known.
    """

    def __init__(
        self,
        submit: Callable[[Command], None],
        store: Saver,
        title_of: Callable[[str], str],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._submit = submit
        self._store = store
        self._title_of = title_of
        self._answers: dict[str, Answer] = {}
        self._chats: dict[str, OpenChat] = {}
        self._unsaved: set[str] = set()
        self._unseen: set[str] = set()
        self._save_timer = QTimer(self)
        self._save_timer.setInterval(SAVE_INTERVAL_MS)
        self._save_timer.timeout.connect(self.save_now)

    def ask(self, request: Generate, message: ChatMessage, open_chat: OpenChat) -> None:
        """Submit the request; its words go into `message`, which is in the chat's tree."""
        self._answers[request.id] = Answer(request.id, message)
        self._chats[request.id] = open_chat
        self._submit(request)
        self._save_timer.start()

    def answer(self, message_id: str) -> Answer | None:
        """The answer that writes this message; None when it has ended."""
        return self._answers.get(message_id)

    def chat(self, chat_id: str) -> OpenChat | None:
        """The chat, when an answer of it is on its way."""
        return next((found for found in self._chats.values() if found.chat.id == chat_id), None)

    def cancel(self, message_id: str) -> None:
        """Ask the engine to end an answer; it has ended when its event says so."""
        answer = self._answers.get(message_id)
        if answer and not answer.cancelled:
            self._answers[message_id] = replace(answer, cancelled=True)
            self._submit(Cancel(message_id))

    def cancel_chat(self, chat_id: str) -> None:
        """Ask the engine to end every answer of the chat."""
        for message_id, open_chat in self._chats.items():
            if open_chat.chat.id == chat_id:
                self.cancel(message_id)

    def handle(self, event: Event) -> None:
        """Take in an engine event."""
        if not isinstance(event, CacheReport | PrefillProgress | TextChunk | Finished | Failed):
            return
        if event.id not in self._answers:
            return
        if isinstance(event, Failed):
            event = replace(event, error=failure_words(event, self._title_of))
        answer = advance(self._answers[event.id], event)
        self._answers[event.id] = answer
        self._chats[event.id].tree.replace(answer.message)
        self._unsaved.add(event.id)
        self._unseen.add(event.id)
        if answer.over:
            self._end(answer, event)

    def take_changed(self) -> set[str]:
        """The messages that have changed since the last time."""
        changed, self._unseen = self._unseen, set()
        return changed

    def save_now(self) -> None:
        """Save what has changed since the last time."""
        for message_id in self._unsaved:
            self._store.save(self._chats[message_id].tree.get(message_id))
        self._unsaved.clear()
        if not self._answers:
            self._save_timer.stop()

    def _end(self, answer: Answer, event: Event) -> None:
        tree = self._chats.pop(answer.request_id).tree
        ended = (answer.message,)
        if isinstance(event, Finished) and event.prompt_tokens:  # without: it ended before its turn came
            is_only_answer = tree.versions(answer.message.id).count == 1
            ended = with_tokens(tree.line(answer.message.id), event.prompt_tokens, is_only_answer)
        for message in ended:
            tree.replace(message)
            self._store.save(tree.get(message.id))
        self._unsaved.discard(answer.request_id)
        del self._answers[answer.request_id]
