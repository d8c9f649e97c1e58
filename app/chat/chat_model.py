"""Which model answers in a chat: the one that was chosen there, or that answered last."""

from __future__ import annotations

from PySide6.QtCore import QObject, Slot

from app.chat.conversation import ConversationViewModel
from app.models.models_view_model import ModelsViewModel
from app.store.records import ChatMessage


class ChatModel(QObject):
    """Chooses a chat's model when it comes on show, where the engine has it: no chat loads one by itself."""

    def __init__(
        self, models: ModelsViewModel, conversation: ConversationViewModel, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._models = models
        self._conversation = conversation
        self._chosen: dict[str, str] = {}
        models.chosen.connect(self._note)
        conversation.opened.connect(self._choose)

    @Slot(str)
    def _note(self, path: str) -> None:
        if self._conversation.chat is not None:
            self._chosen[self._conversation.chat.id] = path

    @Slot(object)
    def _choose(self, messages: tuple[ChatMessage, ...]) -> None:
        if self._conversation.chat is None:
            return
        answered = next((message.model for message in reversed(messages) if message.model), "")
        self._models.choose(self._chosen.get(self._conversation.chat.id, answered))
