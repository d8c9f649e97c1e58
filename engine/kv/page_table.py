"""Page tables: where one sequence's tokens lie, as plain integers; no arrays and no mlx.

A page holds `page_size` consecutive tokens of one sequence, in every layer. A sequence's page table maps
token t to slot `pages[t // page_size] * page_size + t % page_size` of the arena.
"""

from __future__ import annotations

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
