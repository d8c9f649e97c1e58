"""Tensors come from their file whole, in order, and without a second copy in memory."""

from __future__ import annotations

import gc
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.loading.gguf.header import GgufTensor
from engine.loading.gguf.tensor_data import PIECE, read_rows


def stored(file: Path, values: np.ndarray, before: int = 32) -> GgufTensor:
    """A tensor of `values` that begins after so many other bytes."""
    file.write_bytes(bytes(before) + values.tobytes() + b"\xff" * 7)
    return GgufTensor("a", values.shape, "F32", None, file, before, values.nbytes)


@pytest.mark.parametrize("rows", [1, 3, 1023, 1024, 1025, 4000])
def test_rows_of_all_pieces_are_there(rows: int, tmp_path: Path) -> None:
    values = np.random.default_rng(rows).standard_normal((rows, 1024)).astype(np.float32)
    assert values[:1024].nbytes == PIECE or rows < 1024
    read = read_rows(stored(tmp_path / "t", values), rows, lambda raw: raw.view(mx.float32) * 2)
    assert np.array_equal(np.array(read), values * 2)


@pytest.mark.parametrize(("heads", "head_dim", "width"), [(3, 8, 5), (40, 64, 2048)])
def test_interleaved_rows_are_put_back(heads: int, head_dim: int, width: int, tmp_path: Path) -> None:
    ours = np.random.default_rng(0).standard_normal((heads * head_dim, width)).astype(np.float32)
    theirs = np.empty_like(ours)
    for head in range(heads):
        for pair in range(head_dim // 2):
            at = head * head_dim
            theirs[at + 2 * pair] = ours[at + pair]
            theirs[at + 2 * pair + 1] = ours[at + head_dim // 2 + pair]
    tensor = stored(tmp_path / "t", theirs)
    read = read_rows(tensor, len(theirs), lambda raw: raw.view(mx.float32), head_dim)
    assert np.array_equal(np.array(read), ours)


def test_memory_holds_a_large_tensor_once_and_little_besides(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (12_000, 4096), dtype=np.uint8)
    tensor = stored(tmp_path / "t", values)
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    read = read_rows(tensor, len(values), lambda raw: raw)
    assert mx.get_active_memory() - before <= values.nbytes + 4096
    assert mx.get_peak_memory() - before <= values.nbytes + 2 * PIECE + 4096
    assert np.array_equal(np.array(read), values)
