"""Tensors' bytes, from GGUF files straight to where they stay in MLX's memory: nothing is there twice.

MLX reads arrays from anything that looks like an open file, right into the memory that it gives them. Rows of
tensors are shown to it as a file of numpy's .npy form.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from engine.errors import ModelError
from engine.loading.gguf.header import GgufTensor

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PIECE = 1 << 22
"""Bytes that are changed, or put in another order, at once."""

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring rows of a tensor.

    Attributes:
        tensor: that they are of.
        row_bytes: of each.
        first: the first one's number.
        rows: how many they are.
        head_rows: rows of an attention head whose interleaved pairs are put back in Hugging Face's order;
            the stretch is some whole heads.
    """

    tensor: GgufTensor
    row_bytes: int
    first: int
    rows: int
    head_rows: int | None = None

    @classmethod
    def whole(cls, tensor: GgufTensor, rows: int, head_rows: int | None = None) -> Stretch:
        """A tensor's `rows` rows, of equal bytes."""
        return cls(tensor, tensor.bytes // rows, 0, rows, head_rows)

    def pieces(self) -> list[Stretch]:
        """It in parts of about PIECE bytes."""
        step = max(1, PIECE // self.row_bytes)
        if self.head_rows is not None:
            step = max(1, step // self.head_rows) * self.head_rows
        return [
            replace(self, first=self.first + at, rows=min(step, self.rows - at))
            for at in range(0, self.rows, step)
        ]


def read_rows(stretches: Sequence[Stretch]) -> mx.array:
    """The rows of `stretches`, of equal bytes, under each other: uint8 (rows, bytes per row).

    Raises ModelError when a file cannot be read or has become shorter, and MemoryError.
    """
    file = _ArrayFile(stretches)
    try:
        return cast(mx.array, mx.load(file, format="npy"))  # pyright: ignore[reportArgumentType]
    except RuntimeError:  # says nothing of what went wrong in the file
        if file.problem is not None:
            raise file.problem from file.problem.__cause__
        raise


def read_changed(stretch: Stretch, change: Callable[[mx.array], mx.array]) -> mx.array:
    """The rows of `stretch`, read some at a time and put through `change`, evaluated.

    `change` makes of uint8 (some rows, bytes per row) what is kept of them. Raises ModelError as `read_rows`.
    """
    result: mx.array | None = None
    at = 0
    for piece in stretch.pieces():
        changed = change(read_rows([piece]))
        if result is None:
            result = mx.zeros((stretch.rows, *changed.shape[1:]), changed.dtype)
        result[at : at + piece.rows] = changed
        mx.eval(result)  # in place, as nothing else holds it
        at += piece.rows
    assert result is not None
    return result


class _ArrayFile(io.RawIOBase):
    """Stretches as a file that MLX reads. `problem`: why it could not, once it could not."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        self.problem: ModelError | MemoryError | None = None
        self._stretches = stretches
        self._shape = sum(stretch.rows for stretch in stretches), stretches[0].row_bytes
        head = io.BytesIO()
        npy.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": self._shape})
        self._head = io.BytesIO(head.getvalue())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._head.seek(offset, whence)

    def tell(self) -> int:
        return self._head.tell()

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill `buffer`, which MLX asks for the header in parts and for the data in one; 0 for a problem."""
        if count := self._head.readinto(buffer):
            return count
        rows = np.frombuffer(memoryview(buffer), np.uint8).reshape(self._shape)
        at = 0
        try:
            for stretch in self._stretches:
                _fill(rows[at : at + stretch.rows], stretch)
                at += stretch.rows
        except (ModelError, MemoryError) as error:
            self.problem = error
            return 0
        return rows.size


def _fill(rows: Bytes, stretch: Stretch) -> None:
    try:
        with stretch.tensor.file.open("rb", buffering=0) as file:
            file.seek(stretch.tensor.begin + stretch.first * stretch.row_bytes)
            if stretch.head_rows is None:
                _read(file, rows, stretch)
            else:
                _read_interleaved(file, rows, stretch, stretch.head_rows)
    except OSError as error:
        raise ModelError(
            f"{stretch.tensor.file} cannot be read ({error.strerror}); check the disk"
        ) from error


def _read(file: io.FileIO, rows: Bytes, stretch: Stretch) -> None:
    """Fill `rows`, which lie in one piece, with what comes next in `file`."""
    empty = rows.data.cast("B")
    while empty:
        count = file.readinto(empty)
        if not count:
            tensor = stretch.tensor
            raise ModelError(f"{tensor.file} became shorter while {tensor.name} was read; download it again")
        empty = empty[count:]


def _read_interleaved(file: io.FileIO, rows: Bytes, stretch: Stretch, head_rows: int) -> None:
    # llama.cpp rotates neighbours (2i, 2i + 1) in models of its llama kind, Hugging Face and this engine
    # (i, i + d/2): its converter interleaves each head's two halves, which is undone here.
    at = 0
    for piece in stretch.pieces():
        pairs = np.empty((piece.rows // head_rows, head_rows // 2, 2, piece.row_bytes), np.uint8)
        _read(file, pairs, stretch)
        rows[at : at + piece.rows].reshape(pairs.swapaxes(1, 2).shape)[:] = pairs.swapaxes(1, 2)
        at += piece.rows
