"""The conversation on show: what can be asked, edited, answered anew, branched and switched in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal, SignalInstance

from app import text as words
from app.chat.answering import Answering, Refused
from app.chat.open_chat import ChatState, OpenChat, state_of
from app.chat.refusal_words import way_words
from app.chat.request import request_for
from app.chat.tree import MessageTree, Versions
from app.models.models_view_model import ModelsViewModel
from app.store.face import Store
from app.store.records import Chat, ChatMessage, storable, title_from
from engine import Command, Event, Forget, Generate


class ConversationViewModel(QObject):
    """The conversation on show: a path through the tree of its messages.

    Signals: `opened(tuple of messages)` when another conversation is on show; `asked(tuple of messages)` when
    an answer was asked for, the path's last; `switched(tuple of messages)` when another version is on show;
    `changed(message)` for the last one on show; `state_changed(ChatState)`; `chat_saved(Chat)` for any chat;
    `answering_changed(chat ids)` of those that an answer is on its way for.
    """

    opened = Signal(object)
    asked = Signal(object)
    switched = Signal(object)
    changed = Signal(object)
    state_changed = Signal(object)
    chat_saved = Signal(object)
    answering_changed = Signal(object)

    def __init__(
        self,
        submit: Callable[[Command], None],
        store: Store,
        models: ModelsViewModel,
        title_of: Callable[[str], str],
        moment_of: Callable[[str], float],
        parent: QObject | None = None,
    ) -> None:
        """`moment_of` tells when a chat is used now, for its place in the list."""
        super().__init__(parent)
        self._submit = submit
        self._store = store
        self._models = models
        self._answering = Answering(submit, store, self)
        self._title_of, self._moment_of = title_of, moment_of
        self._shown: OpenChat | None = None
        self._wanted: OpenChat | None = None  # blank until it is read
        self._state = ChatState()
        self._together: tuple[str, ...] = ()
        self._answered = frozenset[str]()

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
    def context_tokens(self) -> int | None:
        """Tokens of the path on show, with the answer on its way; None where the model has not told them."""
        return self._answering.context_tokens(self.messages, self._models.state.path)

    @property
    def can_send(self) -> bool:
        """Whether a message can be sent now; also while a model loads, as the engine takes it up then."""
        return self._state.phase == "idle" and self._models.takes_requests

    def refused(self, message_id: str) -> Refused | None:
        """What could not be held for this answer, in this run of the app."""
        return self._answering.refused.get(message_id)

    def ways_out(self, message_id: str) -> list[str]:
        """What would let a refused answer run, in words."""
        refused = self.refused(message_id)
        if refused is None:
            return []
        return [way_words(way, self._title_of, refused.words_a_token) for way in refused.ways]

    def together(self, message_id: str) -> tuple[ChatMessage, ...]:
        """The answers that are on show beside this one, and it, until one is kept; it alone otherwise."""
        return self._shown.beside(message_id) if self._shown else ()

    def shows(self, request_id: str) -> bool:
        """Whether an answer to this request is the last message on show."""
        leaf = self._shown.tree.leaf if self._shown else None
        return leaf is not None and request_id in (leaf.id, *self._ids_together())

    def versions(self, message_id: str) -> Versions:
        """Which of its versions a message on show is."""
        return self._shown.tree.versions(message_id) if self._shown else Versions()

    def send(self, text: str, answers: int = 1) -> bool:
        """Send the user's message and ask for answers. False when it is blank or cannot be sent now."""
        text = self._sendable(text)
        if not text:
            return False
        if self._shown is None:
            self._shown = OpenChat(Chat(title_from(text), system=self._models.system), MessageTree())
        leaf = self._shown.tree.leaf
        question = ChatMessage(self._shown.chat.id, "user", text, leaf.id if leaf else None)
        self._ask(self._shown, question, answers)
        return True

    def edit(self, message_id: str, text: str, answers: int = 1) -> bool:
        """Send another version of a message of the user; the old one stays beside it. False as for `send`."""
        text = self._sendable(text)
        if not text or self._shown is None:
            return False
        old = self._shown.tree.get(message_id)
        self._ask(self._shown, ChatMessage(old.chat_id, "user", text, old.parent_id), answers)
        return True

    def regenerate(self, message_id: str, answers: int = 1) -> bool:
        """Ask for more answers beside this one; False when it cannot be."""
        if not self.can_send or self._shown is None:
            return False
        tree = self._shown.tree
        self._ask(self._shown, tree.get(tree.get(message_id).parent_id or ""), answers)
        return True

    def keep(self, message_id: str) -> None:
        """Go on with this one of several answers; the others stay as its versions, their memory is freed.

        Nothing happens for one without a word.
        """
        shown = self._shown
        if shown is None or message_id not in shown.several or not shown.tree.get(message_id).text:
            return
        others = [other for other in shown.several if other != message_id]
        changed = shown.keep(message_id)
        self._answering.keep(message_id, others, shown)
        self._save(shown, *changed)
        self._tell(self.switched)

    def switch(self, message_id: str, step: int) -> None:
        """Show the version `step` places behind this one, with what was last on show below it.

        Nothing happens for one of several answers: they are on show together.
        """
        if self._shown is None or message_id in self._shown.several:
            return
        before = self._shown.tree.leaf
        changed = self._shown.tree.switch(message_id, step)
        if self._shown.tree.leaf is before:
            return
        self._save(self._shown, *changed, is_use=False)
        self._tell(self.switched)

    def branch(self, message_id: str) -> None:
        """Show a new chat that begins with the messages down to this one: the same words, the same tokens."""
        if self._shown is None:
            return
        prefix, title = words.BRANCH_TITLE.format(title=""), self._shown.chat.title
        self._wanted = branched = self._shown.branched(message_id, prefix + title.removeprefix(prefix))
        self._save(branched, *branched.tree.path)
        self._answering.share(branched)
        self._show(branched)

    def stop(self) -> None:
        """Ask the engine to end the answer on show; it has ended when its event says so."""
        leaf = self._shown.tree.leaf if self._shown else None
        if leaf:
            self._answering.cancel(leaf.id)
            self._update_state()

    def draft(
        self, request_id: str, text: str, edited_id: str | None = None, answers: int = 1
    ) -> Generate | None:
        """What `send`, or `edit` of a message, would ask of the engine; None when there is nothing to ask."""
        text = self._sendable(text)
        if not text or self._models.state.phase not in ("ready", "resting"):
            return None
        chat, above = Chat("", id="", system=self._models.system), self.messages
        if self._shown is not None:
            chat, tree = self._shown.chat, self._shown.tree
            above = tree.line(tree.get(edited_id).parent_id) if edited_id else tree.path
        path, model = (*above, ChatMessage(chat.id, "user", text)), self._models.state.path
        return request_for(request_id, chat, path, model, self._models.sampling(answers), answers)

    def new_chat(self) -> None:
        """Show an empty conversation; it becomes a chat with its first message."""
        self._wanted = None
        self._show(None)

    def open(self, chat: Chat) -> None:
        """Show another chat once its messages are read; the one on show stays. Answers elsewhere go on."""
        self._wanted = wanted = OpenChat(chat, MessageTree())
        if self._shown and self._shown.chat.id == chat.id:
            return  # it stays as it is: where it was scrolled to, and what is being edited in it
        if live := self._answering.chat(chat.id):
            self._show(live)
            return

        def show(messages: list[ChatMessage]) -> None:
            if self._wanted is wanted:
                wanted.tree = MessageTree(messages, chat.leaf_id)
                self._show(wanted)

        self._store.ask(lambda store: store.messages(chat.id), show)

    def retitle(self, chat_id: str, title: str) -> None:
        """Take over a new title, so that saving does not bring the old one back."""
        for open_chat in (self._answering.chat(chat_id), self._shown, self._wanted):
            if open_chat and open_chat.chat.id == chat_id:
                open_chat.chat = replace(open_chat.chat, title=title)

    def forget(self, chat_id: str) -> None:
        """The chat was deleted: end its answers, free its pages, show an empty conversation in its place."""
        self._answering.cancel_chat(chat_id)
        self._submit(Forget(chat_id))
        if self._wanted and self._wanted.chat.id == chat_id:
            self._wanted = None
        if self._shown and self._shown.chat.id == chat_id:
            self.new_chat()

    def model_of(self, request_id: str) -> str:
        """The model that answers a request in flight; "" for another request."""
        return self._answering.model_of(request_id)

    def handle(self, event: Event) -> None:
        """Take in an engine event; `flush` shows what came of it."""
        self._answering.handle(event)

    def flush(self) -> None:
        """Tell the view what has changed since the last time; once a frame."""
        changed = self._answering.take_changed()
        leaf = self._shown.tree.leaf if self._shown else None
        if leaf and self._ids_together() != self._together:  # of several answers one is left
            self._tell(self.switched)
        elif leaf and not changed.isdisjoint((leaf.id, *self._together)):
            self.changed.emit(leaf)
        self._update_state()

    def save_now(self, *, is_last: bool = False) -> None:
        """Save what has changed since the last time. `is_last`: MLXR ends, and with it what is on its way."""
        self._answering.save_now(is_last=is_last)

    def _sendable(self, text: str) -> str:
        """The text as it is sent; "" when it is blank, or nothing can be sent now."""
        return storable(text).strip() if self.can_send else ""

    def _ask(self, shown: OpenChat, question: ChatMessage, count: int = 1) -> None:
        """Ask for answers to the question, which may be in the tree already."""
        model = self._models.state.path
        answers, changed = shown.ask(question, count, model)
        self._save(shown, *changed)
        path, sampling = shown.tree.line(question.id), self._models.sampling(count)
        request = request_for(answers[0].id, shown.chat, path, model, sampling, count)
        self._answering.ask(request, answers, shown)
        self._tell(self.asked)

    def _save(self, shown: OpenChat, *messages: ChatMessage, is_use: bool = True) -> None:
        """Save the chat with what is on show of it now, and the messages. `is_use`: it is the newest now."""
        leaf = shown.tree.leaf
        updated = self._moment_of(shown.chat.id) if is_use else shown.chat.updated
        shown.chat = replace(shown.chat, leaf_id=leaf.id if leaf else None, updated=updated)
        for value in (shown.chat, *messages):
            self._store.save(value)
        self.chat_saved.emit(shown.chat)

    def _show(self, open_chat: OpenChat | None) -> None:
        self._shown = open_chat
        self._answering.take_changed()
        self._tell(self.opened)

    def _tell(self, signal: SignalInstance) -> None:
        """Other messages are on show."""
        self._together = self._ids_together()
        signal.emit(self.messages)
        self._update_state()

    def _ids_together(self) -> tuple[str, ...]:
        return tuple(message.id for message in self._shown.together()) if self._shown else ()

    def _update_state(self) -> None:
        leaf = self._shown.tree.leaf if self._shown else None
        answers = self._answering.answers(leaf.id) if leaf else ()
        state = state_of(answers, choosing=bool(self._ids_together()))
        if state != self._state:
            self._state = state
            self.state_changed.emit(state)
        if self._answering.chats != self._answered:
            self._answered = self._answering.chats
            self.answering_changed.emit(self._answered)
