"""The conversation on show and the answers on their way: folds engine events, saves, and tells the view."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.answer import Answer, advance
from app.chat.history import history
from app.chat.token_path import added_tokens, tokens_along
from app.models.models_view_model import ModelsViewModel
from app.store.chats import ChatStore
from app.store.records import Chat, ChatMessage, title_from
from engine import Cancel, Command, Event, Failed, Finished, Generate, PrefillProgress, TextChunk

SAVE_INTERVAL_MS = 300

Phase = Literal["idle", "waiting", "prefilling", "streaming", "stopping"]


class Store(Protocol):
    """What a conversation needs of the store; `StoreWorker` is one."""

    def save(self, value: Chat | ChatMessage) -> None:
        """Save the value soon."""
        ...

    def ask(
        self, question: Callable[[ChatStore], list[ChatMessage]], then: Callable[[list[ChatMessage]], None]
    ) -> None:
        """Answer later, on this thread."""
        ...


@dataclass(frozen=True, slots=True)
class ChatState:
    """Where the conversation on show stands; the prefill numbers are 0 unless it is prefilling."""

    phase: Phase = "idle"
    prefill_done: int = 0
    prefill_total: int = 0

    @property
    def busy(self) -> bool:
        """Whether an answer is on its way."""
        return self.phase != "idle"


@dataclass(slots=True)
class _OpenChat:
    """A chat in memory with the path on show, first message first."""

    chat: Chat
    path: list[ChatMessage]


class ConversationViewModel(QObject):
    """The conversation on show, and every answer on its way, shown or not.

    Signals: `opened(tuple of messages)` when another conversation is on show; `added(message)` and
    `changed(message)` for the one on show; `state_changed(ChatState)`; `chat_saved(Chat)` for any chat.
    """

    opened = Signal(object)
    added = Signal(object)
    changed = Signal(object)
    state_changed = Signal(object)
    chat_saved = Signal(object)

    def __init__(
        self,
        submit: Callable[[Command], None],
        store: Store,
        models: ModelsViewModel,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._submit = submit
        self._store = store
        self._models = models
        self._shown: _OpenChat | None = None
        self._wanted_id: str | None = None
        self._answers: dict[str, Answer] = {}
        self._live: dict[str, _OpenChat] = {}
        self._unsaved: set[str] = set()
        self._unseen: set[str] = set()
        self._state = ChatState()
        self._save_timer = QTimer(self)
        self._save_timer.setInterval(SAVE_INTERVAL_MS)
        self._save_timer.timeout.connect(self.save_now)

    @property
    def chat(self) -> Chat | None:
        """The chat on show; None for a new one without messages."""
        return self._shown.chat if self._shown else None

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The messages on show."""
        return tuple(self._shown.path) if self._shown else ()

    @property
    def state(self) -> ChatState:
        """Where the conversation on show stands."""
        return self._state

    @property
    def can_send(self) -> bool:
        """Whether a message can be sent now; also while a model loads, as the engine takes it up then."""
        return not self._state.busy and self._models.state.phase in ("loading", "ready")

    def send(self, text: str) -> bool:
        """Send the user's message and ask for the answer. False when it is blank or cannot be sent now."""
        text = _storable(text).strip()
        if not text or not self.can_send:
            return False
        shown = self._shown or self._begin(text)
        parent_id = shown.path[-1].id if shown.path else None
        question = ChatMessage(shown.chat.id, "user", text, parent_id)
        answer = ChatMessage(
            shown.chat.id, "assistant", "", question.id, status="streaming", model=self._models.state.path
        )
        shown.path += [question, answer]
        shown.chat = replace(shown.chat, leaf_id=answer.id, updated=time.time())
        self._answers[answer.id] = Answer(answer.id, answer)
        self._live[answer.id] = shown
        for value in (shown.chat, question, answer):
            self._store.save(value)
        self.chat_saved.emit(shown.chat)
        self.added.emit(question)
        self.added.emit(answer)
        self._submit(Generate(answer.id, messages=history(shown.path[:-1]), sampling=self._models.sampling))
        self._save_timer.start()
        self._update_state()
        return True

    def stop(self) -> None:
        """Ask the engine to end the answer on show; it has ended when its event says so."""
        answer = self._shown_answer()
        if answer and not answer.cancelled:
            self._answers[answer.request_id] = replace(answer, cancelled=True)
            self._submit(Cancel(answer.request_id))
            self._update_state()

    def new_chat(self) -> None:
        """Show an empty conversation; it becomes a chat with its first message."""
        self._wanted_id = None
        self._show(None)

    def open(self, chat: Chat) -> None:
        """Show another chat once its messages are read. Answers elsewhere go on."""
        self._wanted_id = chat.id
        live = next((open_chat for open_chat in self._live.values() if open_chat.chat.id == chat.id), None)
        if live or (self._shown and self._shown.chat.id == chat.id):
            self._show(live or self._shown)
            return

        def show(path: list[ChatMessage]) -> None:
            if self._wanted_id == chat.id:
                self._show(_OpenChat(chat, path))

        self._store.ask(lambda store: store.path(chat.id), show)

    def retitle(self, chat_id: str, title: str) -> None:
        """Take over a new title, so that saving does not bring the old one back."""
        for open_chat in (*self._live.values(), *([self._shown] if self._shown else [])):
            if open_chat.chat.id == chat_id:
                open_chat.chat = replace(open_chat.chat, title=title)

    def forget(self, chat_id: str) -> None:
        """The chat was deleted: end its answer, and show an empty conversation in its place."""
        for request_id, open_chat in self._live.items():
            if open_chat.chat.id == chat_id:
                self._answers[request_id] = replace(self._answers[request_id], cancelled=True)
                self._submit(Cancel(request_id))
        if self._shown and self._shown.chat.id == chat_id:
            self.new_chat()

    def handle(self, event: Event) -> None:
        """Take in an engine event; `flush` shows what came of it."""
        if (
            not isinstance(event, PrefillProgress | TextChunk | Finished | Failed)
            or event.id not in self._answers
        ):
            return
        answer = advance(self._answers[event.id], event)
        self._answers[event.id] = answer
        self._replace(event.id, answer.message)
        if answer.over:
            self._end(answer, event)

    def flush(self) -> None:
        """Tell the view what has changed since the last time; once a frame."""
        if self._shown and self._shown.path and self._shown.path[-1].id in self._unseen:
            self.changed.emit(self._shown.path[-1])
        self._unseen.clear()
        self._update_state()

    def save_now(self) -> None:
        """Save what has changed since the last time."""
        for message_id in self._unsaved:
            self._store.save(self._answers[message_id].message)
        self._unsaved.clear()
        if not self._answers:
            self._save_timer.stop()

    def _begin(self, text: str) -> _OpenChat:
        self._shown = _OpenChat(Chat(title_from(text)), [])
        return self._shown

    def _show(self, open_chat: _OpenChat | None) -> None:
        self._shown = open_chat
        self._unseen.clear()
        self.opened.emit(self.messages)
        self._update_state()

    def _replace(self, message_id: str, message: ChatMessage) -> None:
        # An answer is always the last of its path: sending waits until it has ended.
        self._live[message_id].path[-1] = message
        self._unsaved.add(message_id)
        self._unseen.add(message_id)

    def _end(self, answer: Answer, event: Event) -> None:
        open_chat = self._live.pop(answer.request_id)
        if isinstance(event, Finished) and event.prompt_tokens:  # without: it ended before its turn came
            question = open_chat.path[-2]
            kept, tokens = added_tokens(tokens_along(open_chat.path[:-2]), event.prompt_tokens)
            open_chat.path[-2] = replace(question, tokens=tokens, kept_tokens=kept)
            self._store.save(open_chat.path[-2])
        self._store.save(answer.message)
        self._unsaved.discard(answer.request_id)
        del self._answers[answer.request_id]

    def _shown_answer(self) -> Answer | None:
        return self._answers.get(self._shown.path[-1].id) if self._shown and self._shown.path else None

    def _update_state(self) -> None:
        answer = self._shown_answer()
        if answer is None:
            state = ChatState()
        elif answer.cancelled:
            state = ChatState("stopping")
        elif answer.phase == "prefilling":
            state = ChatState("prefilling", answer.prefill_done, answer.prefill_total)
        else:
            state = ChatState(answer.phase)
        if state != self._state:
            self._state = state
            self.state_changed.emit(state)


def _storable(text: str) -> str:
    """`text` without halves of surrogate pairs, which have no UTF-8 form."""
    return text.encode("utf-8", "replace").decode("utf-8")
