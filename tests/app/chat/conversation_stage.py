"""A conversation on a stage: its view model, what it sent to the engine, and a way to play the engine."""

from __future__ import annotations

from pathlib import Path

from app.chat.chat_list import ChatListViewModel
from app.chat.conversation import ConversationViewModel
from app.chat.tree import MessageTree
from app.models.models_view_model import ModelsViewModel
from app.store.records import ChatMessage
from engine import Command, Event, Finished, FinishReason, Generate, LoadModel, ModelReady, Timing
from tests.fakes.instant_store import InstantStore
from tests.fakes.scripted_engine import model_info

TITLES = {"pinned": "A pinned chat"}


class Stage:
    """A conversation, what it sent to the engine, and a way to play the engine."""

    def __init__(self, store: InstantStore | None = None) -> None:
        self.sent: list[Command] = []
        self.store = store or InstantStore()
        self.models = ModelsViewModel(self.sent.append, Path("/guide"))
        self.chats = ChatListViewModel(self.store)
        self.chat = ConversationViewModel(
            self.sent.append,
            self.store,
            self.models,
            lambda chat: TITLES.get(chat, ""),
            self.chats.moment_of,
        )
        self.chat.chat_saved.connect(self.chats.upsert)
        self.phases: list[str] = []
        self.chat.state_changed.connect(lambda state: self.phases.append(state.phase))

    def ready(self, model: str = "/models/tiny") -> None:
        self.models.open(model)
        if self.models.state.phase == "ready":  # the engine has it already
            return
        load = self.sent[-1]
        assert isinstance(load, LoadModel)
        self.models.handle(ModelReady(load.id, model_info(model)))

    def requests(self) -> list[Generate]:
        return [command for command in self.sent if isinstance(command, Generate)]

    def ask(self, text: str) -> Generate:
        assert self.chat.send(text)
        request = self.sent[-1]
        assert isinstance(request, Generate)
        return request

    def play(self, *events: Event) -> None:
        for event in events:
            self.chat.handle(event)
            self.chat.flush()

    def saved(self) -> list[ChatMessage]:
        assert self.chat.chat
        saved = MessageTree(self.store.chats.messages(self.chat.chat.id), self.chat.chat.leaf_id)
        return list(saved.path)


def finished(
    request: Generate, text: str, prompt: tuple[int, ...] = (1, 2), reason: FinishReason = "stop"
) -> Finished:
    return Finished(request.id, reason, text, (8, 9), prompt, None, Timing(50.0, 2, 0, 1.0, 2.0))


def told(request: Generate) -> list[str]:
    assert request.messages
    return [message.content for message in request.messages]


def shown(stage: Stage) -> list[str]:
    return [message.text for message in stage.chat.messages]


def answered(stage: Stage, question: str, answer: str) -> Generate:
    """Ask and let the engine answer: its prompt is the history it was given, and two tokens more."""
    request = stage.ask(question)
    known = request.history.tokens if request.history else ()
    stage.play(finished(request, answer, prompt=(*known, 4, 5)))
    return request


def last_request(stage: Stage) -> Generate:
    request = stage.sent[-1]
    assert isinstance(request, Generate)
    return request
