"""Tensors come from their file whole, in order, and without a second copy in memory."""

from __future__ import annotations

import gc
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.errors import ModelError
from engine.loading.gguf.header import GgufTensor
from engine.loading.gguf.tensor_data import PIECE, Stretch, read_changed, read_rows


def stored(file: Path, values: np.ndarray, before: int = 32) -> GgufTensor:
    """A tensor of `values` that begins after so many other bytes."""
    file.write_bytes(bytes(before) + values.tobytes() + b"\xff" * 7)
    return GgufTensor("a", values.shape, "F32", None, file, before, values.nbytes)


@pytest.mark.parametrize("rows", [1, 3, 1023, 1024, 1025, 4000])
def test_rows_of_all_pieces_are_there(rows: int, tmp_path: Path) -> None:
    values = np.random.default_rng(rows).standard_normal((rows, 1024)).astype(np.float32)
    assert values[:1024].nbytes == PIECE or rows < 1024
    stretch = Stretch.whole(stored(tmp_path / "t", values), rows)
    read = read_changed(stretch, lambda raw: raw.view(mx.float32) * 2)
    assert np.array_equal(np.array(read), values * 2)


def interleaved(ours: np.ndarray, heads: int, head_dim: int) -> np.ndarray:
    """Rows as llama.cpp's converter orders them."""
    theirs = np.empty_like(ours)
    for head in range(heads):
        for pair in range(head_dim // 2):
            at = head * head_dim
            theirs[at + 2 * pair] = ours[at + pair]
            theirs[at + 2 * pair + 1] = ours[at + head_dim // 2 + pair]
    return theirs


@pytest.mark.parametrize(("heads", "head_dim", "width"), [(3, 8, 5), (40, 64, 2048)])
def test_interleaved_rows_are_put_back(heads: int, head_dim: int, width: int, tmp_path: Path) -> None:
    ours = np.random.default_rng(0).standard_normal((heads * head_dim, width)).astype(np.float32)
    stretch = Stretch.whole(stored(tmp_path / "t", interleaved(ours, heads, head_dim)), len(ours), head_dim)
    assert np.array_equal(np.array(read_rows([stretch]).view(mx.float32)), ours)
    assert np.array_equal(np.array(read_changed(stretch, lambda raw: raw.view(mx.float32))), ours)


def test_rows_of_several_files_lie_under_each_other(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    plain, heads, last = (rng.integers(0, 256, (rows, 48), dtype=np.uint8) for rows in (5, 24, 1))
    stretches = [
        Stretch.whole(stored(tmp_path / "a", plain), 5),
        Stretch.whole(stored(tmp_path / "b", interleaved(heads, 3, 8), before=3), 24, 8),
        Stretch.whole(stored(tmp_path / "c", last), 1),
    ]
    assert np.array_equal(np.array(read_rows(stretches)), np.concatenate([plain, heads, last]))


@pytest.mark.parametrize("head_rows", [None, 8])
def test_a_file_that_became_shorter_or_is_gone_is_said_so(head_rows: int | None, tmp_path: Path) -> None:
    file = tmp_path / "t"
    stretch = Stretch.whole(stored(file, np.zeros((64, 512), np.float32)), 64, head_rows)
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(ModelError, match="t became shorter while a was read"):
        read_rows([stretch])
    file.unlink()
    with pytest.raises(ModelError, match="t cannot be read"):
        read_rows([stretch])


def test_memory_holds_a_large_tensor_once_and_little_besides(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (12_000, 4096), dtype=np.uint8)
    stretch = Stretch.whole(stored(tmp_path / "t", values), len(values))
    gc.collect()
    mx.clear_cache()
    for read in (lambda: read_rows([stretch]), lambda: read_changed(stretch, lambda raw: raw + 0)):
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        array = read()
        assert mx.get_active_memory() - before <= values.nbytes + 4096
        assert mx.get_peak_memory() - before <= values.nbytes + 3 * PIECE + 4096
        assert np.array_equal(np.array(array), values)
        del array
