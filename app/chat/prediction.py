"""What the message being written would find in the cache, or fail with: asked when typing pauses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.chat.cache_words import prediction_words, why_words
from app.chat.conversation import ConversationViewModel
from app.chat.refusal_words import warning_words
from app.models.models_view_model import ModelsViewModel
from engine import ChatMemory, ChatsCached, Command, Event, Failed, NoRoom, Predict, Predicted

PAUSE_MS = 250


class PredictionViewModel(QObject):
    """Predicts the message that is being written: `changed` tells of new `words`.

    Words that lie about do not bring a model back that rests: only those that are written do.
    """

    changed = Signal()

    def __init__(
        self,
        submit: Callable[[Command], None],
        conversation: ConversationViewModel,
        models: ModelsViewModel,
        answers_to: Callable[[str], int] = lambda edited_id: 1,
        parent: QObject | None = None,
    ) -> None:
        """`answers_to`: how many answers another version of a message is to have."""
        super().__init__(parent)
        self._submit = submit
        self._conversation = conversation
        self._models = models
        self._answers_to = answers_to
        self._chats: Mapping[str, ChatMemory] = {}
        self._text = ""
        self._is_written = False  # since it was asked last
        self._edited_id: str | None = None
        self._model = ""
        self._numbers = count(1)
        self._asked_id = ""
        self._words = self._why = ""
        self._is_crowded = False
        self._is_coming_back = False  # pages of what was predicted last, from SSD
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(PAUSE_MS)
        self._pause.timeout.connect(self._ask)

    @property
    def words(self) -> str:
        """The prediction, or "" when there is none."""
        return self._words

    @property
    def why(self) -> str:
        """Why not more would be cached, where much is not; "" otherwise."""
        return self._why

    @property
    def is_crowded(self) -> bool:
        """Whether the model rests because it would take others' room: it is loaded with the message only."""
        return self._is_crowded

    def draft(self, text: str, edited_id: str | None = None) -> None:
        """What is being written now, as a new message or as another version of one; "" for nothing."""
        if not text.strip() or edited_id != self._edited_id:
            self._say("")
        self._text, self._edited_id, self._is_written = text, edited_id, True
        self.renew()

    @Slot()
    def renew(self) -> None:
        """What it rests on has changed: ask again after a pause. Until then the last answer stands.

        One of another model does not.
        """
        self._asked_id = ""  # an answer that is still on its way is out of date
        if self._models.state.path != self._model:
            self._model = self._models.state.path
            self._say("")
        if self._text.strip():
            self._pause.start()
        else:
            self._pause.stop()

    def restart(self, text: str, edited_id: str | None = None) -> None:
        """Another conversation or version is on show: what was predicted is void."""
        self._say("")
        self.draft(text, edited_id)

    def handle(self, event: Event) -> None:
        """Take in an engine event. When the chat's pages come or go, what was predicted is asked anew."""
        if isinstance(event, Predicted) and event.id == self._asked_id:
            self._say(prediction_words(event), why_words(event, event.seconds))
            self._is_coming_back = event.restored_tokens > 0
        elif isinstance(event, Failed) and event.id == self._asked_id:
            self._say(warning_words(event), is_crowded=event.kind == NoRoom.__name__)
        elif isinstance(event, ChatsCached):
            self._follow(event.chats)

    def _follow(self, chats: Mapping[str, ChatMemory]) -> None:
        """Chats' pages lie elsewhere now: ask again after a pause, where that concerns what was predicted.

        What is found for a chat without pages is other chats'.
        """
        shown, before = self._conversation.chat, self._chats
        if shown is not None and shown.id in before.keys() | chats.keys():
            is_other = chats.get(shown.id) != before.get(shown.id)
        else:
            is_other = any(_is_less(chats.get(chat), memory) for chat, memory in before.items())
        self._chats = chats
        if (is_other and self._words) or self._is_coming_back:
            self._is_coming_back = False
            if not self._pause.isActive():  # pages that come and go all the time do not put it off
                self._pause.start()

    @Slot()
    def _ask(self) -> None:
        is_written, self._is_written = self._is_written, False
        if self._models.state.phase == "resting" and not is_written:
            return
        self._asked_id = f"prediction-{next(self._numbers)}"
        edited_id = self._edited_id
        answers = self._answers_to(edited_id) if edited_id else 1
        request = self._conversation.draft(self._asked_id, self._text, edited_id, answers)
        if request is None:
            self._say("")
        else:
            self._submit(Predict(request))

    def _say(self, words: str, why: str = "", *, is_crowded: bool = False) -> None:
        said = words, why, is_crowded
        if said != (self._words, self._why, self._is_crowded):
            self._words, self._why, self._is_crowded = said
            self.changed.emit()


def _is_less(now: ChatMemory | None, before: ChatMemory) -> bool:
    """Whether a chat has lost pages, in memory or on SSD."""
    return now is None or now.memory_bytes < before.memory_bytes or now.ssd_bytes < before.ssd_bytes
