"""Memory that a process which is forked does not get: it is not copied when it is written to afterwards.

Without that, the first to write to a page of memory since a fork copies it, and a fork takes the longer the
more memory there is. Linux alone has it: MADV_DONTFORK of madvise(2).
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from engine.kv.page_table import Span

Range = tuple[int, int]
"""Addresses of memory, the second behind its end."""

_WORTH = 1 << 16
"""Bytes in a row that are worth telling the system of: 1 to 2 µs, as copying 16 pages' entries takes."""


def not_in(spans: Sequence[Span], pool: NDArray[Any]) -> list[Range]:
    """What of a pool (kv_heads, slots, head_dim), row-contiguous, holds no slot of `spans`: whole pages."""
    heads, slots, width = pool.shape
    begin, slot = pool.ctypes.data, width * pool.itemsize
    held = sorted((span.begin * slot, span.end * slot) for span in spans)
    ends, begins = [begin], list[int]()
    for head in range(begin, begin + heads * slots * slot, slots * slot):
        begins += [head + first for first, _ in held]
        ends += [head + last for _, last in held]
    page = mmap.PAGESIZE
    between = zip(ends, [*begins, begin + pool.nbytes], strict=True)
    whole = [(-(-one // page) * page, other // page * page) for one, other in between]
    return [(one, other) for one, other in whole if other - one >= _WORTH]


@contextmanager
def left_out(ranges: Sequence[Range]) -> Generator[None]:
    """A process that is forked within has none of `ranges`, and ends where it touches one.

    What the system does not take is forked like all the rest.
    """
    _advise(ranges, mmap.MADV_DONTFORK)
    try:
        yield
    finally:
        _advise(ranges, mmap.MADV_DOFORK)


def _advise(ranges: Sequence[Range], advice: int) -> None:
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for begin, end in ranges:
        madvise(begin, end - begin, advice)
