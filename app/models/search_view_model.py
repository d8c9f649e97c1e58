"""What the Hub was searched for, and the models that were found so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.hub.client import HubClient
from app.hub.search import Hit, Page, Query, search
from app.models.background import Background

SearchPhase = Literal["none", "searching", "shown", "failed"]


class SearchViewModel(QObject):
    """Searches a page at a time, only when it is asked to.

    Signals: `restarted` when the hits are those of another search, `grew(count)` when so many came to them,
    and `changed` when anything else did.
    """

    restarted = Signal()
    grew = Signal(int)
    changed = Signal()

    def __init__(
        self, background: Background, client: Callable[[], HubClient], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._background = background
        self._client = client
        self._query: Query | None = None
        self._hits: list[Hit] = []
        self._cursor: str | None = None
        self._phase: SearchPhase = "none"
        self._error = ""
        self._number = 0

    @property
    def query(self) -> Query | None:
        """What was searched for last; None before the first search and after `end`."""
        return self._query

    @property
    def hits(self) -> list[Hit]:
        """What was found so far."""
        return self._hits

    @property
    def phase(self) -> SearchPhase:
        """Where the search stands; "searching" also while more is fetched."""
        return self._phase

    @property
    def error(self) -> str:
        """The one line that says why it failed, when it did."""
        return self._error

    @property
    def has_more(self) -> bool:
        """Whether `fetch_more` finds something to fetch."""
        return self._phase == "shown" and self._cursor is not None

    def search(self, query: Query) -> None:
        """Begin a search in place of the last one."""
        self._query = query
        self._hits = []
        self._cursor = None
        self.restarted.emit()
        self._ask()

    def end(self) -> None:
        """Nothing is searched for any more."""
        self._number += 1
        self._query, self._hits, self._cursor, self._phase = None, [], None, "none"
        self.restarted.emit()
        self.changed.emit()

    def quit(self) -> None:
        """Ask for nothing any more; the thread ends when it can."""
        self._background.end()

    def fetch_more(self) -> None:
        """Fetch the next page."""
        if self.has_more:
            self._ask()

    def retry(self) -> None:
        """Ask again for what could not be fetched."""
        if self._phase == "failed":
            self._ask()

    def _ask(self) -> None:
        query, cursor = self._query, self._cursor
        if query is None:
            return
        self._number += 1
        number = self._number
        self._background = self._background.free()  # an earlier search may hang
        self._phase, self._error = "searching", ""
        self.changed.emit()

        def show(page: Page | None) -> None:
            if page is not None and number == self._number:
                self._phase, self._cursor = "shown", page.cursor
                self._hits += page.hits
                self.grew.emit(len(page.hits))
                self.changed.emit()

        def tell(words: str) -> None:
            if number == self._number:
                self._phase, self._error = "failed", words
                self.changed.emit()

        def work() -> Page | None:
            """The page, unless another search was begun meanwhile."""
            return search(self._client(), query, cursor) if number == self._number else None

        self._background.ask(work, show, tell)
