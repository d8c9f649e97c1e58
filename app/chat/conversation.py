"""The conversation on show: what can be asked, edited, answered anew, branched and switched in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from PySide6.QtCore import QObject, Signal

from app import text as words
from app.chat.answering import Answering, Saver
from app.chat.history import exact_history, history
from app.chat.open_chat import ChatState, OpenChat, state_of
from app.chat.tree import MessageTree, Versions, copied
from app.models.models_view_model import ModelsViewModel
from app.store.chats import ChatStore
from app.store.records import Chat, ChatMessage, title_from
from engine import Command, Event, Forget, Generate


class Store(Saver, Protocol):
    """What a conversation needs of the store; `StoreWorker` is one."""

    def ask(
        self, question: Callable[[ChatStore], list[ChatMessage]], then: Callable[[list[ChatMessage]], None]
    ) -> None:
        """Answer later, on this thread."""
        ...


class ConversationViewModel(QObject):
    """The conversation on show: a path through the tree of its messages.

    Signals: `opened(tuple of messages)` when another conversation is on show; `asked(tuple of messages)` when
    an answer was asked for, the path's last; `switched(tuple of messages)` when another version is on show;
    `changed(message)` for the last one on show; `state_changed(ChatState)`; `chat_saved(Chat)` for any chat.
    """

    opened = Signal(object)
    asked = Signal(object)
    switched = Signal(object)
    changed = Signal(object)
    state_changed = Signal(object)
    chat_saved = Signal(object)

    def __init__(
        self,
        submit: Callable[[Command], None],
        store: Store,
        models: ModelsViewModel,
        title_of: Callable[[str], str],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._submit = submit
        self._store = store
        self._models = models
        self._answering = Answering(submit, store, title_of, self)
        self._shown: OpenChat | None = None
        self._wanted_id: str | None = None
        self._state = ChatState()

    @property
    def chat(self) -> Chat | None:
        """The chat on show; None for a new one without messages."""
        return self._shown.chat if self._shown else None

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The messages on show."""
        return self._shown.tree.path if self._shown else ()

    @property
    def state(self) -> ChatState:
        """Where the conversation on show stands."""
        return self._state

    @property
    def can_send(self) -> bool:
        """Whether a message can be sent now; also while a model loads, as the engine takes it up then."""
        return not self._state.busy and self._models.state.phase in ("loading", "ready")

    def versions(self, message_id: str) -> Versions:
        """Which of its versions a message on show is."""
        return self._shown.tree.versions(message_id) if self._shown else Versions()

    def send(self, text: str) -> bool:
        """Send the user's message and ask for the answer. False when it is blank or cannot be sent now."""
        text = self._sendable(text)
        if not text:
            return False
        if self._shown is None:
            self._shown = OpenChat(Chat(title_from(text)), MessageTree())
        leaf = self._shown.tree.leaf
        self._ask(self._shown, ChatMessage(self._shown.chat.id, "user", text, leaf.id if leaf else None))
        return True

    def edit(self, message_id: str, text: str) -> bool:
        """Send another version of a message of the user; the old one stays beside it. False as for `send`."""
        text = self._sendable(text)
        if not text or self._shown is None:
            return False
        old = self._shown.tree.get(message_id)
        self._ask(self._shown, ChatMessage(old.chat_id, "user", text, old.parent_id))
        return True

    def regenerate(self, message_id: str) -> bool:
        """Ask for another answer beside this one. False when nothing can be sent now."""
        if not self.can_send or self._shown is None:
            return False
        self._ask(self._shown, self._shown.tree.get(self._shown.tree.get(message_id).parent_id or ""))
        return True

    def switch(self, message_id: str, step: int) -> None:
        """Show the version `step` places behind this one, with what was last on show below it."""
        if self._shown is None:
            return
        before = self._shown.tree.leaf
        changed = self._shown.tree.switch(message_id, step)
        if self._shown.tree.leaf is before:
            return
        self._save(self._shown, *changed, updated=self._shown.chat.updated)
        self.switched.emit(self.messages)
        self._update_state()

    def branch(self, message_id: str) -> None:
        """Show a new chat that begins with the messages down to this one: the same words, the same tokens."""
        if self._shown is None:
            return
        title = self._shown.chat.title
        prefix = words.BRANCH_TITLE.format(title="")
        chat = Chat(title if title.startswith(prefix) else prefix + title)
        messages = copied(self._shown.tree.line(message_id), chat.id)
        branched = OpenChat(chat, MessageTree(messages, messages[-1].id))
        self._wanted_id = chat.id
        self._save(branched, *messages, updated=time.time())
        self._show(branched)

    def stop(self) -> None:
        """Ask the engine to end the answer on show; it has ended when its event says so."""
        leaf = self._shown.tree.leaf if self._shown else None
        if leaf:
            self._answering.cancel(leaf.id)
            self._update_state()

    def draft(self, request_id: str, text: str, edited_id: str | None = None) -> Generate | None:
        """What `send`, or `edit` of a message, would ask of the engine; None when there is nothing to ask."""
        text = self._sendable(text)
        if not text or self._models.state.phase != "ready":
            return None
        if self._shown is None:
            return self._request(request_id, "", (ChatMessage("", "user", text),))
        tree = self._shown.tree
        above = tree.line(tree.get(edited_id).parent_id) if edited_id else tree.path
        chat_id = self._shown.chat.id
        return self._request(request_id, chat_id, (*above, ChatMessage(chat_id, "user", text)))

    def new_chat(self) -> None:
        """Show an empty conversation; it becomes a chat with its first message."""
        self._wanted_id = None
        self._show(None)

    def open(self, chat: Chat) -> None:
        """Show another chat once its messages are read. Answers elsewhere go on."""
        self._wanted_id = chat.id
        live = self._answering.chat(chat.id)
        if live or (self._shown and self._shown.chat.id == chat.id):
            self._show(live or self._shown)
            return

        def show(messages: list[ChatMessage]) -> None:
            if self._wanted_id == chat.id:
                self._show(OpenChat(chat, MessageTree(messages, chat.leaf_id)))

        self._store.ask(lambda store: store.messages(chat.id), show)

    def retitle(self, chat_id: str, title: str) -> None:
        """Take over a new title, so that saving does not bring the old one back."""
        for open_chat in (self._answering.chat(chat_id), self._shown):
            if open_chat and open_chat.chat.id == chat_id:
                open_chat.chat = replace(open_chat.chat, title=title)

    def forget(self, chat_id: str) -> None:
        """The chat was deleted: end its answers, free its pages, show an empty conversation in its place."""
        self._answering.cancel_chat(chat_id)
        self._submit(Forget(chat_id))
        if self._shown and self._shown.chat.id == chat_id:
            self.new_chat()

    def handle(self, event: Event) -> None:
        """Take in an engine event; `flush` shows what came of it."""
        self._answering.handle(event)

    def flush(self) -> None:
        """Tell the view what has changed since the last time; once a frame."""
        changed = self._answering.take_changed()
        leaf = self._shown.tree.leaf if self._shown else None
        if leaf and leaf.id in changed:
            self.changed.emit(leaf)
        self._update_state()

    def save_now(self) -> None:
        """Save what has changed since the last time."""
        self._answering.save_now()

    def _sendable(self, text: str) -> str:
        """The text as it is sent; "" when it is blank, or nothing can be sent now."""
        return _storable(text).strip() if self.can_send else ""

    def _ask(self, shown: OpenChat, question: ChatMessage) -> None:
        """Ask for an answer to the question, which is put into the tree unless it is there."""
        model = self._models.state.path
        answer = ChatMessage(shown.chat.id, "assistant", "", question.id, status="streaming", model=model)
        new = (question, answer) if question.id not in shown.tree else (answer,)
        changed = [other for message in new for other in shown.tree.add(message)]
        self._save(shown, *changed, *new, updated=time.time())
        self.asked.emit(self.messages)
        request = self._request(answer.id, shown.chat.id, shown.tree.line(question.id))
        self._answering.ask(request, answer, shown)
        self._update_state()

    def _request(self, request_id: str, chat_id: str, path: tuple[ChatMessage, ...]) -> Generate:
        """The request for an answer to the last message of `path`."""
        return Generate(
            request_id,
            messages=history(path),
            sampling=self._models.sampling,
            history=exact_history(path, self._models.state.path),
            chat=chat_id,
            lane="window",
        )

    def _save(self, shown: OpenChat, *messages: ChatMessage, updated: float) -> None:
        """Save the chat with what is on show of it now, and the messages."""
        leaf = shown.tree.leaf
        shown.chat = replace(shown.chat, leaf_id=leaf.id if leaf else None, updated=updated)
        for value in (shown.chat, *messages):
            self._store.save(value)
        self.chat_saved.emit(shown.chat)

    def _show(self, open_chat: OpenChat | None) -> None:
        self._shown = open_chat
        self._answering.take_changed()
        self.opened.emit(self.messages)
        self._update_state()

    def _update_state(self) -> None:
        leaf = self._shown.tree.leaf if self._shown else None
        state = state_of(self._answering.answer(leaf.id) if leaf else None)
        if state != self._state:
            self._state = state
            self.state_changed.emit(state)


def _storable(text: str) -> str:
    """`text` without halves of surrogate pairs, which have no UTF-8 form."""
    return text.encode("utf-8", "replace").decode("utf-8")
