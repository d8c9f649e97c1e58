"""The settings of what chats have computed: where it is kept, how much of it, and in how many bits."""

from __future__ import annotations

from typing import get_args

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.appearance import Appearance
from app.settings import KvMemory, Settings, SsdCap
from app.widgets.choice_menu import ChoiceMenu
from app.widgets.choice_row import ChoiceRow
from app.widgets.plain_label import plain_label
from app.widgets.switch import Switch

KV_CHOICES = (("full", "Full"), ("8", "8 bits"), ("4", "4 bits"))

KEEP = "Keep it on disk, so that chats reopen at once"
KV_CACHE = "KV cache"
KV_NOTE = "Fewer bits take less memory. Answers come out slightly different, and slower."
SSD_CAP = "At most on disk"
SSD_CAP_CHOICES = tuple(
    (name, "Automatic: 17 GB" if name == "automatic" else f"{name} GB") for name in get_args(SsdCap)
)
KV_MEMORY = "At most in memory"
KV_MEMORY_CHOICES = tuple(
    (name, "Automatic" if name == "automatic" else f"{name} GB") for name in get_args(KvMemory)
)
KV_MEMORY_NOTE = "Automatic is half of what models leave free. It is never more than all of that."
WHEN = "What you change here holds from the next start of MLXR on. Switched off, the disk is cleared then."


class CacheSection(QWidget):
    """Intents: `disk_cache_chosen("on" or "off")`, and of the names of choices `ssd_cap_chosen`,
    `kv_cache_chosen` and `kv_memory_chosen`.
    """

    disk_cache_chosen = Signal(str)
    ssd_cap_chosen = Signal(str)
    kv_cache_chosen = Signal(str)
    kv_memory_chosen = Signal(str)

    def __init__(self, appearance: Appearance, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._disk_cache = Switch(appearance, KEEP)
        self._disk_cache.setChecked(settings.ssd_cache == "on")
        self._disk_cache.clicked.connect(lambda on: self.disk_cache_chosen.emit("on" if on else "off"))
        self._disk_use = plain_label("", "muted")
        self.ssd_cap = ChoiceMenu(appearance, SSD_CAP, SSD_CAP_CHOICES, settings.ssd_cap)
        self.ssd_cap.chosen.connect(self.ssd_cap_chosen)
        self._kv_cache = ChoiceRow(KV_CACHE, KV_CHOICES, settings.kv_cache)
        self._kv_cache.chosen.connect(self.kv_cache_chosen)
        self.kv_memory = ChoiceMenu(appearance, KV_MEMORY, KV_MEMORY_CHOICES, settings.kv_memory)
        self.kv_memory.chosen.connect(self.kv_memory_chosen)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self._disk_cache)
        column.addWidget(self._disk_use)
        column.addLayout(_row(SSD_CAP, self.ssd_cap))
        column.addSpacing(8)
        column.addLayout(_row(KV_CACHE, self._kv_cache))
        column.addWidget(plain_label(KV_NOTE, "muted"))
        column.addLayout(_row(KV_MEMORY, self.kv_memory))
        column.addWidget(plain_label(KV_MEMORY_NOTE, "muted"))
        column.addSpacing(8)
        column.addWidget(plain_label(WHEN, "muted"))

    @property
    def disk_cache(self) -> Switch:
        """The switch of the disk cache."""
        return self._disk_cache

    @property
    def kv_cache(self) -> ChoiceRow:
        """The choice of bits."""
        return self._kv_cache

    @property
    def disk_use(self) -> str:
        """What it says of the disk cache."""
        return self._disk_use.text()

    def show_disk_use(self, words: str) -> None:
        """Say what the disk cache takes."""
        self._disk_use.setText(words)


def _row(words: str, choices: QWidget) -> QHBoxLayout:
    row = QHBoxLayout()
    row.setSpacing(12)
    row.addWidget(QLabel(words))
    row.addWidget(choices)
    row.addStretch()
    return row
