"""The cache: how full it is, the page map, what it did, and the chats that have pages."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer, Signal, Slot
from PySide6.QtGui import QHideEvent, QPixmap, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from app.appearance import Appearance
from app.chat.cache_words import disk_problem_words
from app.chat.pins import PinsViewModel
from app.dashboard.cache_figures import Fact, facts, occupancy, occupancy_words
from app.dashboard.cache_view_model import CacheViewModel
from app.dashboard.chat_pages_table import ChatPagesTable
from app.dashboard.legend import legend_cells
from app.dashboard.live_pane import REFRESH_MS
from app.dashboard.occupancy_bar import OccupancyBar
from app.dashboard.page_map_view import PageMapView
from app.dashboard.pane import FigureGrid, Pane, Panel, Section
from app.widgets.plain_label import plain_label

IN_A_ROW = 3
"""Of the legend's pictures."""
CHATS = "Chats with pages"
CHATS_OF_ALL = "Chats with pages, of all models that are open"


class CachePane(Pane):
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
        self._appearance, self._cache, self._pins = appearance, cache, pins
        self._has_changed = True
        self._panel = Panel(self.content)
        self.gauge, self._unseen = plain_label(parent=self._panel), plain_label("", "muted", self._panel)
        self.bar = OccupancyBar(appearance, self._panel)
        self.map = PageMapView(appearance, cache, title_of, self._panel)
        self.facts = [_FactPanel(fact, self.content) for fact in facts(None)]
        self._grid = FigureGrid(self.facts, most=4)
        self.disk_problem = plain_label("", "danger", self.content)
        self.below = below = Section(CHATS, self.content)
        self.chats = ChatPagesTable(title_of, lambda chat: self.map.owner_colour((chat,)), below)
        self._legend = [
            (QLabel(self._panel), QLabel(said, self._panel)) for said in legend_cells(appearance.theme)
        ]
        self._timer = QTimer(self)
        self._timer.setInterval(REFRESH_MS)
        self._timer.timeout.connect(self._tick)
        self._arrange(below)
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
        self._grid.fit(self.width())

    @Slot()
    def refresh(self) -> None:
        """Show what is known now."""
        stats, info = self._cache.stats, self._cache.info
        pages = occupancy(stats, info, self._cache.pages)
        said = occupancy_words(pages, info.page_bytes if info else 0)
        self.gauge.setText(said)
        self.bar.show_pages(pages, said)
        for panel, fact in zip(self.facts, facts(stats), strict=True):
            panel.show_value(fact)
        problem = disk_problem_words(stats.cache.ssd_problem) if stats else ""
        self.disk_problem.setText(problem)
        self.disk_problem.setVisible(bool(problem))
        self.map.refresh()
        unseen = self.map.unseen
        self.below.heading.setText(CHATS_OF_ALL if self._cache.has_several else CHATS)
        self._unseen.setVisible(unseen > 0)
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
        self.chats.clear_wanted.connect(self._pins.renew)

    def _arrange(self, below: Section) -> None:
        legend = QGridLayout()
        legend.setHorizontalSpacing(6)
        for place, (picture, said) in enumerate(self._legend):
            said.setProperty("role", "muted")
            said.setContentsMargins(0, 0, 10, 0)
            row, column = divmod(place, IN_A_ROW)
            legend.addWidget(picture, row, 2 * column)
            legend.addWidget(said, row, 2 * column + 1)
        legend.setColumnStretch(2 * IN_A_ROW, 1)
        self._panel.column.setSpacing(10)
        for item in (self.gauge, self.bar, self.map, self._unseen):
            self._panel.column.addWidget(item)
        self._panel.column.addLayout(legend)
        below.column.addWidget(self.chats)
        self.column.addWidget(self._panel)
        self.column.addLayout(self._grid)
        self.column.addWidget(self.disk_problem)
        self.column.addWidget(below)
        self.column.addStretch(1)


class _FactPanel(Panel):
    """A fact: its name above its value."""

    def __init__(self, fact: Fact, parent: QWidget) -> None:
        super().__init__(parent)
        self.setToolTip(fact.about)
        self.column.setContentsMargins(12, 8, 12, 8)
        self.column.setSpacing(2)
        name = QLabel(fact.name, self)
        name.setProperty("role", "muted")
        self.value = QLabel(self)
        self.value.setProperty("role", "strong")
        self.column.addWidget(name)
        self.column.addWidget(self.value)

    def show_value(self, fact: Fact) -> None:
        """Say what it is now."""
        if self.value.text() != fact.value:
            self.value.setText(fact.value)
            self.value.setAccessibleName(f"{fact.name}: {fact.value}")
