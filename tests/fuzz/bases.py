"""Sound models of every kind of file, as small as models get, to be damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import tokenizers
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter
from safetensors.numpy import load_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

from tests.engine.loading.gguf.writer import every_matrix, write_gguf, write_gguf_model
from tests.engine.tokenizer.gguf_metadata import byte_level_metadata
from tests.fakes.random_model import CHAT_TEMPLATE, random_config, random_tensors, write_random_model

SMALL: dict[str, object] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 128,
}


def plain(folder: Path) -> Path:
    """A Llama in one safetensors file, with a sentencepiece tokenizer."""
    return write_random_model(folder, **SMALL)


def sharded(folder: Path) -> Path:
    """A Qwen3 in two files with an index, with tokenizer.json and everything that can lie around one."""
    yarn = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}
    window = {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 0}
    write_random_model(folder, "qwen3", shards=2, head_dim=16, rope_scaling=yarn, **{**SMALL, **window})
    (folder / "tokenizer.model").unlink()
    _byte_level().save(str(folder / "tokenizer.json"))
    added = {"300": {"content": "<|im_end|>", "special": True, "lstrip": False, "rstrip": True}}
    _write(
        folder,
        "tokenizer_config.json",
        {
            "add_bos_token": True,
            "add_prefix_space": False,
            "legacy": False,
            "bos_token": {"content": "<s>", "special": True},
            "eos_token": "</s>",
            "additional_special_tokens": ["<|user|>", {"content": "<|tool|>"}],
            "added_tokens_decoder": added,
            "chat_template": [{"name": "default", "template": CHAT_TEMPLATE}, {"name": "b", "template": ""}],
        },
    )
    _write(folder, "special_tokens_map.json", {"bos_token": "<s>", "eos_token": {"content": "</s>"}})
    _write(folder, "generation_config.json", {"eos_token_id": [1, 300], "temperature": 0.5})
    return folder


def quantised(folder: Path) -> Path:
    """The first one with 4-bit matrices in groups of 32, as MLX packs them."""
    write_random_model(folder, **SMALL)
    tensors: dict[str, mx.array] = {}
    for name, array in load_file(folder / "model.safetensors").items():
        if array.ndim == 1:
            tensors[name] = mx.array(array)
            continue
        at = name.removesuffix("weight")
        packed = mx.quantize(mx.array(array), group_size=32, bits=4)
        tensors |= dict(zip((name, f"{at}scales", f"{at}biases"), packed, strict=True))
    mx.save_safetensors(str(folder / "model.safetensors"), tensors)
    config = json.loads((folder / "config.json").read_text())
    setting = {"group_size": 32, "bits": 4, "mode": "affine"}
    config["quantization"] = {**setting, "model.layers.0.mlp.up_proj": setting}
    _write(folder, "config.json", config)
    return folder


def gguf(folder: Path) -> Path:
    """A Llama in one GGUF file of Q8_0 blocks."""
    folder.mkdir(parents=True)
    write_gguf_model(folder / "model.gguf", types=every_matrix(Type.Q8_0), **SMALL)
    return folder


def gguf_parts(folder: Path) -> Path:
    """A Qwen2 in two GGUF files, of F16 and Q4_0."""
    folder.mkdir(parents=True)
    kinds = every_matrix(Type.Q4_0)
    stored = lambda name: Type.F16 if name == "output.weight" else kinds(name)  # noqa: E731
    write_gguf_model(folder / "model", "qwen2", types=stored, parts=2, **SMALL)
    return folder


def gguf_blocks(folder: Path) -> Path:
    """A Qwen3 in one GGUF file: a byte-level tokenizer, and matrices in many block formats."""
    folder.mkdir(parents=True)
    tokens = byte_level_metadata(_byte_level(), "qwen2", bos_token_id=0, eos_token_id=1)
    shape = {**SMALL, "hidden_size": 256, "intermediate_size": 256, "head_dim": 128}
    size = len(tokens["tokenizer.ggml.tokens"])
    config = random_config("qwen3", **{**shape, "vocab_size": size, "tie_word_embeddings": True})
    others = every_matrix(Type.Q6_K)
    write_gguf(
        folder / "model.gguf",
        config,
        random_tensors(config),
        lambda name: _FORMATS.get(name.removeprefix("blk.0.").removesuffix(".weight")) or others(name),
        tokenizer=lambda writer: _write_metadata(writer, tokens),
    )
    return folder


_FORMATS = {
    "attn_q": Type.Q4_K,
    "attn_k": Type.Q5_K,
    "attn_v": Type.Q3_K,
    "attn_output": Type.Q4_1,
    "ffn_gate": Type.MXFP4,
    "ffn_up": Type.IQ4_XS,
    "ffn_down": Type.Q2_K,
}


def _write_metadata(writer: GGUFWriter, metadata: dict[str, Any]) -> None:
    for name, value in metadata.items():
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif value is not None:
            writer.add_string(name, value)


def _byte_level() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=[AddedToken("<s>", special=True), AddedToken("</s>", special=True)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["a page holds sixteen tokens of a chat"] * 20, trainer)
    specials = ["<|im_end|>", "<|user|>", "<|tool|>"]
    missing = 300 - tokenizer.get_vocab_size()
    tokenizer.add_tokens([f"unused {number}" for number in range(missing)])
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in specials])
    return tokenizer


def _write(folder: Path, name: str, value: Any) -> None:
    (folder / name).write_text(json.dumps(value))


BASES = {
    "plain": plain,
    "sharded": sharded,
    "quantised": quantised,
    "gguf": gguf,
    "gguf parts": gguf_parts,
    "gguf blocks": gguf_blocks,
}
