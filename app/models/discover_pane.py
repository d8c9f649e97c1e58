"""Discover: search the Hub, or choose from a short list that needs no network; beside it one repository."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from PySide6.QtCore import QModelIndex, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QLabel,
    QListView,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app import text
from app.appearance import Appearance
from app.hub.search import Query, SearchFormat, Sort
from app.models.hit_list_model import HitListModel, Listed
from app.models.hit_row import HitRow
from app.models.model_words import listed
from app.models.offers import OffersViewModel
from app.models.repo_pane import RepoPane
from app.models.repo_view_model import RepoViewModel
from app.models.search_view_model import SearchViewModel
from app.widgets.choice_menu import ChoiceMenu
from app.widgets.list_entry import enter_list
from app.widgets.plain_label import plain_label
from app.widgets.search_field import SearchField
from engine import FAMILIES

LIST_WIDTH = (260, 400)
QWIDGETSIZE_MAX = (1 << 24) - 1
ROOM_FOR_BOTH = 680
"""In a narrower page the list gives way to what is chosen in it."""

SEARCH = "Search the Hub, then Enter"
SHORT_LIST = "A short list to begin with"
FOUND = "Found on the Hub"
SEARCHING = "Searching the Hub…"
NOTHING_FOUND = "The Hub has no such model."
TRY_AGAIN = "Try again"
SORTS = (
    ("downloads", "Most downloads"),
    ("likes", "Most likes"),
    ("updated", "Newest"),
    ("trending", "Trending"),
)
FORMATS = (("", "Any format"), ("mlx", "MLX"), ("gguf", "GGUF"), ("safetensors", "Safetensors"))
SIZES = (
    ("", "Any size"),
    ("-2", "Up to 2B"),
    ("2-5", "2B to 5B"),
    ("5-10", "5B to 10B"),
    ("10-40", "10B to 40B"),
    ("40-", "Over 40B"),
)
BILLION = 1_000_000_000


class DiscoverPane(QWidget):
    """Shows a SearchViewModel and a RepoViewModel. Intents: `opened(path)` and `token_wanted`."""

    opened = Signal(str)
    token_wanted = Signal()

    def __init__(
        self,
        appearance: Appearance,
        search: SearchViewModel,
        repo: RepoViewModel,
        offers: OffersViewModel,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._appearance = appearance
        self._short_list: tuple[Listed, ...] = ()
        self._search = search
        self._repo = repo
        self._make_search()
        self._rows = HitListModel()
        self._list = QListView()
        self._make_list()
        self._title = QLabel(SHORT_LIST)
        self._title.setProperty("role", "section")
        self._note = plain_label("", "muted")
        self._again = QPushButton(TRY_AGAIN)
        self._again.setProperty("kind", "keep")
        self.repo_pane = RepoPane(appearance, repo, offers)
        self._arrange()
        self._connect()
        appearance.changed.connect(self._list.viewport().update)
        self._restart()
        self._show()

    @property
    def search_field(self) -> SearchField:
        """Where a search is typed."""
        return self._field

    @property
    def list(self) -> QListView:
        """The list of repositories."""
        return self._list

    @property
    def rows(self) -> HitListModel:
        """What the list shows."""
        return self._rows

    @property
    def note(self) -> str:
        """What it says over the list."""
        return self._note.text()

    def show_short_list(self, rows: Sequence[Listed]) -> None:
        """What is on show while nothing is searched for."""
        if tuple(rows) != self._short_list:
            self._short_list = tuple(rows)
            if self._search.query is None:
                self._restart()

    def look_at(self, repo: str) -> None:
        """Show a repository that need not be in the list."""
        self._list.clearSelection()
        self._list.setCurrentIndex(QModelIndex())
        self._repo.open(repo)

    def repos(self) -> list[str]:
        """The repositories on show, from the top."""
        return [self._rows.index(place).data() for place in range(self._rows.rowCount())]

    def _make_search(self) -> None:
        self._field = SearchField(self._appearance, SEARCH)
        families = (("", "Any family"), *((family, family) for family in FAMILIES))
        self.sort = ChoiceMenu(self._appearance, "Order", SORTS, "downloads")
        self.format = ChoiceMenu(self._appearance, "Format", FORMATS, "")
        self.weights = ChoiceMenu(self._appearance, "Size", SIZES, "")
        self.family = ChoiceMenu(self._appearance, "Family", families, "")

    def _make_list(self) -> None:
        self._list.setObjectName("modelList")
        self._list.setAccessibleName("Models to download")
        self._list.setModel(self._rows)
        self._list.setItemDelegate(HitRow(self._appearance, self._list))
        self._list.setUniformItemSizes(True)  # ten thousand rows are then measured by the first one
        self._list.setMouseTracking(True)
        self._list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._list.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)

    def _arrange(self) -> None:
        filters = QVBoxLayout()
        filters.setSpacing(2)
        for first, second in ((self.sort, self.format), (self.weights, self.family)):
            line = QHBoxLayout()
            line.setSpacing(2)
            line.addWidget(first)
            line.addWidget(second)
            line.addStretch(1)
            filters.addLayout(line)
        self._answer = QWidget()
        note = QHBoxLayout(self._answer)
        note.setContentsMargins(20, 4, 12, 8)
        note.addWidget(self._note, 1)
        note.addWidget(self._again)
        self._left = QWidget()
        self._left.setMinimumWidth(LIST_WIDTH[0])
        column = QVBoxLayout(self._left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        top = QVBoxLayout()
        top.setContentsMargins(16, 0, 8, 4)
        top.setSpacing(6)
        top.addWidget(self._field)
        top.addLayout(filters)
        column.addLayout(top)
        self._title.setContentsMargins(20, 6, 8, 6)
        column.addWidget(self._title)
        column.addWidget(self._answer)
        column.addWidget(self._list, 1)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self._left, 2)
        row.addWidget(self.repo_pane, 3)

    def _connect(self) -> None:
        self._field.entered.connect(lambda: enter_list(self._list))
        self._field.returnPressed.connect(self._begin)
        self._field.textChanged.connect(self._end_when_empty)
        for menu in (self.sort, self.format, self.weights, self.family):
            menu.chosen.connect(self._begin)
        self._again.clicked.connect(self._search.retry)
        self._rows.more_wanted.connect(self._search.fetch_more)
        self._list.selectionModel().currentChanged.connect(self._look_at)
        self._search.restarted.connect(self._restart)
        self._search.grew.connect(self._grow)
        self._search.changed.connect(self._show)
        self._repo.changed.connect(self._share_room)
        self.repo_pane.left.connect(self._back)
        self.repo_pane.opened.connect(self.opened)
        self.repo_pane.token_wanted.connect(self.token_wanted)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Beside each other where there is room, else one at a time."""
        super().resizeEvent(event)
        self._share_room()

    @Slot()
    def _share_room(self) -> None:
        narrow, chosen = self.width() < ROOM_FOR_BOTH, bool(self._repo.repo)
        self._left.setMaximumWidth(QWIDGETSIZE_MAX if narrow else LIST_WIDTH[1])
        self._left.setVisible(not (narrow and chosen))
        self.repo_pane.setVisible(chosen or not narrow)
        self.repo_pane.back.setVisible(narrow and chosen)

    @Slot()
    def _back(self) -> None:
        self._list.clearSelection()
        self._list.setCurrentIndex(QModelIndex())
        self._repo.close()
        self._list.setFocus()

    @Slot()
    def _begin(self) -> None:
        fewest, most = _limits(self.weights.current)
        self._search.search(
            Query(
                words=self._field.text().strip(),
                sort=cast(Sort, self.sort.current),
                format=cast(SearchFormat, self.format.current) or None,
                family=self.family.current or None,
                fewest=fewest,
                most=most,
            )
        )

    @Slot(str)
    def _end_when_empty(self, words: str) -> None:
        if not words and self._search.query is not None:
            self._search.end()

    @Slot()
    def _restart(self) -> None:
        self._rows.restart(self._short_list if self._search.query is None else ())

    @Slot(int)
    def _grow(self, count: int) -> None:
        self._rows.grow([listed(hit) for hit in self._search.hits[-count:]] if count else [])

    @Slot()
    def _show(self) -> None:
        search = self._search
        self._rows.set_has_more(search.has_more)
        self._title.setText(SHORT_LIST if search.query is None else FOUND)
        words = ""
        if search.phase == "failed":
            words = text.sentence(search.error)
        elif not search.hits:
            words = {"searching": SEARCHING, "shown": NOTHING_FOUND}.get(search.phase, "")
        self._note.setText(words)
        self._answer.setVisible(bool(words))
        self._again.setVisible(search.phase == "failed")

    @Slot(QModelIndex)
    def _look_at(self, index: QModelIndex) -> None:
        if index.isValid():
            self._repo.open(self._rows.listed(index).repo)


def _limits(size: str) -> tuple[int | None, int | None]:
    """Fewest and most weights of a choice such as "2-5", in billions."""
    fewest, _, most = size.partition("-")
    return (int(fewest) * BILLION if fewest else None), (int(most) * BILLION if most else None)
