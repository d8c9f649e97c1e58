"""Launches unpack.metal: what the layers of a short chunk read of it, out of what the host wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from metal.errors import KernelError
from metal.executors import Executor, Output
from metal.kernel import Kernel
from metal.pools import SMALLEST
from metal.sequences import HEAD, Sequences

_THREADS = 256
_FIRST = 2 * SMALLEST
"""Numbers that each chunk begins with."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many numbers a chunk has, whatever they are.

    Attributes:
        rows: padding behind its tokens included.
        pages: that its table has room for.
        behind: that are handed on as they are.
    """

    rows: int
    pages: int
    behind: int = 0

    @property
    def written(self) -> int:
        """Numbers that the host may write."""
        return _FIRST + self.behind + self.rows + self.pages

    def numbers(
        self,
        begin: int,
        ids: Sequence[int],
        pages: Sequence[int],
        slots: int,
        pair: Sequence[int],
        behind: Sequence[int],
    ) -> list[int]:
        """What the host writes of a chunk of tokens `ids`, of which the first is token `begin` of a sequence.

        Args:
            pages: of the sequence, up to those of the chunk.
            slots: tokens that the pools have room for.
            pair: of MatmulPages: the three numbers of what is to be copied.
            behind: what is handed on.
        """
        head = [self.behind, self.rows, len(ids), begin, len(pages), self.pages, slots, 0]
        return [*head, *pair, *[0] * (SMALLEST - len(pair)), *behind, *ids, *pages]


@dataclass(frozen=True, slots=True)
class Unpacked:
    """On the device.

    Attributes:
        slots: of MatmulPages, int32 (rows + 8,).
        sequences: of PrefillAttention.
        angles: of each row, float32 (rows, dims).
        rest: uint32: the id of each row, 0 behind the tokens; and where numbers were handed on, the position
            of each, the last one's behind the tokens, and these numbers.
    """

    slots: mx.array
    sequences: Sequences
    angles: mx.array
    rest: mx.array


class Unpack:
    """Brings what the host wrote to the device, and makes what follows of it, in one launch."""

    def __init__(self, executor: Executor, launches: Counter[str], page_size: int) -> None:
        self._page_size = page_size
        self._kernel = Kernel(
            "unpack",
            inputs=("written", "angles"),
            outputs=("slots", "sequences", "own", "rest"),
            executor=executor,
            launches=launches,
        )

    def __call__(self, written: mx.array, angles: mx.array, room: Room) -> Unpacked:
        """What layers read of a chunk.

        Args:
            written: `room.numbers`, int32; what is behind them means nothing. That they are of this room, and
                positions within `angles`, is not checked.
            angles: float32 (positions, dims).

        Raises:
            KernelError: another shape or dtype.
        """
        fits = written.ndim == 1 and written.size >= _FIRST and angles.ndim == 2 and angles.size >= SMALLEST
        if not fits or room.rows < 1 or (written.dtype, angles.dtype) != (mx.int32, mx.float32):
            given = f"{written.shape} {written.dtype}, {angles.shape} {angles.dtype} and {room.rows} rows"
            raise KernelError(
                f"unpack: {given}; int32 (count,), float32 (positions, dims) and a row are taken"
            )
        rows, dims = room.rows, angles.shape[1]
        sizes = rows + SMALLEST, HEAD + 3 + room.pages, room.behind, rows * dims
        threads = -(-max(sizes) // _THREADS) * _THREADS
        slots, sequences, own, rest = self._kernel(
            {"written": written, "angles": angles},
            grid=(threads, 1, 1),
            threadgroup=(_THREADS, 1, 1),
            outputs=[
                Output((sizes[0],), mx.int32),
                Output((sizes[1],), mx.int32),
                Output((rows, dims), mx.float32),
                Output((2 * rows + room.behind if room.behind else rows,), mx.uint32),
            ],
            template={"DIMS": dims, "PAGE": self._page_size},
        )
        return Unpacked(slots, Sequences(1, sequences, room.pages), own, rest)
