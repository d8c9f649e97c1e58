"""What a model folder holds and needs, from its headers alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.kv.coding import coding, head_bytes
from engine.loading.config import DecoderConfig
from engine.loading.model import open_model
from engine.loading.weights import TensorHeader
from engine.machine import compute_dtype


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """A model on disk.

    Attributes:
        path, name: the folder and its name.
        family: its `model_type`.
        parameters: number of weights.
        weight_bytes: bytes the weights will take in memory here.
        dtype: what it is computed in here.
        quantization: such as "4-bit, groups of 64 (affine)", or None.
        context_length: tokens its config allows.
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
    context_length: int
    kv_bits: int | None
    kv_bytes_per_token: int
    has_chat_template: bool


def inspect_model(path: Path, kv_bits: int | None = None) -> ModelSummary:
    """Read a model's configuration, tokenizer and headers, for a KV cache in `kv_bits` bits or as computed.

    Raises ModelError or TokenizerError, one line, and EngineError where its KV cache cannot be quantised.
    """
    files = open_model(path)
    config = files.config
    dtype = compute_dtype(files.stored_dtype)
    return ModelSummary(
        path=str(path),
        name=path.resolve().name,
        family=config.family,
        parameters=sum(_parameters(name, header, config) for name, header in files.headers.items()),
        weight_bytes=sum(_memory_bytes(header, dtype.size) for header in files.headers.values()),
        dtype=str(dtype).removeprefix("mlx.core."),
        quantization=_quantization_words(config),
        context_length=config.context_length,
        kv_bits=kv_bits,
        kv_bytes_per_token=2
        * config.layers
        * config.kv_heads
        * head_bytes(coding(config.head_dim, dtype, kv_bits)),
        has_chat_template=files.tokenizer.chat_template is not None,
    )


def _parameters(name: str, header: TensorHeader, config: DecoderConfig) -> int:
    count = 1
    for size in header.shape:
        count *= size
    if header.dtype == "U32" and config.quantization is not None:
        return count * 32 // config.quantization.at(name.removesuffix(".weight")).bits
    return 0 if name.endswith((".scales", ".biases")) else count


def _memory_bytes(header: TensorHeader, float_bytes: int) -> int:
    stored = {"F32": 4, "F16": 2, "BF16": 2}.get(header.dtype)
    return header.bytes if stored is None else header.bytes // stored * float_bytes


def _quantization_words(config: DecoderConfig) -> str | None:
    if config.quantization is None:
        return None
    spec = config.quantization.default
    mixed = ", some layers differ" if config.quantization.overrides else ""
    return f"{spec.bits}-bit, groups of {spec.group_size} ({spec.mode}){mixed}"
