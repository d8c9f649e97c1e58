"""What KV memory needs of the arena and of the SSD, and what it tells of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from engine.kv.page_data import PageData, PageMemory, SpilledRun
from engine.kv.page_table import PageCopy

MemoryOf = Callable[[int, int], PageMemory]
"""Where some of a row of pages belong: from the one at that position on, so many. For any thread."""


class PageStore(Protocol):
    """The arena: the content of pages."""

    @property
    def page_bytes(self) -> int:
        """Bytes of one page: all layers, keys and values."""
        ...

    def reserve(self, pages: int, limit: int) -> None:
        """Make room for the pages 0 … pages-1, at most `limit`; what is stored stays."""
        ...

    def copy(self, copied: PageCopy) -> None:
        """Copy a page onto another, before anything is written to that."""
        ...

    def read(self, pages: Sequence[int]) -> PageData:
        """The content of `pages`, in their order, in host memory."""
        ...

    def memory(self, pages: Sequence[int]) -> MemoryOf:
        """Where the content of `pages` belongs, as `read` gives it.

        Nobody else may touch the store, and nobody may look at these pages, until it is filled and gone.
        """
        ...


class StoredBytes(Protocol):
    """Bytes of a chat's pages on SSD; `shared` of them belong to other chats too."""

    @property
    def total(self) -> int: ...
    @property
    def shared(self) -> int: ...


class Room(Enum):
    """Whether there is room on SSD for some pages: now, once others are written, or never, as it is now."""

    NOW = 1
    LATER = 2
    NEVER = 3


class Tier(Protocol):
    """The SSD: full pages by their chain key. Nothing in it raises; it may refuse and it may lose.

    What was used longest ago makes room, and only for what was used since.
    """

    @property
    def reason(self) -> str:
        """Why nothing is written at present; "" where nothing speaks against it."""
        ...

    def tick(self) -> int:
        """A time later than every one before, by which uses of pages are told apart."""
        ...

    def use(self, keys: Sequence[bytes]) -> None:
        """The pages `keys`, consecutive in one sequence, are used now, and all before them."""
        ...

    def room(self, size: int, used: int) -> Room:
        """Whether `put` would take pages of `size` bytes together that were last used at `used`."""
        ...

    def find(self, key: bytes) -> bool:
        """Whether page `key` is stored, or waits to be."""
        ...

    def count(self, keys: Sequence[bytes]) -> int:
        """How many of the pages `keys`, from the first on, are stored or wait to be."""
        ...

    def put(self, run: SpilledRun) -> bool:
        """Take `run` for writing; False when it is not taken."""
        ...

    def flush(self, timeout: float) -> bool:
        """Wait, at most `timeout` seconds, until all that was taken is stored or dropped; whether it is."""
        ...

    def read(self, keys: Sequence[bytes], ids: bytes, memory: MemoryOf) -> int:
        """Read consecutive pages, whose ids are `ids` (see id_bytes), verified.

        Returns how many, from the first on, their memory holds. There are fewer where one is gone or damaged,
        and where it would take too long to read all at once. Raises what `memory` raises.
        """
        ...

    def expect(self, keys: Sequence[bytes]) -> None:
        """`read` will be asked for these pages next."""
        ...

    def claim(self, keys: Iterable[bytes], chat: str) -> None:
        """The pages among `keys` that are stored are `chat`'s too."""
        ...

    def forget_chat(self, chat: str) -> None:
        """Find no page any more that is only `chat`'s."""
        ...

    def quarantine(self, keys: Iterable[bytes]) -> None:
        """Restored pages disagreed with what the model computes: remove what holds them, and count it."""
        ...

    def chat_bytes(self) -> Mapping[str, StoredBytes]:
        """Bytes of each chat that has stored pages."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """What a prompt would find.

    Attributes:
        cached_tokens: in memory.
        stored_tokens: that the SSD could add behind them.
        skipped_tokens: of these, those that need not be read: a sliding window has left them.
    """

    cached_tokens: int
    stored_tokens: int
    skipped_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Spilled:
    """What was written ahead.

    Attributes:
        pages: that the SSD took.
        is_all: whether nothing is left that it might take.
    """

    pages: int
    is_all: bool


@dataclass(slots=True)
class MemoryCounts:
    """Pages since the start: that left memory, came back from SSD, were copied on write."""

    evicted_pages: int = 0
    restored_pages: int = 0
    copied_pages: int = 0
