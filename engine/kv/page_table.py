"""Page tables: where one sequence's tokens lie, as plain integers; no arrays and no mlx.

A page holds `page_size` consecutive tokens of one sequence, in every layer. A sequence's page table maps
token t to slot `pages[t // page_size] * page_size + t % page_size` of the arena.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

NO_PAGE = -1


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive slots [begin, end) of the arena."""

    begin: int
    end: int

    @property
    def length(self) -> int:
        """Number of slots."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class PageCopy:
    """The content of page `source` must be in page `target` before anything is written to `target`."""

    source: int
    target: int


@dataclass(slots=True)
class PageTable:
    """The pages of one sequence, in order; NO_PAGE (-1) where a page was given back.

    Attributes:
        length: the tokens whose keys and values are in pages (or were, before release_before).
        chat: whose tokens they are; "" is nobody's.
        is_read: whether launches that are still to be sent read these very pages: none is exchanged.
    """

    pages: list[int] = field(default_factory=list[int])
    length: int = 0
    is_read: bool = False
    chat: str = ""


def token_spans(table: PageTable, page_size: int, begin: int, end: int) -> list[Span]:
    """The slots of tokens [begin, end), neighbours merged, in token order.

    Raises ValueError when a token of the range is not in a page.
    """
    if begin >= end:
        return []
    first, last = begin // page_size, (end - 1) // page_size
    used = table.pages[first : last + 1]
    if len(used) <= last - first or NO_PAGE in used:
        missing = next((index for index, page in enumerate(used) if page == NO_PAGE), len(used))
        raise ValueError(f"token {max(begin, (first + missing) * page_size)} is in no page")
    spans = page_spans(used, page_size)
    spans[0] = Span(spans[0].begin + begin % page_size, spans[0].end)
    spans[-1] = Span(spans[-1].begin, spans[-1].end - (-end % page_size))
    return spans


def page_spans(pages: Sequence[int], page_size: int) -> list[Span]:
    """The slots of `pages`, of which there are some, in their order, neighbours merged."""
    breaks = [index for index in range(1, len(pages)) if pages[index] != pages[index - 1] + 1]
    rows = zip([0, *breaks], [*breaks, len(pages)], strict=True)
    return [Span(pages[first] * page_size, (pages[end - 1] + 1) * page_size) for first, end in rows]
