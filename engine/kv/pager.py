"""The pager: which KV page belongs to whom, as plain integers; no arrays and no mlx.

A page may have several holders: page tables, and once the prefix tree. Nobody writes into a page that has
another holder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import filterfalse

from engine.errors import EngineError
from engine.kv.page_table import NO_PAGE, PageCopy, PageTable


class OutOfPages(EngineError):
    """The arena has no free page left for this growth; nothing was allocated."""


class Pager:
    """Hands out the pages 0 … total_pages-1 and counts who holds them.

    It prefers a page's right-hand neighbour when a table grows, then as many free pages in a row as are
    wanted, so that a sequence is one span where it can be and the reference executor reads it as a view; and
    low pages before high ones, so that the arena stays small.

    Attributes:
        total_pages: how many there are; `limit` changes it.
        built_pages: the most that there can be.
    """

    def __init__(self, total_pages: int, page_size: int) -> None:
        """`total_pages` >= 1 pages of `page_size` >= 1 tokens. Raises ValueError otherwise."""
        if total_pages < 1 or page_size < 1:
            raise ValueError(
                f"a pager needs at least one page of one token, not {total_pages} of {page_size}"
            )
        self.total_pages = self.built_pages = total_pages
        self.page_size = page_size
        self._references = [0] * (total_pages + 1)  # the last is NO_PAGE's: it has no holder
        self._is_free = bytearray(b"\x01") * total_pages
        self._free_pages = total_pages
        self._is_cached = bytearray(total_pages)
        self._idle: set[int] = set()
        self._high_water = 0

    @property
    def free_pages(self) -> int:
        """Pages that nobody holds."""
        return self._free_pages

    @property
    def idle_pages(self) -> Collection[int]:
        """Pages that only the prefix tree holds; a view that changes with them."""
        return self._idle

    @property
    def pages_used(self) -> int:
        """Pages that belong to some table."""
        return self.total_pages - self._free_pages - len(self._idle)

    @property
    def high_water(self) -> int:
        """One more than the highest page ever handed out: what the arena must be able to hold."""
        return self._high_water

    def lower_high_water(self) -> None:
        """Forget pages that were handed out once and are free now, so that the arena can be built smaller."""
        self._high_water = self._is_free.rfind(0, 0, self.total_pages) + 1

    def limit(self, pages: int) -> None:
        """There are the pages 0 … pages-1 from here on, 1 to `built_pages` of them.

        Raises ValueError for another number, or when a page beyond has a holder.
        """
        if not 1 <= pages <= self.built_pages:
            raise ValueError(f"a pager built for {self.built_pages} pages cannot have {pages}")
        if any(self._references[pages:]):
            raise ValueError(f"pages beyond the first {pages} are held")
        first, last = sorted((pages, self.total_pages))
        self._is_free[first:last] = (b"\x01" if pages == last else b"\x00") * (last - first)
        self._free_pages += pages - self.total_pages
        self.total_pages = pages
        self._high_water = min(self._high_water, pages)

    def pages_for(self, tokens: int) -> int:
        """Pages that `tokens` tokens take."""
        return -(-tokens // self.page_size)

    def references(self, page: int) -> int:
        """Holders of `page`; 0 when it is free."""
        return self._references[page]

    def is_cached(self, page: int) -> bool:
        """Whether the prefix tree is among the holders of `page`."""
        return bool(self._is_cached[page])

    def uncached(self, table: PageTable) -> set[int]:
        """The pages of `table` that the prefix tree does not hold."""
        return set(filterfalse(self._is_cached.__getitem__, table.pages)) - {NO_PAGE}

    def missing(self, table: PageTable, tokens: int) -> int:
        """Free pages that `grow` would take."""
        size, pages = self.page_size, table.pages
        needed = -(-tokens // size)
        missing = needed - len(pages) if needed > len(pages) else 0
        if tokens > table.length:
            references = self._references
            for page in pages[table.length // size : needed]:
                if references[page] > 1:
                    missing += 1
        return missing

    def without_room(self, tables: Iterable[PageTable]) -> list[int]:
        """The places in `tables` of those to which one more token cannot be written before they `grow`."""
        size, references = self.page_size, self._references
        return [
            place
            for place, table in enumerate(tables)
            if (index := table.length // size) >= len(table.pages) or references[table.pages[index]] > 1
        ]

    def grow(self, table: PageTable, tokens: int) -> PageCopy | None:
        """Give `table` room for its first `tokens` tokens, in pages that it may write behind its `length`.

        A page there that has other holders is replaced by a fresh one. When it holds tokens of the table
        already, the caller must copy it before it writes: that is the PageCopy returned.

        Raises OutOfPages, with nothing changed, when there are too few free pages.
        """
        missing = self.missing(table, tokens)
        if missing > self._free_pages:
            raise OutOfPages(
                f"KV memory is full: {missing} more pages are needed and {self._free_pages} of "
                f"{self.total_pages} are free"
            )
        copied = self._unshare(table, tokens) if tokens > table.length else None
        for left in range(self.pages_for(tokens) - len(table.pages), 0, -1):
            table.pages.append(self._take(table.pages[-1] if table.pages else NO_PAGE, left))
        return copied

    def fork(self, table: PageTable) -> PageTable:
        """Another table of the same tokens on the same pages; pages beyond its length are not shared."""
        pages = table.pages[: self.pages_for(table.length)]
        self.retain(pages)
        return PageTable(pages, table.length, chat=table.chat)

    def share(self, pages: Iterable[int], length: int, chat: str = "") -> PageTable:
        """A table of `length` tokens on `pages` that others hold already, NO_PAGE where there is none."""
        table = PageTable(list(pages), length, chat=chat)
        self.retain(table.pages)
        return table

    def swap(self, table: PageTable, index: int, page: int) -> None:
        """Put `page`, which another holds and which has the same content, in the place of a table's own.

        Not while the table `is_read`.
        """
        if table.is_read:
            return
        self.retain((page,))
        self.release((table.pages[index],))
        table.pages[index] = page

    def skip(self, table: PageTable, pages: int) -> None:
        """`table` goes on behind its first `pages` pages and holds none: its sliding window has left them."""
        self.release(table.pages)
        table.pages[:] = [NO_PAGE] * pages
        table.length = pages * self.page_size

    def shrink(self, table: PageTable, tokens: int) -> None:
        """Give back the pages wholly behind the first `tokens` tokens; `length` becomes at most `tokens`."""
        kept = self.pages_for(tokens)
        self.release(table.pages[kept:])
        del table.pages[kept:]
        table.length = min(table.length, tokens)

    def release_before(self, table: PageTable, token: int) -> None:
        """Give back the pages that lie wholly before `token`: a sliding window has left them."""
        for index in range(min(token // self.page_size, len(table.pages)) - 1, -1, -1):
            if table.pages[index] == NO_PAGE:
                return
            self.release((table.pages[index],))
            table.pages[index] = NO_PAGE

    def free(self, table: PageTable) -> None:
        """Give back all pages of `table` and empty it."""
        self.release(table.pages)
        table.pages.clear()
        table.length = 0

    def retain(self, pages: Sequence[int]) -> None:
        """One more holder for each of `pages`, which must have one already; NO_PAGE is passed over."""
        references = self._references
        for page in pages:
            if page == NO_PAGE:
                continue
            count = references[page]
            if not count:
                raise AssertionError(f"page {page} is free: nobody can share it")
            references[page] = count + 1
        self._idle.difference_update(pages)

    def release(self, pages: Iterable[int]) -> None:
        """One holder less for each of `pages`, which are free at none; NO_PAGE is passed over."""
        references, cached = self._references, self._is_cached
        for page in pages:
            if page == NO_PAGE:
                continue
            count = references[page] - 1
            if count < cached[page]:
                raise AssertionError(f"page {page} was given back twice")
            references[page] = count
            if not count:
                self._is_free[page] = 1
                self._free_pages += 1
            elif count == 1 and cached[page]:
                self._idle.add(page)

    def cache(self, pages: Sequence[int]) -> None:
        """The prefix tree holds each of `pages` too, once; none of them is NO_PAGE."""
        is_cached = self._is_cached
        self.retain(pages)
        for page in pages:
            if is_cached[page]:
                raise AssertionError(f"page {page} is in the prefix tree twice")
            is_cached[page] = 1

    def uncache(self, page: int) -> None:
        """The prefix tree holds `page` no longer."""
        if not self._is_cached[page]:
            raise AssertionError(f"page {page} is not in the prefix tree")
        self._is_cached[page] = 0
        self._idle.discard(page)
        self.release((page,))

    def check(self, tables: Iterable[PageTable]) -> None:
        """Raise AssertionError unless `tables` and the prefix tree are exactly the holders of all pages."""
        held = list(self._is_cached)
        for table in tables:
            for page in table.pages:
                if page != NO_PAGE:
                    held[page] += 1
        if held != self._references[:-1]:
            wrong = next(page for page, count in enumerate(held) if count != self._references[page])
            raise AssertionError(
                f"page {wrong} has {held[wrong]} holders and is counted {self._references[wrong]} times"
            )
        free = [not count and page < self.total_pages for page, count in enumerate(held)]
        if list(self._is_free) != free or sum(self._is_free) != self._free_pages:
            raise AssertionError("the list of free pages is not that of pages without a holder")
        idle = {page for page, count in enumerate(held) if count == 1 and self._is_cached[page]}
        if idle != self._idle:
            raise AssertionError("the set of idle pages is not that of pages which only the tree holds")

    def _unshare(self, table: PageTable, tokens: int) -> PageCopy | None:
        """Fresh pages in the place of shared ones behind the table's length."""
        copied = None
        first, offset = divmod(table.length, self.page_size)
        for index in range(first, min(self.pages_for(tokens), len(table.pages))):
            page = table.pages[index]
            if self._references[page] <= 1:
                continue
            table.pages[index] = self._take(table.pages[index - 1] if index else NO_PAGE, 1)
            self.release((page,))
            if index == first and offset:
                copied = PageCopy(page, table.pages[index])
        return copied

    def _take(self, after: int, wanted: int) -> int:
        """A free page: the neighbour of `after`, else the first of `wanted` in a row, else the lowest."""
        page = after + 1
        if after == NO_PAGE or page == self.total_pages or not self._is_free[page]:
            page = self._is_free.find(b"\x01" * wanted)
            if page < 0:
                page = self._is_free.find(1)
        self._is_free[page] = 0
        self._free_pages -= 1
        self._references[page] = 1
        self._high_water = max(self._high_water, page + 1)
        return page
