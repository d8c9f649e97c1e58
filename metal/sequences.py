"""Where the sequences lie that prefill attention works on, and which rows are theirs."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx

from metal.errors import KernelError
from metal.pools import SMALLEST


@dataclass(frozen=True, slots=True)
class Sequences:
    """In one array, as each that a launch takes costs the host.

    Attributes:
        count: of them.
        numbers: int32, at least 8: of each the tokens before its rows (negative for one that is not in use,
            whose output is then undefined); the first row of each, and the end of all; of each its pages, -1
            where there is none, as many for each. What is behind them means nothing.
        width: pages of each.
    """

    count: int
    numbers: mx.array
    width: int

    @classmethod
    def of(cls, tables: mx.array, lengths: mx.array, offsets: mx.array) -> Sequences:
        """Of parts: int32 (sequences, width), as many lengths, and offsets for one more, or more of both."""
        count, width = tables.shape
        parts = [lengths[:count], offsets[: count + 1], tables.reshape(-1), mx.zeros((SMALLEST,), mx.int32)]
        return cls(count, mx.concatenate(parts), width)

    @property
    def end(self) -> int:
        """Where `numbers` say how many rows there are."""
        return 2 * self.count

    def check(self) -> None:
        """Raises KernelError for an array that is none of these."""
        least = max(SMALLEST, self.end + 1 + self.count * self.width)
        fits = self.numbers.ndim == 1 and self.numbers.size >= least and self.numbers.dtype == mx.int32
        if not fits or self.count < 1 or self.width < 1:
            given = f"{self.numbers.shape} {self.numbers.dtype}"
            raise KernelError(f"prefill attention: {given} for {self.count} sequences of {self.width} pages")
