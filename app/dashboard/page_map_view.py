"""The page map: one cell a page; hover tells whose it is, a click goes to its chat."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt, Signal, Slot
from PySide6.QtGui import QImage, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QToolTip, QWidget

from app import amounts
from app.appearance import Appearance
from app.dashboard.cache_view_model import CacheViewModel, Page
from app.dashboard.page_cells import Grid, Inks, grid_for, paint
from app.dashboard.palette import colour_of
from app.text import isolated, untagged
from app.theme import Theme
from engine import CACHED, ON_SSD, PINNED, RUNNING, SHARED, PageMap

NOBODY = "no chat of the list"


class PageMapView(QWidget):
    """Shows the pages of a CacheViewModel. Intent: `chat_chosen(chat id)`."""

    chat_chosen = Signal(str)

    def __init__(
        self,
        appearance: Appearance,
        cache: CacheViewModel,
        title_of: Callable[[str], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._appearance, self._cache, self._title_of = appearance, cache, title_of
        self._grid = Grid(0, 1, 0, 1)
        self._image: QImage | None = None
        self._drawn: tuple[PageMap, int, Theme] | None = None
        self.setMouseTracking(True)
        self.setAccessibleName("Map of the pages")
        appearance.changed.connect(self.refresh)

    @property
    def grid(self) -> Grid:
        """Where cells are."""
        return self._grid

    @property
    def unseen(self) -> int:
        """Pages that have no cell: they are free, and were never used."""
        pages = self._cache.pages
        return max(0, pages.total_pages - self._grid.pages) if pages else 0

    @property
    def image(self) -> QImage | None:
        """What is on show; None before any page is known."""
        return self._image

    @Slot()
    def refresh(self) -> None:
        """Draw the pages as they are known now."""
        pages, theme = self._cache.pages, self._appearance.theme
        if pages is None:
            self._image = self._drawn = None
            self.update()
            return
        if self._drawn == (pages, self.width(), theme):
            return
        self._drawn = (pages, self.width(), theme)
        self._grid = grid_for(len(pages.states), pages.total_pages, self.width())
        owned = [self.owner_colour(owners) for owners in pages.owners]
        inks = Inks(theme.hover, theme.surface, theme.text)
        pixels = paint(self._grid, pages.states, owned, array("I", pages.owner_of), inks)
        height, width, _ = pixels.shape
        self._image = QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_RGB32).copy()
        self.setFixedHeight(max(height, 1))
        self.setAccessibleDescription(_counted(pages))
        self.update()

    def owner_colour(self, owners: tuple[str, ...]) -> str:
        """The colour of pages of these chats: the first's, or grey where there is none."""
        theme = self._appearance.theme
        return colour_of(self._cache.colour_place(owners[0]), theme) if owners else theme.muted

    def page_at(self, position: QPoint) -> Page | None:
        """The page under the pointer."""
        number = self._grid.place(position.x(), position.y())
        return None if number is None else self._cache.page(number)

    def words_for(self, page: Page, now: float) -> str:
        """What hovering says of a page."""
        if not page.state:
            return f"Page {page.number}: free"
        titles = [isolated(self._title_of(chat)) or NOBODY for chat in page.chats] or [NOBODY]
        said = [f"Page {page.number}: {', '.join(titles)}"]
        if page.state & RUNNING:
            said.append("in use now")
        elif page.used_at:
            said.append(f"last used {amounts.duration(max(0.0, now - page.used_at))} ago")
        marks = ((SHARED, "shared"), (PINNED, "stays in memory"), (ON_SSD, "on SSD too"))
        return "\n".join([*said, *(words for bit, words in marks if page.state & bit)])

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """Show the image."""
        if self._image is not None:
            painter = QPainter(self)
            painter.drawImage(0, 0, self._image)
            painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """As many cells beside each other as there is room for."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.refresh()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 (Qt's name)
        """Tell of the page under the pointer; one of a chat in the list can be clicked."""
        position = event.position().toPoint()
        page = self.page_at(position)
        words = untagged(self.words_for(page, time.perf_counter())) if page else ""
        if words != self.toolTip():
            self.setToolTip(words)
            if QToolTip.isVisible():
                QToolTip.showText(event.globalPosition().toPoint(), words, self)
        is_link = bool(self._chat_at(position))
        self.setCursor(Qt.CursorShape.PointingHandCursor if is_link else Qt.CursorShape.ArrowCursor)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 (Qt's name)
        """Go to the chat."""
        if event.button() == Qt.MouseButton.LeftButton and (
            chat := self._chat_at(event.position().toPoint())
        ):
            self.chat_chosen.emit(chat)

    def _chat_at(self, position: QPoint) -> str:
        page = self.page_at(position)
        return next((chat for chat in page.chats if self._title_of(chat)), "") if page else ""


def _counted(pages: PageMap) -> str:
    states = pages.states
    held = len(states) - states.count(0)
    counts = (
        ("free", pages.total_pages - held),
        ("in use", sum(bool(state & RUNNING) for state in states)),
        ("kept for later", sum(state & (RUNNING | CACHED) == CACHED for state in states)),
        ("shared", sum(bool(state & SHARED) for state in states)),
        ("on SSD too", sum(bool(state & ON_SSD) for state in states)),
    )
    return f"{pages.total_pages:,} pages: " + ", ".join(f"{count:,} {words}" for words, count in counts)
