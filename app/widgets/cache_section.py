"""The settings of what chats have computed: whether the disk keeps it, and in how many bits it is kept."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.appearance import Appearance
from app.settings import KvCache
from app.settings import Switch as OnOff
from app.widgets.choice_row import ChoiceRow
from app.widgets.switch import Switch

KV_CHOICES = (("full", "Full"), ("8", "8 bits"), ("4", "4 bits"))

KEEP = "Keep it on disk, so that chats reopen at once"
KV_CACHE = "KV cache"
KV_NOTE = "Fewer bits take less memory. Answers come out slightly different, and slower."
WHEN = "What you change here holds from the next start of MLXR on. Switched off, the disk is cleared then."


class CacheSection(QWidget):
    """Intents: `disk_cache_chosen("on" or "off")`, `kv_cache_chosen("full", "8" or "4")`."""

    disk_cache_chosen = Signal(str)
    kv_cache_chosen = Signal(str)

    def __init__(
        self, appearance: Appearance, ssd_cache: OnOff, kv_cache: KvCache, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._disk_cache = Switch(appearance, KEEP)
        self._disk_cache.setChecked(ssd_cache == "on")
        self._disk_cache.clicked.connect(lambda on: self.disk_cache_chosen.emit("on" if on else "off"))
        self._disk_use = _muted("")
        self._kv_cache = ChoiceRow(KV_CACHE, KV_CHOICES, kv_cache)
        self._kv_cache.chosen.connect(self.kv_cache_chosen)
        bits = QHBoxLayout()
        bits.setSpacing(12)
        bits.addWidget(QLabel(KV_CACHE))
        bits.addWidget(self._kv_cache, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self._disk_cache)
        column.addWidget(self._disk_use)
        column.addSpacing(8)
        column.addLayout(bits)
        column.addWidget(_muted(KV_NOTE))
        column.addSpacing(8)
        column.addWidget(_muted(WHEN))

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


def _muted(words: str) -> QLabel:
    label = QLabel(words)
    label.setProperty("role", "muted")
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    return label
