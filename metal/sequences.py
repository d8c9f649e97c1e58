"""Where the sequences lie that prefill attention works on, and which rows are theirs."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx

from metal.errors import KernelError
from metal.pools import SMALLEST

HEAD = 5
"""Numbers that all begin with: what the launch is of, and how many there are."""


@dataclass(frozen=True, slots=True)
class Sequences:
    """In one array, as each that a launch takes costs the host.

    Attributes:
        count: of them.
        numbers: int32, at least 8: tokens that the pools have room for; pages of a sequence; rows of all
            queries, those of no sequence too; rows of the sequences; how many there are. Then of each the
            tokens before its rows (negative for one that is not in use, whose output is then undefined); the
            first row of each, and the end of all; of each its pages, -1 where there is none. What is behind
            them means nothing.
        width: pages of each.
    """

    count: int
    numbers: mx.array
    width: int

    @classmethod
    def of(
        cls, tables: mx.array, lengths: mx.array, offsets: mx.array, *, slots: int, rows: int
    ) -> Sequences:
        """Of parts.

        Args:
            tables: int32 (sequences, width).
            lengths, offsets: int32, of as many and of one more, or of more.
            slots: tokens that the pools have room for.
            rows: of all queries.
        """
        count, width = tables.shape
        end, behind = offsets[count : count + 1], mx.zeros((SMALLEST,), mx.int32)
        head = [mx.array([slots, width, rows], dtype=mx.int32), end, mx.array([count], dtype=mx.int32)]
        parts = [*head, lengths[:count], offsets[: count + 1], tables.reshape(-1), behind]
        return cls(count, mx.concatenate(parts), width)

    @property
    def tables(self) -> mx.array:
        """The pages of all, one after the other, and what is behind them."""
        return self.numbers[HEAD + 2 * self.count + 1 :]

    def check(self) -> None:
        """Raises KernelError for an array that is none of these."""
        least = max(SMALLEST, HEAD + 2 * self.count + 1 + self.count * self.width)
        fits = self.numbers.ndim == 1 and self.numbers.size >= least and self.numbers.dtype == mx.int32
        if not fits or self.count < 1 or self.width < 1:
            given = f"{self.numbers.shape} {self.numbers.dtype}"
            raise KernelError(f"prefill attention: {given} for {self.count} sequences of {self.width} pages")


def numbers_of_one(begin: int, tokens: int, pages: list[int], *, slots: int, rows: int) -> list[int]:
    """`numbers` of one sequence, with `tokens` tokens behind `begin` others, as the host writes them."""
    return [slots, len(pages), rows, tokens, 1, begin, 0, tokens, *pages]
