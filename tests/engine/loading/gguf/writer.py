"""Models in GGUF, written by the `gguf` package from tensors with Hugging Face's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import sentencepiece
from gguf import GGMLQuantizationType as Type
from gguf.quants import quantize

from metal.block_types import BY_NAME, BlockType
from tests.fakes.random_model import CHAT_TEMPLATE, random_config, random_tensors, sentencepiece_model
from tests.metal.random_blocks import HALVES, oracle, random_blocks

WIDE: Mapping[str, object] = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
"""A shape whose rows are whole blocks of 256 weights."""

Types = Callable[[str], Type]
"""The type that a tensor of GGUF's name is stored in."""

_ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "mistral": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
}


def every_matrix(kind: Type) -> Types:
    """Matrices in `kind`, vectors in F32, as llama.cpp's converter stores them."""
    return lambda name: Type.F32 if "norm" in name or name.endswith(".bias") else kind


def all_q8_0(name: str) -> Type:
    """Matrices in Q8_0."""
    return every_matrix(Type.Q8_0)(name)


def q4_k_m(name: str) -> Type:
    """As in llama.cpp's Q4_K_M: Q6_K for the output and for some values and down projections."""
    if name in ("output.weight", "blk.0.attn_v.weight", "blk.0.ffn_down.weight"):
        return Type.Q6_K
    return every_matrix(Type.Q4_K)(name)


def write_gguf_model(
    file: Path,
    family: str = "llama",
    *,
    types: Types = all_q8_0,
    seed: int = 0,
    rope_factors: np.ndarray | None = None,
    metadata: Callable[[gguf.GGUFWriter], None] = lambda writer: None,
    parts: int = 1,
    **changes: object,
) -> dict[str, np.ndarray]:
    """Write a random model of `family`, its tokenizer included, and return the dequantised tensors.

    Args:
        file: to write; of several `parts` the stem that their names begin with.
        family: as `model_type` says it.
        types: each tensor's storage.
        seed: of the weights.
        rope_factors: the values of `rope_freqs.weight`, if it is to be there.
        metadata: adds entries of its own.
        parts: files to split into.
        **changes: to the configuration, in Hugging Face's words.

    Returns the float32 tensors that the file stands for, with Hugging Face's names and order.
    """
    config = random_config(family, **{"vocab_size": 320, **changes})
    return write_gguf(
        file,
        config,
        random_tensors(config, seed),
        types,
        rope_factors=rope_factors,
        metadata=metadata,
        parts=parts,
    )


def write_gguf(
    file: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    types: Types,
    *,
    rope_factors: np.ndarray | None = None,
    metadata: Callable[[gguf.GGUFWriter], None] = lambda writer: None,
    tokenizer: Callable[[gguf.GGUFWriter], None] | None = None,
    parts: int = 1,
) -> dict[str, np.ndarray]:
    """`write_gguf_model` for given tensors and configuration; `tokenizer` writes another one than theirs."""
    architecture = _ARCHITECTURES[str(config["model_type"])]
    writer = gguf.GGUFWriter(
        file,
        gguf.MODEL_ARCH_NAMES[architecture],
        split_max_tensors=-(-len(tensors) // parts) if parts > 1 else 0,
    )
    _write_shape(writer, config)
    (tokenizer or _write_tokenizer)(writer)
    metadata(writer)
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    meant: dict[str, np.ndarray] = {}
    rng = np.random.default_rng(7)
    for name, tensor in tensors.items():
        gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert gguf_name is not None, name
        kind = types(gguf_name)
        stored, dense = stored_as(_interleaved(gguf_name, tensor, config), kind, rng)
        meant[name] = _separated(gguf_name, dense, config)
        writer.add_tensor(gguf_name, stored, raw_dtype=kind)
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", rope_factors.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return meant


def stored_as(tensor: np.ndarray, kind: Type, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """What a file holds for a float32 `tensor` in `kind`, and the float32 values that stands for."""
    if kind is Type.F32:
        return tensor, tensor
    if kind is Type.F16:
        return tensor.astype(np.float16), tensor.astype(np.float16).astype(np.float32)
    try:
        raw = quantize(tensor, kind)
    except NotImplementedError:
        raw = _blocks_as_large_as(tensor, BY_NAME[kind.name], rng)
    return raw, gguf.dequantize(raw, kind).astype(np.float32)


def _blocks_as_large_as(tensor: np.ndarray, kind: BlockType, rng: np.random.Generator) -> np.ndarray:
    """Random blocks with weights as large as `tensor`'s: the package cannot quantise to `kind`."""
    raw = random_blocks(kind, *tensor.shape, rng)
    blocks = raw.reshape(-1, kind.block_bytes)
    factor = tensor.std() / oracle(raw, kind).std()
    for at in HALVES[kind]:
        scales = np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16)
        blocks[:, at : at + 2] = (scales * factor).astype(np.float16).view(np.uint8)
    return raw


def _interleaved(name: str, tensor: np.ndarray, config: Mapping[str, Any]) -> np.ndarray:
    """Query and key rows of the llama kind as llama.cpp's converter orders them (`LlamaModel.permute`)."""
    if config["model_type"] not in ("llama", "mistral") or (
        ".attn_q." not in name and ".attn_k." not in name
    ):
        return tensor
    head = _head_dim(config)
    pairs = tensor.reshape(len(tensor) // head, 2, head // 2, *tensor.shape[1:])
    return pairs.swapaxes(1, 2).reshape(tensor.shape)


def _separated(name: str, tensor: np.ndarray, config: Mapping[str, Any]) -> np.ndarray:
    """The inverse of `_interleaved`."""
    order = _interleaved(name, np.arange(len(tensor)), config)
    return tensor[np.argsort(order)]


def _head_dim(config: Mapping[str, Any]) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def _write_shape(writer: gguf.GGUFWriter, config: Mapping[str, Any]) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(_head_dim(config))
    writer.add_value_length(_head_dim(config))
    writer.add_rope_dimension_count(_head_dim(config))
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])


def _write_tokenizer(writer: gguf.GGUFWriter) -> None:
    """The random models' sentencepiece tokenizer, as llama.cpp's converter writes it."""
    pieces = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model())
    ids = range(len(pieces))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([pieces.id_to_piece(id_) for id_ in ids])
    writer.add_token_scores([pieces.get_score(id_) for id_ in ids])
    writer.add_token_types([_token_type(pieces, id_) for id_ in ids])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_chat_template(CHAT_TEMPLATE)


def _token_type(pieces: sentencepiece.SentencePieceProcessor, id_: int) -> gguf.TokenType:
    if pieces.is_unknown(id_):
        return gguf.TokenType.UNKNOWN
    if pieces.is_control(id_):
        return gguf.TokenType.CONTROL
    return gguf.TokenType.BYTE if pieces.is_byte(id_) else gguf.TokenType.NORMAL
