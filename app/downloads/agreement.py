"""When it pays to sum up a file that is being mended.

A checksum covers a whole file, so a wrong byte in it can lie anywhere. The file is fetched again and
compared with what lies on the disk; where it differs, the disk is mended. Behind the last wrong byte nothing
more need come: but nobody knows which one is the last, and finding out costs reading the rest.
"""

from __future__ import annotations

FIRST = 16 << 10
"""Bytes that agree again before it is tried: wrong ones come in pages and packets."""
GROWTH = 4
"""Each try in vain asks for so many times more: 11 tries in a file of 16 GB at most."""


class Agreement:
    """Follows what comes, compared with what was there."""

    def __init__(self) -> None:
        self._stretch = FIRST
        self._agreed: int | None = None  # bytes since the last difference, None where none is new

    def saw(self, count: int, *, differed: bool) -> None:
        """`count` bytes came."""
        if differed:
            self._agreed = 0
        elif self._agreed is not None:
            self._agreed += count

    @property
    def is_due(self) -> bool:
        """Whether something was mended, and long enough ago that the file may be right by now."""
        return self._agreed is not None and self._agreed >= self._stretch

    def was_in_vain(self) -> None:
        """The sum is still wrong: only another difference can change that."""
        self._agreed = None
        self._stretch *= GROWTH
