"""A model on disk, whatever its format, its headers read and checked: what loading starts from."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import mlx.core as mx

from engine.loading.config import DecoderConfig
from engine.loading.fingerprint import ModelContent
from engine.loading.weights import Weights
from engine.tokenizer import Tokenizer
from metal.block_types import BlockType


@dataclass(frozen=True, slots=True)
class StoredKind:
    """The tensors of a model that are stored alike, and what becomes of them here.

    Attributes:
        name: such as "BF16", "Q4_K" or "4-bit, groups of 64 (affine)".
        tensors: how many there are.
        parameters: weights in them.
        file_bytes: that they take on disk.
        memory_bytes: that they will take in memory.
        runs: in words, how layers with them compute; "" where that goes without saying.
    """

    name: str
    tensors: int
    parameters: int
    file_bytes: int
    memory_bytes: int
    runs: str = ""


class WeightFiles(Protocol):
    """A model's tensors in files."""

    def total_bytes(self) -> int:
        """Bytes of all tensors on disk."""
        ...

    def kinds(self, dtype: mx.Dtype, kernel_types: Collection[BlockType]) -> tuple[StoredKind, ...]:
        """How they are stored, and what they take when the model computes in `dtype`; largest first.

        `kernel_types`: block formats that kernels read here; see engine.loading.gguf.placement.
        """
        ...

    def open(
        self, dtype: mx.Dtype, kernel_types: Collection[BlockType], on_bytes: Callable[[int], None]
    ) -> Weights:
        """The tensors themselves; `on_bytes` hears of each one's bytes on disk when it was read."""
        ...

    def content(self) -> ModelContent:
        """What the model's KV pages depend on. Raises ModelError when a file cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model whose configuration, tokenizer and headers were read and checked; no weight is in memory.

    Attributes:
        path: the folder, or the GGUF file.
        name: what people call it, or the folder's name, or the file's without its ending and its number as a
            part.
        config: its shape.
        tokenizer: ready for use.
        weights: its tensors.
        stored_dtype: "bfloat16", "float16" or "float32", which computing starts from.
        quantization: such as "4-bit, groups of 64 (affine)" or "Q4_K, Q6_K"; None where nothing is quantised.
    """

    path: Path
    name: str
    config: DecoderConfig
    tokenizer: Tokenizer
    weights: WeightFiles
    stored_dtype: str
    quantization: str | None
