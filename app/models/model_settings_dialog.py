"""The settings of one model: what differs for it from what holds for all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import (
    QDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app import text
from app.appearance import Appearance
from app.chat_sampling import chat_sampling
from app.library.model_settings import with_setting
from app.library.records import LibraryError, Model, ModelSettings
from app.models.draft_choices import draft_choices
from app.widgets.choice_menu import ChoiceMenu
from app.widgets.choice_row import ChoiceRow
from app.widgets.plain_label import plain_label

TITLE = "Settings of {name}"
WHEN = (
    "An empty field holds what is usual. How words are drawn holds from the next answer on, what the model "
    "is told from the next chat on; the most tokens, the KV cache and the draft model when the model is "
    "opened again."
)
SYSTEM = "What it is told before each chat"
SYSTEM_HINT = "Nothing. For example: Answer in French, in at most three sentences."
KV_CACHE = "KV cache"
KV_CHOICES = (("", "Usual"), ("full", "Full"), ("8", "8 bits"), ("4", "4 bits"))
DRAFT_MODEL = "Draft model"
DRAFT_TIP = "A smaller model of the same family that guesses ahead: answers stay the same and come sooner"
NO_DRAFT = "There is no smaller model of its family here"
SAVE = "Save"
FIELDS = (
    ("context", "Most tokens of a chat"),
    ("temperature", "Temperature"),
    ("top_k", "Top k"),
    ("top_p", "Top p"),
    ("min_p", "Min p"),
    ("repetition_penalty", "Repetition penalty"),
)


class ModelSettingsDialog(QDialog):
    """Shows what is set for a model: `saved(what is another one now, by the names of ModelSettings)`."""

    saved = Signal(object)

    def __init__(
        self, appearance: Appearance, model: Model, models: Iterable[Model], parent: QWidget | None = None
    ) -> None:
        """`models`: all that there are, of which one may guess ahead for `model`."""
        super().__init__(parent)
        self.setWindowTitle(TITLE.format(name=model.name))
        self.setFixedWidth(520)
        own = asdict(model.settings)
        usual = asdict(chat_sampling(model.path)) | {"context": f"{model.context_length:,}"}
        self._fields = {name: _field(words, own[name], usual[name]) for name, words in FIELDS}
        self._kv_cache = ChoiceRow(KV_CACHE, KV_CHOICES, model.settings.kv_cache or "")
        drafts = draft_choices(model, models)
        self.draft_model = ChoiceMenu(appearance, DRAFT_MODEL, drafts, model.settings.draft_model)
        self.draft_model.setToolTip(DRAFT_TIP)
        self._has_drafts = len(drafts) > 1
        self._system = QPlainTextEdit(model.settings.system)
        self._system.setObjectName("systemPrompt")
        self._system.setAccessibleName(SYSTEM)
        self._system.setPlaceholderText(SYSTEM_HINT)
        self._system.setTabChangesFocus(True)
        self._system.setFixedHeight(84)
        self._note = plain_label(WHEN, "muted")
        self.save = QPushButton(SAVE)
        self.save.setDefault(True)
        self.save.clicked.connect(self._save)
        self._arrange(model)
        self._shown = asdict(self._read())

    @property
    def note(self) -> str:
        """What it says under the fields."""
        return self._note.text()

    @property
    def system(self) -> QPlainTextEdit:
        """The field of what the model is told."""
        return self._system

    def field(self, name: str) -> QLineEdit:
        """The field of a setting."""
        return self._fields[name]

    def _arrange(self, model: Model) -> None:
        heading = plain_label(TITLE.format(name=model.name), "heading")
        form = QFormLayout()
        form.setHorizontalSpacing(16)
        form.setVerticalSpacing(8)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        for name, words in FIELDS:
            form.addRow(words, self._fields[name])
        form.insertRow(1, KV_CACHE, self._kv_cache)
        draft = self.draft_model if self._has_drafts else plain_label(NO_DRAFT, "muted")
        form.insertRow(2, DRAFT_MODEL, draft)
        cancel = QPushButton(text.CANCEL)
        cancel.setAutoDefault(False)
        cancel.clicked.connect(self.reject)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(cancel)
        buttons.addWidget(self.save)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 24)
        column.setSpacing(12)
        column.addWidget(heading)
        column.addWidget(QLabel(SYSTEM))
        column.addWidget(self._system)
        column.addLayout(form)
        column.addWidget(self._note)
        column.addLayout(buttons)

    def _read(self) -> ModelSettings:
        """What is written in the fields. Raises LibraryError."""
        words = {name: field.text() for name, field in self._fields.items()}
        words["context"] = words["context"].replace(",", "")
        words |= {"kv_cache": self._kv_cache.current, "system": self._system.toPlainText().strip()}
        words["draft_model"] = self.draft_model.current
        settings = ModelSettings()
        for name, value in words.items():
            settings = with_setting(settings, name, value)
        return settings

    @Slot()
    def _save(self) -> None:
        try:
            chosen = asdict(self._read())
        except LibraryError as error:
            self._note.setText(text.sentence(str(error)))
            self._note.setProperty("role", "danger")
            self._note.style().polish(self._note)
            return
        self.saved.emit({name: value for name, value in chosen.items() if value != self._shown[name]})
        self.accept()


def _field(words: str, value: object, usual: object) -> QLineEdit:
    field = QLineEdit("" if value is None else str(value))
    field.setPlaceholderText(f"{usual}")
    field.setAccessibleName(words)
    return field
