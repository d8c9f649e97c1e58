"""A GGUF model on disk: configuration and tokenizer from its metadata, its tensors' headers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from engine.loading.config import DecoderConfig
from engine.loading.files import ModelFiles, StoredKind
from engine.loading.fingerprint import ModelContent
from engine.loading.gguf.config import INTERLEAVED, read_config, shape_entries
from engine.loading.gguf.header import DENSE_BYTES, GgufHeader, GgufTensor
from engine.loading.gguf.names import ROPE_FACTORS
from engine.loading.gguf.parts import model_name, read_parts
from engine.loading.gguf.placement import place
from engine.loading.gguf.weights import GgufWeights
from engine.loading.safetensors_file import StoredTensor
from engine.tokenizer.gguf import load_gguf_tokenizer
from metal.block_types import BY_NAME, BlockType


def open_gguf(file: Path) -> ModelFiles:
    """Read and check everything but the weights of the model that `file` is, or is a part of.

    Raises ModelError or TokenizerError, one line.
    """
    header = read_parts(file)
    config = read_config(header, file)
    tokenizer = load_gguf_tokenizer(header.metadata, where=str(file), rows=config.vocab_size)
    weights = weight_files(header, config)
    return ModelFiles(
        file, model_name(file), config, tokenizer, weights, weights.stored_dtype, weights.block_names
    )


def weight_files(header: GgufHeader, config: DecoderConfig) -> GgufFiles:
    """The weights that a header lists."""
    tensors = {name: tensor for name, tensor in header.tensors.items() if name != ROPE_FACTORS}
    return GgufFiles(tensors, config, shape_entries(header.metadata))


@dataclass(frozen=True, slots=True)
class GgufFiles:
    """A GGUF model's weights. `relevant`: the metadata that its keys and values depend on."""

    tensors: Mapping[str, GgufTensor]
    config: DecoderConfig
    relevant: Mapping[str, object]

    @property
    def stored_dtype(self) -> str:
        """What computing starts from: the unquantised matrices' type, float16 where all are quantised."""
        types = {tensor.type_name for tensor in self.tensors.values() if len(tensor.shape) > 1}
        if "BF16" in types:
            return "bfloat16"
        return "float32" if types == {"F32"} else "float16"

    @property
    def block_names(self) -> str | None:
        """The block formats in it, such as "Q4_K, Q6_K", the one with most bytes first."""
        names = [kind.name for kind in self.kinds(mx.float16, ()) if kind.name not in DENSE_BYTES]
        return ", ".join(names) or None

    def total_bytes(self) -> int:
        """Bytes of all tensors on disk."""
        return sum(tensor.bytes for tensor in self.tensors.values())

    def kinds(self, dtype: mx.Dtype, kernel_types: Collection[BlockType]) -> tuple[StoredKind, ...]:
        """How they are stored, and what they take when the model computes in `dtype`; largest first."""
        grouped: dict[str, list[GgufTensor]] = defaultdict(list)
        for tensor in self.tensors.values():
            grouped[tensor.type_name].append(tensor)
        kinds = [_stored_kind(name, tensors, dtype, kernel_types) for name, tensors in grouped.items()]
        return tuple(sorted(kinds, key=lambda kind: -kind.file_bytes))

    def open(
        self, dtype: mx.Dtype, kernel_types: Collection[BlockType], on_bytes: Callable[[int], None]
    ) -> GgufWeights:
        """The tensors themselves; `on_bytes` hears of each one's bytes on disk when it was read."""
        interleaved = self.config.head_dim if self.config.family in INTERLEAVED else None
        return GgufWeights(self.tensors, dtype, interleaved, kernel_types, on_bytes)

    def content(self) -> ModelContent:
        """What the model's KV pages depend on."""
        stored = (
            StoredTensor(one.name, one.type_name, one.shape, one.file, one.begin, one.begin + one.bytes)
            for one in self.tensors.values()
        )
        return ModelContent({**self.relevant, "divisors": self.config.rope.divisors}, tuple(stored))


def _stored_kind(
    name: str, tensors: list[GgufTensor], dtype: mx.Dtype, kernel_types: Collection[BlockType]
) -> StoredKind:
    parameters = sum(math.prod(tensor.shape) for tensor in tensors)
    file_bytes = sum(tensor.bytes for tensor in tensors)
    if name in DENSE_BYTES:
        return StoredKind(name, len(tensors), parameters, file_bytes, parameters * dtype.size)
    placement = place(BY_NAME[name], dtype, kernel_types)
    memory = sum(placement.bytes(math.prod(one.shape[:-1]), one.shape[-1]) for one in tensors)
    runs = f"{placement}: {placement.reason}"
    return StoredKind(name, len(tensors), parameters, file_bytes, memory, runs)
