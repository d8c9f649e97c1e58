"""A decoder's configuration from GGUF metadata (keys: ggml's docs/gguf.md; their effect: llama.cpp)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import mlx.core as mx

from engine.errors import ModelError
from engine.loading.config import ConfigReader, DecoderConfig, RopeConfig
from engine.loading.gguf.header import GgufHeader, GgufTensor
from engine.loading.gguf.names import ROPE_FACTORS
from engine.loading.gguf.tensor_data import Stretch, read_rows

ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""Values of `general.architecture` that are run; files of Mistral models say llama."""

INTERLEAVED = ("llama",)
"""Those whose files hold query and key rows interleaved."""

_CHANGES_RESULTS = (
    "expert_count",
    "attention.scale",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.sliding_window_pattern",
    "attention.temperature_scale",
    "attention.shared_kv_layers",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "logit_scale",
    "residual_scale",
    "embedding_scale",
    "use_parallel_residual",
    "rope.dimension_sections",
    "rope.scaling.yarn_log_multiplier",
)
"""Entries of other models, which these families' layers would ignore, to give wrong text."""


@dataclass(frozen=True, slots=True)
class GgufShape:
    """What a file's metadata alone tells of its decoder; names as in DecoderConfig."""

    architecture: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context_length: int
    window: int | None


def read_shape(metadata: Mapping[str, object], file: Path) -> GgufShape:
    """The shape that `metadata` describes. Raises ModelError naming the file and the field."""
    architecture = architecture_of(metadata, file)
    config = _section(metadata, architecture, file)
    _refuse_others(config, architecture)
    width, layers = config.integer("embedding_length"), config.integer("block_count", most=1000)
    heads = config.integer("attention.head_count", most=4096)
    kv_heads = config.integer("attention.head_count_kv", heads, most=4096)
    if heads % kv_heads:
        raise config.wrong("attention.head_count_kv", kv_heads, f"a divisor of head_count ({heads})")
    head_dim = _head_dim(config, width, heads)
    context = config.integer("context_length", most=1 << 31)
    return GgufShape(architecture, width, layers, heads, kv_heads, head_dim, context, _window(config))


def read_config(header: GgufHeader, file: Path) -> DecoderConfig:
    """The decoder that a file describes. Raises ModelError naming the file and the field."""
    shape = read_shape(header.metadata, file)
    config = _section(header.metadata, shape.architecture, file)
    return DecoderConfig(
        family=shape.architecture,
        hidden_size=shape.width,
        intermediate_size=config.integer("feed_forward_length"),
        layers=shape.layers,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        vocab_size=_matrix(header, "token_embd.weight", file).shape[0],
        context_length=shape.context_length,
        norm_eps=config.number("attention.layer_norm_rms_epsilon"),
        rope=_rope(config, header, shape.context_length, shape.head_dim),
        windows=(shape.window,) * shape.layers,
        tied_embeddings="output.weight" not in header.tensors,
        attention_bias="blk.0.attn_q.bias" in header.tensors,
        output_bias="blk.0.attn_output.bias" in header.tensors,
        mlp_bias="blk.0.ffn_down.bias" in header.tensors,
        qk_norm=shape.architecture == "qwen3",
        quantization=None,
    )


def architecture_of(metadata: Mapping[str, object], file: Path) -> str:
    """`general.architecture`. Raises ModelError for one that is not run."""
    architecture = metadata.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise ModelError(
            f"{file}: general.architecture is {architecture!r:.80}; supported are "
            f"{', '.join(ARCHITECTURES)} (Mistral's files say llama)"
        )
    return str(architecture)


def shape_entries(metadata: Mapping[str, object]) -> dict[str, object]:
    """The entries that a model's keys and values depend on: those of its architecture."""
    architecture = metadata.get("general.architecture")
    entries = {key: value for key, value in metadata.items() if key.startswith(f"{architecture}.")}
    return {"general.architecture": architecture, **entries}


def _section(metadata: Mapping[str, object], architecture: str, file: Path) -> ConfigReader:
    """The architecture's entries, by their names without it; a list of equal values for all layers is one."""
    prefix = f"{architecture}."
    entries = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    for name in ("attention.head_count", "attention.head_count_kv", "feed_forward_length"):
        listed = entries.get(name)
        if isinstance(listed, list) and listed:
            values = cast("list[object]", listed)
            entries[name] = values[0] if all(value == values[0] for value in values) else values
    return ConfigReader(entries, str(file), prefix)


def _refuse_others(config: ConfigReader, architecture: str) -> None:
    for name in _CHANGES_RESULTS:
        if config.raw.get(name):
            raise config.wrong(name, config.raw[name], f"absent: {architecture} models with it are not run")
    if config.raw.get("attention.causal") is False:
        raise config.wrong("attention.causal", False, "true: this is no model that writes text")


def _head_dim(config: ConfigReader, width: int, heads: int) -> int:
    if not config.has("attention.key_length") and width % heads:
        raise config.wrong("embedding_length", width, f"a multiple of attention.head_count ({heads})")
    head_dim = config.integer("attention.key_length", max(1, width // heads), most=4096)
    if head_dim % 2:
        raise config.wrong("attention.key_length", head_dim, "even")
    for name in ("attention.value_length", "rope.dimension_count"):
        if config.integer(name, head_dim) != head_dim:
            raise config.wrong(name, config.raw[name], f"{head_dim}, as the head's size is")
    return head_dim


def _window(config: ConfigReader) -> int | None:
    if not config.raw.get("attention.sliding_window"):
        return None  # some converters write 0 for none
    return config.integer("attention.sliding_window", most=1 << 31)


def _rope(config: ConfigReader, header: GgufHeader, context: int, head_dim: int) -> RopeConfig:
    theta = config.number("rope.freq_base", 10000.0)
    if theta <= 1:
        raise config.wrong("rope.freq_base", theta, "above 1")
    rope = _scaling(config, theta, context)
    factors = header.tensors.get(ROPE_FACTORS)
    return rope if factors is None else replace(rope, divisors=_divisors(factors, head_dim))


def _scaling(config: ConfigReader, theta: float, context: int) -> RopeConfig:
    factor_name = "rope.scaling.factor" if config.has("rope.scaling.factor") else "rope.scale_linear"
    kind = config.raw.get("rope.scaling.type") or ("linear" if config.raw.get(factor_name) else "none")
    if kind not in ("none", "linear", "yarn"):
        raise config.wrong("rope.scaling.type", kind, "none, linear or yarn; others are not supported")
    if kind == "none":
        return RopeConfig(theta)
    factor = config.number(factor_name)
    if kind == "linear":
        return RopeConfig(theta, "linear", factor)
    if config.number("rope.scaling.yarn_ext_factor", 1.0) != 1.0:
        value = config.raw["rope.scaling.yarn_ext_factor"]
        raise config.wrong("rope.scaling.yarn_ext_factor", value, "1; others are not supported")
    # llama.cpp multiplies yarn's own magnitude by attn_factor, and has no use for yarn_attn_factor, which
    # its converter writes beside it.
    magnitude = 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
    return RopeConfig(
        theta,
        "yarn",
        factor,
        config.integer("rope.scaling.original_context_length", context, most=1 << 31),
        beta_fast=config.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=config.number("rope.scaling.yarn_beta_slow", 1.0),
        attention_factor=magnitude * config.number("rope.scaling.attn_factor", 1.0),
    )


def _divisors(factors: GgufTensor, head_dim: int) -> tuple[float, ...]:
    if factors.shape != (head_dim // 2,) or factors.type_name != "F32":
        raise ModelError(
            f"{factors.file}: {factors.name} has shape {factors.shape} in {factors.type_name}; "
            f"it must have {head_dim // 2} values in F32"
        )
    values = read_rows([Stretch.whole(factors, 1)]).view(mx.float32).flatten()
    divisors = tuple(cast("list[float]", values.tolist()))
    if not all(0 < divisor < math.inf for divisor in divisors):
        raise ModelError(f"{factors.file}: {factors.name} must hold numbers above 0")
    return divisors


def _matrix(header: GgufHeader, name: str, file: Path) -> GgufTensor:
    tensor = header.tensors.get(name)
    if tensor is None or len(tensor.shape) != 2:
        raise ModelError(f"{file}: tensor {name} is missing or no matrix")
    return tensor
