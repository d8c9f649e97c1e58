"""What a model that lies elsewhere would take here, from the first bytes of its files and its sizes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import mlx.core as mx

from engine.errors import ModelError
from engine.kv.coding import coding, head_bytes
from engine.loading.gguf.config import read_shape
from engine.loading.gguf.header import DENSE_BYTES, read_beginning
from engine.loading.gguf.placement import kernel_types, place
from engine.machine.machine import compute_dtype
from engine.models import configure
from engine.settings import choose_executor
from metal.block_types import BY_NAME

_FLOATS = ("F64", "F32", "F16", "BF16")
_BYTES = {"U32": 4, "I32": 4, "U64": 8, "I64": 8, "U16": 2, "I16": 2}
_ROW = 4096
"""Weights of a row whose bytes stand for all rows: whole blocks of every format."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What of a model its context's memory depends on.

    Attributes:
        family: as ModelSummary has it.
        layers, kv_heads, head_dim: of its keys and values.
        context_length: tokens its config allows.
        largest_window: tokens that some layer may still look back on; None when a layer sees everything.
        stored_dtype: that computing starts from, None where it is not said.
    """

    family: str
    layers: int
    kv_heads: int
    head_dim: int
    context_length: int
    largest_window: int | None
    stored_dtype: str | None


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """Weights, as far as is known of them without their headers.

    Attributes:
        bytes: on disk.
        types: of GGUF tensors, the one with most weights first.
        parameters: number of weights.
        elements: of safetensors, by dtype: {"BF16": 1_000_000}.
    """

    bytes: int
    types: Sequence[str] = ()
    parameters: int | None = None
    elements: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """Sizes as `model_fit` takes them; `weight_bytes` are an estimate."""

    weight_bytes: int
    kv_bytes_per_token: int
    context_length: int
    largest_window: int | None


def shape_in_config(config: bytes) -> ModelShape:
    """The shape in the bytes of a config.json. Raises ModelError for one that is not run."""
    try:
        raw: object = json.loads(config)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"config.json cannot be read ({error!s:.120})") from None
    if not isinstance(raw, dict):
        raise ModelError("config.json holds no JSON object")
    named = cast("dict[str, object]", raw)
    decoder = configure(named)
    stored = named.get("torch_dtype") or named.get("dtype") or "bfloat16"
    return ModelShape(
        decoder.family,
        decoder.layers,
        decoder.kv_heads,
        decoder.head_dim,
        decoder.context_length,
        decoder.largest_window,
        str(stored),
    )


def shape_in_gguf(begin: bytes, name: str, size: int) -> ModelShape:
    """The shape in the first bytes of the GGUF file `name` of `size` bytes.

    Raises ModelError for one that is not run, or whose shape lies further behind.
    """
    file = Path(name)
    shape = read_shape(read_beginning(begin, file, size), file)
    return ModelShape(
        shape.architecture,
        shape.layers,
        shape.kv_heads,
        shape.head_dim,
        shape.context_length,
        shape.window,
        None,
    )


def sizes_here(shape: ModelShape, stored: StoredWeights, kv_bits: int | None = None) -> ModelSizes:
    """What such a model would take here, with a KV cache in `kv_bits` bits or as computed.

    Raises EngineError where its KV cache cannot be quantised.
    """
    dtype = compute_dtype(shape.stored_dtype or _gguf_dtype(stored.types))
    return ModelSizes(
        weight_bytes=_gguf_bytes(stored, dtype) if stored.types else _safetensors_bytes(stored, dtype),
        kv_bytes_per_token=2
        * shape.layers
        * shape.kv_heads
        * head_bytes(coding(shape.head_dim, dtype, kv_bits)),
        context_length=shape.context_length,
        largest_window=shape.largest_window,
    )


def _gguf_dtype(types: Sequence[str]) -> str:
    """As GgufFiles.stored_dtype, of a file whose matrices are all of these types."""
    return {"BF16": "bfloat16", "F32": "float32"}.get(types[0] if types else "", "float16")


def _safetensors_bytes(stored: StoredWeights, dtype: mx.Dtype) -> int:
    if not stored.elements:
        return stored.bytes
    floats = sum(count for name, count in stored.elements.items() if name in _FLOATS)
    others = sum(
        count * _BYTES.get(name, 1) for name, count in stored.elements.items() if name not in _FLOATS
    )
    return floats * dtype.size + others


def _gguf_bytes(stored: StoredWeights, dtype: mx.Dtype) -> int:
    """Of two types in the proportion that makes up the file's bytes per weight."""
    (disk, here), (other_disk, other_here) = (_bits(stored.types[at], dtype) for at in (0, -1))
    if not stored.parameters or disk == other_disk:
        return round(stored.bytes * here / disk)
    share = (8 * stored.bytes / stored.parameters - disk) / (other_disk - disk)
    share = min(1.0, max(0.0, share))
    grown = ((1 - share) * here + share * other_here) / ((1 - share) * disk + share * other_disk)
    return round(stored.bytes * grown)


def _bits(type_name: str, dtype: mx.Dtype) -> tuple[float, float]:
    """Bits per weight on disk, and in memory here. Raises ModelError for a type that is not read."""
    if type_name in DENSE_BYTES:
        return 8 * DENSE_BYTES[type_name], 8 * dtype.size
    block_type = BY_NAME.get(type_name)
    if block_type is None:
        raise ModelError(f"its {type_name:.40} weights cannot be read here")
    placement = place(block_type, dtype, kernel_types(choose_executor(None).name))
    return block_type.bits, 8 * placement.bytes(1, _ROW) / _ROW
