"""Models of known shape in GGUF files, their matrices random blocks of one format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
import sentencepiece

from engine.bench.tokenizer import whole_vocabulary
from metal.block_types import BlockType
from metal.random_weight import random_blocks

if TYPE_CHECKING:
    from gguf import GGUFWriter

    from engine.bench.shapes import BenchShape

_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
"""Kinds of tokens (llama.h, `enum llama_token_type`)."""

_Tensor = tuple[str, int, int]
"""A tensor's name, its rows and the width of these; a vector has no rows."""


def write_block_shape(
    file: Path, shape: BenchShape, block_type: BlockType, context: int, tokenizer: Path, seed: int = 0
) -> None:
    """Write a model of `shape` to `file`, a tensor at a time.

    Args:
        file: to write.
        shape: the model's.
        block_type: of every matrix; see `metal.random_weight` for what its blocks hold.
        context: tokens that the model must hold; the shape's own context where that is longer.
        tokenizer: a folder whose `tokenizer.model` has at most `shape.vocab` pieces; others are added.
        seed: of the weights.

    Raises ValueError when rows of the shape are no whole number of blocks.
    """
    import gguf  # takes half a second, for a benchmark alone

    writer = gguf.GGUFWriter(file, shape.family)
    _add_shape(writer, shape, max(shape.context, context))
    _add_tokenizer(writer, whole_vocabulary(tokenizer, shape.vocab))
    kind = gguf.GGMLQuantizationType[block_type.name]
    for name, rows, width in _tensors(shape):
        if rows:
            row = block_type.bytes_per_row(width)
            writer.add_tensor_info(name, (rows, row), np.dtype(np.uint8), rows * row, kind)
        else:
            writer.add_tensor_info(name, (width,), np.dtype(np.float32), width * 4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    key = mx.random.key(seed)
    for name, rows, width in _tensors(shape):
        key, own = mx.random.split(key)
        values = random_blocks(block_type, rows, width, own) if rows else _vector(name, width, own)
        writer.write_tensor_data(np.array(values))
        mx.clear_cache()
    writer.close()


def _add_shape(writer: GGUFWriter, shape: BenchShape, context: int) -> None:
    writer.add_context_length(context)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_freq_base(shape.theta)
    writer.add_layer_norm_rms_eps(1e-5)


def _add_tokenizer(writer: GGUFWriter, model: bytes) -> None:
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = range(pieces.get_piece_size())
    writer.add_tokenizer_model("llama")
    writer.add_token_list([pieces.id_to_piece(token) for token in ids])
    writer.add_token_scores([pieces.get_score(token) for token in ids])
    writer.add_token_types([_kind(pieces, token) for token in ids])


def _vector(name: str, width: int, key: mx.array) -> mx.array:
    """A norm's weights near 1, or a small bias."""
    return mx.random.normal((width,), scale=0.1, key=key) + (0 if name.endswith(".bias") else 1)


def _kind(pieces: sentencepiece.SentencePieceProcessor, token: int) -> int:
    if pieces.is_unknown(token):
        return _UNKNOWN
    if pieces.is_control(token):
        return _CONTROL
    return _BYTE if pieces.is_byte(token) else _NORMAL


def _tensors(shape: BenchShape) -> Iterator[_Tensor]:
    hidden = shape.hidden
    yield "token_embd.weight", shape.vocab, hidden
    yield "output_norm.weight", 0, hidden
    if not shape.tied:
        yield "output.weight", shape.vocab, hidden
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    for layer in range(shape.layers):
        at = f"blk.{layer}"
        for name, outputs in (("q", queries), ("k", keys), ("v", keys)):
            yield f"{at}.attn_{name}.weight", outputs, hidden
            if shape.family == "qwen2":
                yield f"{at}.attn_{name}.bias", 0, outputs
        yield f"{at}.attn_output.weight", hidden, queries
        yield f"{at}.ffn_gate.weight", shape.inner, hidden
        yield f"{at}.ffn_up.weight", shape.inner, hidden
        yield f"{at}.ffn_down.weight", hidden, shape.inner
        yield f"{at}.attn_norm.weight", 0, hidden
        yield f"{at}.ffn_norm.weight", 0, hidden
