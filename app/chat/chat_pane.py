"""The conversation's side of the window: model, messages, composer and status line, joined to view models."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QHBoxLayout, QStackedLayout, QVBoxLayout, QWidget

from app import text
from app.appearance import Appearance
from app.chat.chat_words import absence, activity, greeting, hindrance, load_problem, placeholder
from app.chat.composer import Composer
from app.chat.conversation import ConversationViewModel
from app.chat.drafts import DraftsViewModel
from app.chat.edits import Edits
from app.chat.empty_state import EmptyState
from app.chat.engine_status import StatusTexts, reading, status_texts
from app.chat.prediction import PredictionViewModel
from app.chat.status_line import StatusLine
from app.chat.status_view_model import StatusViewModel
from app.chat.transcript import Transcript
from app.models.model_button import ModelButton
from app.models.models_view_model import ModelsViewModel
from app.store.records import ChatMessage
from app.theme import COLUMN_WIDTH
from app.widgets.banner import Banner
from app.widgets.icon_button import IconButton

SIDE = 16


class ChatPane(QWidget):
    """Shows one conversation. Intents: `sidebar_wanted`, `dashboard_wanted` and `settings_wanted`."""

    sidebar_wanted = Signal()
    dashboard_wanted = Signal()
    settings_wanted = Signal()

    def __init__(
        self,
        appearance: Appearance,
        conversation: ConversationViewModel,
        models: ModelsViewModel,
        status: StatusViewModel,
        prediction: PredictionViewModel,
        drafts: DraftsViewModel,
        edits: Edits,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("chatPane")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._conversation, self._models = conversation, models
        self._status, self._prediction, self._drafts = status, prediction, drafts
        self._appearance = appearance
        self._read_id = ""
        self.model_button = ModelButton(appearance, models.guide)
        self.store_banner = Banner(appearance)
        self.model_banner = Banner(appearance, "danger")
        self.empty_state = EmptyState(appearance)
        self.transcript = Transcript(appearance, conversation, edits)
        self.composer = Composer(appearance)
        self.status_line = StatusLine()
        self._arrange()
        self._connect_view_models()
        self._connect_widgets()
        self._show_model()
        self._show_conversation(conversation.messages)

    def _arrange(self) -> None:
        self._stack = QStackedLayout()
        self._stack.addWidget(self.empty_state)
        self._stack.addWidget(self.transcript)
        self._banners = banners = QVBoxLayout()
        banners.setContentsMargins(SIDE, 0, SIDE, 0)
        banners.setSpacing(8)
        banners.addWidget(self.store_banner)
        banners.addWidget(self.model_banner)
        bottom = QHBoxLayout()
        bottom.setContentsMargins(SIDE, 8, SIDE, 16)
        self.composer.setMaximumWidth(COLUMN_WIDTH + 2 * SIDE)
        bottom.addWidget(self.composer)
        self._column = column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self._make_top_bar())
        column.addLayout(banners)
        column.addLayout(self._stack, 1)
        column.addLayout(bottom)
        column.addWidget(self.status_line)

    def add_banner(self, banner: Banner) -> None:
        """Give it a place over the conversation, above those that are there."""
        self._banners.insertWidget(0, banner)

    def add_strip(self, strip: QWidget) -> None:
        """Give it a place over the status line."""
        self._column.insertWidget(self._column.indexOf(self.status_line), strip)

    def _make_top_bar(self) -> QHBoxLayout:
        sidebar = IconButton(self._appearance, "sidebar", "Show or hide the list of chats")
        sidebar.clicked.connect(self.sidebar_wanted)
        dashboard = IconButton(self._appearance, "dashboard", "Dashboard: what the engine does")
        dashboard.clicked.connect(self.dashboard_wanted)
        settings = IconButton(self._appearance, "settings", "Settings")
        settings.clicked.connect(self.settings_wanted)
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 6, 8, 6)
        bar.setSpacing(4)
        bar.addWidget(sidebar)
        bar.addWidget(self.model_button)
        bar.addStretch(1)
        bar.addWidget(dashboard)
        bar.addWidget(settings)
        return bar

    def _connect_view_models(self) -> None:
        self._conversation.opened.connect(self._show_conversation)
        self._conversation.asked.connect(self._show_asked)
        self._conversation.switched.connect(self._show_switched)
        self._conversation.changed.connect(self._change)
        self._conversation.state_changed.connect(self._show_state)
        self._models.state_changed.connect(self._show_model)
        self._models.recent_changed.connect(self.model_button.show_recent)
        self._status.changed.connect(self._show_status)
        self._prediction.changed.connect(self._show_status)
        self._drafts.shown.connect(self.composer.set_text)

    def _connect_widgets(self) -> None:
        self.composer.sent.connect(self._send)
        self.composer.sent_several.connect(self._send)
        self.composer.stopped.connect(self._conversation.stop)
        self.composer.scroll_requested.connect(self.transcript.scroll_pages)
        self.composer.drafted.connect(self._draft_message)
        self.composer.drafted.connect(self._drafts.write)
        self.transcript.drafted.connect(self._draft_edit)
        self.transcript.edited.connect(self._conversation.edit)
        self.transcript.regenerated.connect(self._conversation.regenerate)
        self.transcript.kept.connect(self._keep)
        self.transcript.branched.connect(self._conversation.branch)
        self.transcript.stepped.connect(self._conversation.switch)
        self.empty_state.suggested.connect(self._conversation.send)
        self.model_button.chosen.connect(self._models.open)
        self.status_line.clicked.connect(self.dashboard_wanted)
        self.model_banner.acted.connect(lambda: self._models.open(self._models.guide))

    @Slot(str)
    @Slot(str, int)
    def _send(self, words: str, answers: int = 1) -> None:
        if self._conversation.send(words, answers):
            self._drafts.clear()

    @Slot(str)
    def _keep(self, message_id: str) -> None:
        self._conversation.keep(message_id)
        self.composer.setFocus()

    @Slot(str)
    def _draft_message(self, words: str) -> None:
        self._prediction.draft(*((words, None) if words.strip() else self._written()))

    @Slot(str, str)
    def _draft_edit(self, message_id: str, words: str) -> None:
        self._prediction.draft(*((words, message_id) if message_id else self._written()))

    def _written(self) -> tuple[str, str | None]:
        """What is being written: a message that is being changed, and its id, else a new one."""
        return self.transcript.editing or (self.composer.text, None)

    @Slot(object)
    def _show_conversation(self, messages: tuple[ChatMessage, ...]) -> None:
        self.transcript.show_messages(messages)
        self._stack.setCurrentWidget(self.transcript if messages else self.empty_state)
        self._prediction.restart(*self._written())
        self._show_state()

    @Slot(object)
    def _show_asked(self, messages: tuple[ChatMessage, ...]) -> None:
        self._stack.setCurrentWidget(self.transcript)
        self.transcript.show_asked(messages)
        self._prediction.restart(*self._written())
        self._show_status()
        self.composer.setFocus()

    @Slot(object)
    def _show_switched(self, messages: tuple[ChatMessage, ...]) -> None:
        self.transcript.show_switched(messages)
        self._prediction.restart(*self._written())
        self._show_state()

    @Slot(object)
    def _change(self, message: ChatMessage) -> None:
        self.transcript.update_last(message)

    @Slot()
    def _show_state(self) -> None:
        state = self._conversation.state
        ready = self._conversation.can_send
        self.composer.set_state(
            ready=ready,
            busy=state.busy,
            stopping=state.phase == "stopping",
            hindrance=hindrance(state, self._models.state),
        )
        self.composer.set_placeholder(placeholder(state, self._models.state, self._models.is_guide))
        self.empty_state.set_ready(ready)
        self.transcript.set_ready(ready)
        self._prediction.renew()
        self._show_status()

    @Slot()
    def _show_model(self) -> None:
        state, is_guide = self._models.state, self._models.is_guide
        self.model_button.show_state(state)
        words = greeting(state, is_guide)
        self.empty_state.show_words(
            words.title, words.text, words.suggestions, offers_models=words.offers_models
        )
        offers_guide = state.phase == "failed" and not is_guide
        self.model_banner.say(load_problem(state, is_guide), text.OPEN_GUIDE if offers_guide else "")
        self._show_state()

    @Slot()
    def _show_status(self) -> None:
        model, state, status = self._models.state, self._conversation.state, self._status.status
        is_elsewhere = not self._conversation.shows(status.prefill_id)
        elsewhere = reading(status) if is_elsewhere else ""
        if status.prefill_id != self._read_id:  # what is written would wait for another answer, or none now
            self._read_id = status.prefill_id
            self._prediction.renew()
        self.transcript.show_activity(activity(state, model, self._models.is_guide, elsewhere))
        if model.phase == "ready":
            name = text.model_title(model.name, self._models.is_guide)
            texts = status_texts(status, self._conversation.context_tokens, reads_elsewhere=is_elsewhere)
            if words := hindrance(state, model):
                texts = replace(texts, activity=words, why="")
            elif words := self._prediction.words:
                texts = replace(texts, activity=words, why=self._prediction.why)
            self.status_line.show_texts(name, texts)
        else:
            words = absence(
                model,
                self._models.is_guide,
                is_crowded=self._prediction.is_crowded,
                is_asked=state.busy,
            )
            self.status_line.show_texts(words, StatusTexts())
