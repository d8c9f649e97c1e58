"""The cache: how full it is, the page map, what it did, and the chats that have pages."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QHideEvent, QPixmap, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.appearance import Appearance
from app.chat.pins import PinsViewModel
from app.dashboard.cache_figures import facts, occupancy, occupancy_words
from app.dashboard.cache_view_model import CacheViewModel
from app.dashboard.chat_pages_table import ChatPagesTable
from app.dashboard.legend import legend_cells
from app.dashboard.live_pane import REFRESH_MS, ROOM_FOR_ALL, SIDE
from app.dashboard.occupancy_bar import OccupancyBar
from app.dashboard.page_map_view import PageMapView


class CachePane(QScrollArea):
    """Shows a CacheViewModel while it is seen; pages are told only then. Intent: `chat_chosen(chat id)`."""

    chat_chosen = Signal(str)

    def __init__(
        self,
        appearance: Appearance,
        cache: CacheViewModel,
        pins: PinsViewModel,
        title_of: Callable[[str], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("dashboardPane")
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._appearance, self._cache, self._pins = appearance, cache, pins
        self._has_changed, self._columns = True, 0
        self.gauge = QLabel()
        self.gauge.setWordWrap(True)
        self.bar = OccupancyBar(appearance)
        self._unseen = QLabel()
        self._unseen.setProperty("role", "muted")
        self.map = PageMapView(appearance, cache, title_of)
        self.chats = ChatPagesTable(title_of, lambda chat: self.map.owner_colour((chat,)))
        self.values = [QLabel() for _ in facts(None)]
        self._holders = [
            _fact_holder(label, fact.name, fact.about)
            for label, fact in zip(self.values, facts(None), strict=True)
        ]
        self._facts = QGridLayout()
        self._legend = [(QLabel(), QLabel(words)) for words in legend_cells(appearance.theme)]
        self._timer = QTimer(self)
        self._timer.setInterval(REFRESH_MS)
        self._timer.timeout.connect(self._tick)
        self._arrange()
        self._connect()
        self._paint_legend()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 (Qt's name)
        """Somebody looks."""
        super().showEvent(event)
        self._cache.watch(True)
        self.refresh()
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 (Qt's name)
        """Nobody looks any more."""
        super().hideEvent(event)
        self._timer.stop()
        self._cache.watch(False)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Figures beside each other as there is room."""
        super().resizeEvent(event)
        self._place_facts(4 if self.width() >= ROOM_FOR_ALL else 2)

    @Slot()
    def refresh(self) -> None:
        """Show what is known now."""
        stats, info = self._cache.stats, self._cache.info
        pages = occupancy(stats, info, self._cache.pages)
        words = occupancy_words(pages, info.page_bytes if info else 0)
        self.gauge.setText(words)
        self.bar.show_pages(pages, words)
        for label, fact in zip(self.values, facts(stats), strict=True):
            if label.text() != fact.value:
                label.setText(fact.value)
                label.setAccessibleName(f"{fact.name}: {fact.value}")
        self.map.refresh()
        unseen = self.map.unseen
        self._unseen.setText(f"and {unseen:,} free pages that were never used" if unseen else "")
        self.chats.show_chats(self._cache.chats, self._pins.pinned)

    @Slot()
    def _note_change(self) -> None:
        self._has_changed = True

    @Slot()
    def _tick(self) -> None:
        if self._has_changed:
            self._has_changed = False
            self.refresh()

    @Slot()
    def _paint_legend(self) -> None:
        for (picture, _), image in zip(
            self._legend, legend_cells(self._appearance.theme).values(), strict=True
        ):
            picture.setPixmap(QPixmap.fromImage(image))

    def _connect(self) -> None:
        self._cache.changed.connect(self._note_change)
        self._pins.changed.connect(self._note_change)
        self._appearance.changed.connect(self._paint_legend)
        self._appearance.changed.connect(self._note_change)
        self.map.chat_chosen.connect(self.chat_chosen)
        self.chats.opened.connect(self.chat_chosen)
        self.chats.pin_wanted.connect(self._pins.pin)
        self.chats.release_wanted.connect(self._cache.release)
        self.chats.clear_wanted.connect(self._cache.clear)

    def _place_facts(self, columns: int) -> None:
        if self._columns == columns:
            return
        self._columns = columns
        for place, holder in enumerate(self._holders):
            self._facts.addWidget(holder, *divmod(place, columns))
        for column in range(4):
            self._facts.setColumnStretch(column, int(column < columns))

    def _arrange(self) -> None:
        self._place_facts(4)
        legend = QHBoxLayout()
        legend.setSpacing(6)
        for picture, words in self._legend:
            words.setProperty("role", "muted")
            legend.addWidget(picture)
            legend.addWidget(words)
            legend.addSpacing(10)
        legend.addStretch(1)
        legend.addWidget(self._unseen)
        frame = QFrame()
        frame.setObjectName("panel")
        inside = QVBoxLayout(frame)
        inside.setContentsMargins(12, 12, 12, 12)
        inside.setSpacing(10)
        for item in (self.gauge, self.bar, self.map):
            inside.addWidget(item)
        inside.addLayout(legend)
        title = QLabel("Chats with pages")
        title.setProperty("role", "section")
        column = QWidget()
        column.setObjectName("dashboardColumn")
        inner = QVBoxLayout(column)
        inner.setContentsMargins(SIDE, 4, SIDE, SIDE)
        inner.setSpacing(10)
        inner.addWidget(frame)
        inner.addLayout(self._facts)
        inner.addWidget(title)
        inner.addWidget(self.chats)
        inner.addStretch(1)
        self.setWidget(column)


def _fact_holder(value: QLabel, name: str, about: str) -> QWidget:
    holder = QFrame()
    holder.setObjectName("panel")
    holder.setToolTip(about)
    title = QLabel(name)
    title.setProperty("role", "muted")
    value.setProperty("role", "strong")
    column = QVBoxLayout(holder)
    column.setContentsMargins(12, 8, 12, 8)
    column.setSpacing(2)
    column.addWidget(title)
    column.addWidget(value)
    return holder
