"""The pager: which KV page belongs to whom, as plain integers; no arrays and no mlx.

A page holds `page_size` consecutive tokens of one sequence, in every layer. A sequence's page table maps
token t to slot `pages[t // page_size] * page_size + t % page_size` of the arena.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.errors import EngineError

NO_PAGE = -1


class OutOfPages(EngineError):
    """The arena has no free page left for this growth; nothing was allocated."""


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive slots [begin, end) of the arena."""

    begin: int
    end: int

    @property
    def length(self) -> int:
        """Number of slots."""
        return self.end - self.begin


@dataclass(slots=True)
class PageTable:
    """The pages of one sequence, in order; NO_PAGE (-1) where a page was given back.

    `length` counts the tokens whose keys and values are in pages (or were, before release_before).
    """

    pages: list[int] = field(default_factory=list[int])
    length: int = 0


class Pager:
    """Hands out the pages 0 … total_pages-1.

    It prefers a page's right-hand neighbour when a table grows, so that a lone sequence is one span and the
    reference executor reads it as a view, and low pages before high ones, so that the arena stays small.
    """

    def __init__(self, total_pages: int, page_size: int) -> None:
        """`total_pages` >= 1 pages of `page_size` >= 1 tokens. Raises ValueError otherwise."""
        if total_pages < 1 or page_size < 1:
            raise ValueError(
                f"a pager needs at least one page of one token, not {total_pages} of {page_size}"
            )
        self.total_pages = total_pages
        self.page_size = page_size
        self._is_free = bytearray(b"\x01") * total_pages
        self._free_pages = total_pages
        self._high_water = 0

    @property
    def pages_used(self) -> int:
        """Pages that belong to some table."""
        return self.total_pages - self._free_pages

    @property
    def high_water(self) -> int:
        """One more than the highest page ever handed out: what the arena must be able to hold."""
        return self._high_water

    def pages_for(self, tokens: int) -> int:
        """Pages that `tokens` tokens take."""
        return -(-tokens // self.page_size)

    def grow(self, table: PageTable, tokens: int) -> None:
        """Allocate pages until `table` has room for its first `tokens` tokens.

        Raises OutOfPages, with nothing allocated, when there are too few free pages.
        """
        missing = self.pages_for(tokens) - len(table.pages)
        if missing > self._free_pages:
            raise OutOfPages(
                f"KV memory is full: {missing} more pages are needed and {self._free_pages} of "
                f"{self.total_pages} are free"
            )
        for _ in range(missing):
            table.pages.append(self._take(after=table.pages[-1] if table.pages else NO_PAGE))

    def release_before(self, table: PageTable, token: int) -> None:
        """Give back the pages that lie wholly before `token`: a sliding window has left them."""
        for index in range(min(token // self.page_size, len(table.pages)) - 1, -1, -1):
            if table.pages[index] == NO_PAGE:
                return
            self._give(table.pages[index])
            table.pages[index] = NO_PAGE

    def free(self, table: PageTable) -> None:
        """Give back all pages of `table` and empty it."""
        for page in table.pages:
            if page != NO_PAGE:
                self._give(page)
        table.pages.clear()
        table.length = 0

    def spans(self, table: PageTable, begin: int, end: int) -> list[Span]:
        """The slots of tokens [begin, end), neighbours merged, in token order.

        Raises ValueError when a token of the range is not in a page.
        """
        spans: list[Span] = []
        token = begin
        while token < end:
            index, offset = divmod(token, self.page_size)
            page = table.pages[index] if index < len(table.pages) else NO_PAGE
            if page == NO_PAGE:
                raise ValueError(f"token {token} is in no page")
            count = min(self.page_size - offset, end - token)
            slot = page * self.page_size + offset
            if spans and spans[-1].end == slot:
                spans[-1] = Span(spans[-1].begin, slot + count)
            else:
                spans.append(Span(slot, slot + count))
            token += count
        return spans

    def _take(self, after: int) -> int:
        neighbour = after + 1
        if after != NO_PAGE and neighbour < self.total_pages and self._is_free[neighbour]:
            page = neighbour
        else:
            page = self._is_free.find(1)
        self._is_free[page] = 0
        self._free_pages -= 1
        self._high_water = max(self._high_water, page + 1)
        return page

    def _give(self, page: int) -> None:
        if self._is_free[page]:
            raise AssertionError(f"page {page} was given back twice")
        self._is_free[page] = 1
        self._free_pages += 1
