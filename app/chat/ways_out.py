"""What is done when a way out of a refusal is taken: the button's wish becomes commands and settings."""

from __future__ import annotations

from collections.abc import Callable

from app.chat.chat_words import unasked
from app.chat.conversation import ConversationViewModel
from app.chat.pins import PinsViewModel
from app.models.models_view_model import ModelsViewModel


class WaysOut:
    """Takes the ways that the engine named.

    `edit` opens the editor of a message, to ask for so many answers; `store_in_bits` keeps the wish for KV
    memory of so many bits for the model at a path; `show_context` shows where that one's context is set;
    `say` tells why nothing could be asked anew.
    """

    def __init__(
        self,
        conversation: ConversationViewModel,
        models: ModelsViewModel,
        pins: PinsViewModel,
        edit: Callable[[str, int], None],
        store_in_bits: Callable[[int, str], None],
        show_context: Callable[[str], None],
        say: Callable[[str], None],
    ) -> None:
        self._conversation, self._models, self._pins = conversation, models, pins
        self._edit, self._store_in_bits, self._show_context = edit, store_in_bits, show_context
        self._say = say

    def take(self, message_id: str, number: int) -> None:
        """Take way `number` of those named for this answer, and ask anew where that can help now."""
        refused = self._conversation.refused(message_id)
        if refused is None:
            return
        answers, shortens = refused.answers, False
        for part in refused.ways[number]:
            match part.kind:
                case "shorten":
                    shortens = True
                case "quantise":
                    self._store_in_bits(part.amount, self._model_of(message_id))
                    return
                case "larger context":
                    self._show_context(self._model_of(message_id))
                    return
                case "fewer answers":
                    answers = part.amount
                case "evict":
                    self._pins.pin(part.chat, False)
        if shortens:
            self._edit(self._question_of(message_id), answers)
            return
        if not self._conversation.regenerate(message_id, answers):
            self._say(unasked(self._conversation.state, self._models.state, self._models.is_guide))

    def _model_of(self, message_id: str) -> str:
        return next(message.model for message in self._conversation.messages if message.id == message_id)

    def _question_of(self, message_id: str) -> str:
        path = [message.id for message in self._conversation.messages]
        return path[path.index(message_id) - 1]
