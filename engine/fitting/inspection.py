"""What a model holds and needs, from its headers alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.kv.coding import coding, head_bytes
from engine.loading.files import ModelFiles, StoredKind
from engine.loading.gguf.placement import kernel_types
from engine.loading.model import open_model
from engine.machine.machine import compute_dtype
from engine.settings import choose_executor


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """A model on disk.

    Attributes:
        path, name: the folder or GGUF file, and its name.
        family: its `model_type`.
        parameters: number of weights.
        weight_bytes: bytes the weights will take in memory here.
        dtype: what it is computed in here.
        quantization: such as "4-bit, groups of 64 (affine)" or "Q4_K, Q6_K", or None.
        kinds: how its tensors are stored.
        context_length: tokens its config allows.
        largest_window: tokens that some layer may still look back on; None when a layer sees everything.
        kv_bits: of a stored key or value element, None as computed.
        kv_bytes_per_token: KV memory per token over all layers, with so many bits.
        has_chat_template: whether it can chat.
    """

    path: str
    name: str
    family: str
    parameters: int
    weight_bytes: int
    dtype: str
    quantization: str | None
    kinds: tuple[StoredKind, ...]
    context_length: int
    largest_window: int | None
    kv_bits: int | None
    kv_bytes_per_token: int
    has_chat_template: bool


def inspect_model(path: Path, kv_bits: int | None = None) -> ModelSummary:
    """Read a model's configuration, tokenizer and headers, for a KV cache in `kv_bits` bits or as computed.

    Raises ModelError or TokenizerError, one line, and EngineError where its KV cache cannot be quantised.
    """
    return summary_of(open_model(path), kv_bits)


def summary_of(files: ModelFiles, kv_bits: int | None) -> ModelSummary:
    """The same of a model that was opened. Raises EngineError where its KV cache cannot be quantised."""
    config = files.config
    dtype = compute_dtype(files.stored_dtype)
    kinds = files.weights.kinds(dtype, kernel_types(choose_executor(None).name))
    return ModelSummary(
        path=str(files.path),
        name=files.name,
        family=config.family,
        parameters=sum(kind.parameters for kind in kinds),
        weight_bytes=sum(kind.memory_bytes for kind in kinds),
        dtype=str(dtype).removeprefix("mlx.core."),
        quantization=files.quantization,
        kinds=kinds,
        context_length=config.context_length,
        largest_window=config.largest_window,
        kv_bits=kv_bits,
        kv_bytes_per_token=2
        * config.layers
        * config.kv_heads
        * head_bytes(coding(config.head_dim, dtype, kv_bits)),
        has_chat_template=files.tokenizer.chat_template is not None,
    )
