"""What leaves the arena as a value: pages' bytes on the host, the run of pages that is spilled, its keys."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

PageMemory = Mapping[str, Sequence[memoryview]]
"""By array's name: writable bytes that together, in order, are (layers, kv_heads, tokens, …) of some pages.

Every head of every layer has as many parts, of the same lengths.
"""

ID_BYTES = 4
"""Of a token's id, as it is hashed and stored."""

KEY_BYTES = 16
ROOT_KEY = bytes(KEY_BYTES)
"""The parent of a sequence's first page."""

LONGEST_RUN = 64
"""Most pages in one SpilledRun, and so in one file."""

_SHORTEST_RUN, _RUN_BYTES = 16, 8 << 20

TOKEN_AXIS = 2


def run_pages(page_bytes: int) -> int:
    """How many pages of `page_bytes` bytes are stored together: a power of two, 16 … LONGEST_RUN.

    As many as 8 MiB hold: a file costs the same whatever is in it, and the longer a head's tokens in it are,
    the fewer pieces they come back in; but all of a file is read for one of its pages.
    """
    pages = _SHORTEST_RUN
    while pages < LONGEST_RUN and 2 * pages * page_bytes <= _RUN_BYTES:
        pages *= 2
    return pages


def chain_key(parent: bytes, tokens: Sequence[int]) -> bytes:
    """The key of a full page: blake2b of its parent's key and its token ids as little-endian int32.

    16 bytes. It names the whole sequence up to the page's end; who finds a page by it still compares tokens.
    """
    return chain_keys(parent, (tokens,))[0]


def chain_keys(parent: bytes, pages: Sequence[Sequence[int]]) -> tuple[bytes, ...]:
    """The keys of consecutive full pages that follow the page `parent`."""
    return _chained(parent, map(id_bytes, pages))


def id_bytes(tokens: Sequence[int]) -> bytes:
    """Token ids as little-endian int32, as they are hashed and stored."""
    return struct.pack(f"<{len(tokens)}i", *tokens)


def keys_of_ids(parent: bytes, ids: bytes, page_bytes: int) -> tuple[bytes, ...]:
    """The keys of pages behind the page `parent`, whose ids are `ids`, `page_bytes` bytes for each page."""
    return _chained(parent, (ids[at : at + page_bytes] for at in range(0, len(ids), page_bytes)))


def _chained(parent: bytes, pages: Iterable[bytes]) -> tuple[bytes, ...]:
    blake2b, keys = hashlib.blake2b, list[bytes]()
    for ids in pages:
        parent = blake2b(parent + ids, digest_size=KEY_BYTES).digest()
        keys.append(parent)
    return tuple(keys)


@dataclass(frozen=True, slots=True, eq=False)
class PageData:
    """The content of consecutive full pages, in every layer, in host memory.

    Attributes:
        arrays: by name, such as "keys" and "values": (layers, kv_heads, tokens, …), raw bits, so that
            bfloat16 is uint16. Quantised pages have more names (scales); axis 2 is the tokens' in each.
        page_size: tokens per page.

    Raises ValueError when the arrays do not hold the same whole number of pages.
    """

    arrays: Mapping[str, Array]
    page_size: int

    def __post_init__(self) -> None:
        tokens = {array.shape[TOKEN_AXIS] if array.ndim > TOKEN_AXIS else 0 for array in self.arrays.values()}
        if self.page_size < 1 or len(tokens) != 1 or not (count := tokens.pop()) or count % self.page_size:
            shapes = {name: array.shape for name, array in self.arrays.items()}
            raise ValueError(f"arrays of {shapes} are no whole pages of {self.page_size} tokens")

    @property
    def pages(self) -> int:
        """How many pages it holds, at least 1."""
        return next(iter(self.arrays.values())).shape[TOKEN_AXIS] // self.page_size

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def part(self, first: int, pages: int) -> PageData:
        """`pages` pages from the one at `first`: views, not copies."""
        if first == 0 and pages == self.pages:
            return self
        begin, end = first * self.page_size, (first + pages) * self.page_size
        return PageData({name: array[:, :, begin:end] for name, array in self.arrays.items()}, self.page_size)

    def head(self, pages: int) -> PageData:
        """The first `pages` pages: views, not copies."""
        return self.part(0, pages)

    def copy_into(self, memory: PageMemory) -> None:
        """Copy all of it to where its pages belong."""
        for name, parts in memory.items():
            source, begin = np.ascontiguousarray(self.arrays[name]).data.cast("B"), 0
            for part in parts:
                part[:] = source[begin : begin + len(part)]
                begin += len(part)


@dataclass(frozen=True, slots=True, eq=False)
class SpilledRun:
    """Consecutive full pages of one sequence, to be stored.

    Attributes:
        parent: key of the page before the first, ROOT_KEY when there is none.
        keys: `chain_key` of each page; 1 … LONGEST_RUN of them.
        tokens: ids of each page.
        data: their content. Nobody changes it after this.
        chats: whose each page is; an empty set is nobody's.
        used: when they were last used, by `Tier.tick`; None: they are now.

    Raises ValueError when these do not belong together.
    """

    parent: bytes
    keys: tuple[bytes, ...]
    tokens: tuple[tuple[int, ...], ...]
    data: PageData
    chats: tuple[frozenset[str], ...]
    used: int | None = None

    def __post_init__(self) -> None:
        pages = self.data.pages
        if not (len(self.keys) == len(self.tokens) == len(self.chats) == pages <= LONGEST_RUN):
            raise ValueError(
                f"a run of {pages} pages has {len(self.keys)} keys, tokens of {len(self.tokens)} pages and "
                f"chats of {len(self.chats)}; all must be the same, at most {LONGEST_RUN}"
            )
        if any(len(page) != self.data.page_size for page in self.tokens):
            raise ValueError(f"a page of the run does not have {self.data.page_size} tokens")
        if self.keys != chain_keys(self.parent, self.tokens):
            raise ValueError("the keys of the run are not those of its tokens")
