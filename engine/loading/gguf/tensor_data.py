"""Tensors' bytes, from GGUF files into MLX's memory by pieces, so that nothing is there twice."""

from __future__ import annotations

import os
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from engine.errors import ModelError
from engine.loading.gguf.header import GgufTensor

PIECE = 1 << 22
"""Bytes that are read at once."""

Bytes = npt.NDArray[np.uint8]


def read_rows(
    tensor: GgufTensor, rows: int, change: Callable[[mx.array], mx.array], head_rows: int | None = None
) -> mx.array:
    """A tensor's rows, read some at a time and put through `change`.

    Args:
        tensor: what is read.
        rows: how many rows it has, of equal bytes.
        change: from uint8 (some rows, bytes per row) to what is kept of them.
        head_rows: rows of an attention head whose interleaved pairs are put back in Hugging Face's order.

    Raises ModelError when the file cannot be read or has become shorter.
    """
    row_bytes = tensor.bytes // rows
    step = max(1, PIECE // row_bytes)
    if head_rows is not None:
        step = max(1, step // head_rows) * head_rows
    result: mx.array | None = None
    try:
        with tensor.file.open("rb", buffering=0) as file:
            for first in range(0, rows, step):
                count = min(step, rows - first)
                raw = os.pread(file.fileno(), count * row_bytes, tensor.begin + first * row_bytes)
                piece = change(mx.array(_ordered(_rows(tensor, raw, count, row_bytes), head_rows)))
                if count == rows:
                    mx.eval(piece)
                    return piece
                if result is None:
                    result = mx.zeros((rows, *piece.shape[1:]), piece.dtype)
                result[first : first + count] = piece
                mx.eval(result)  # in place, as nothing else holds it
    except OSError as error:
        raise ModelError(f"{tensor.file} cannot be read ({error.strerror}); check the disk") from error
    assert result is not None
    return result


def _rows(tensor: GgufTensor, raw: bytes, count: int, row_bytes: int) -> Bytes:
    if len(raw) != count * row_bytes:
        raise ModelError(f"{tensor.file} became shorter while {tensor.name} was read; download it again")
    return np.frombuffer(raw, np.uint8).reshape(count, row_bytes)


def _ordered(rows: Bytes, head_rows: int | None) -> Bytes:
    # llama.cpp rotates neighbours (2i, 2i + 1) in models of its llama kind, Hugging Face and this engine
    # (i, i + d/2): its converter interleaves each head's two halves, which is undone here.
    if head_rows is None:
        return rows
    heads = rows.reshape(-1, head_rows // 2, 2, rows.shape[1])
    return np.ascontiguousarray(heads.swapaxes(1, 2)).reshape(rows.shape)
