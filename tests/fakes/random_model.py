"""Small models with random weights, written to disk in Hugging Face form, tokenizer included."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import sentencepiece
from safetensors.numpy import save_file

VOCAB = 320
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)

BASE: Mapping[str, object] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": VOCAB,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float32",
}


def random_config(family: str = "llama", **changes: object) -> dict[str, object]:
    """A small config of `family`; `changes` replace or add fields, and a None removes one."""
    merged = {**BASE, "model_type": family, "architectures": [f"{family.title()}ForCausalLM"], **changes}
    return {name: value for name, value in merged.items() if value is not None}


def random_tensors(config: Mapping[str, object], seed: int = 0) -> dict[str, np.ndarray]:
    """Float32 tensors by Hugging Face's names, scaled so that logits differ clearly."""
    rng = np.random.default_rng(seed)
    width, inner = int(config["hidden_size"]), int(config["intermediate_size"])  # type: ignore[call-overload]
    heads = int(config["num_attention_heads"])  # type: ignore[call-overload]
    kv_heads = int(config.get("num_key_value_heads", heads))  # type: ignore[call-overload]
    head = int(config.get("head_dim") or width // heads)  # type: ignore[call-overload]
    vocab, family = int(config["vocab_size"]), config["model_type"]  # type: ignore[call-overload]
    bias = family == "qwen2" or bool(config.get("attention_bias"))

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (rng.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)

    def vector(size: int, around: float) -> np.ndarray:
        return (around + 0.2 * rng.standard_normal(size)).astype(np.float32)

    tensors = {"model.embed_tokens.weight": matrix(vocab, width) * 4, "model.norm.weight": vector(width, 1.0)}
    if not config.get("tie_word_embeddings"):
        tensors["lm_head.weight"] = matrix(vocab, width) * 3
    for layer in range(int(config["num_hidden_layers"])):  # type: ignore[call-overload]
        at = f"model.layers.{layer}."
        shapes = {"q": (heads * head, width), "k": (kv_heads * head, width), "v": (kv_heads * head, width)}
        for name, (rows, columns) in {**shapes, "o": (width, heads * head)}.items():
            tensors[f"{at}self_attn.{name}_proj.weight"] = matrix(rows, columns) * (2 if name in "qk" else 1)
            if bias and (name != "o" or family != "qwen2"):
                tensors[f"{at}self_attn.{name}_proj.bias"] = vector(rows, 0.0)
        if family == "qwen3":
            tensors[f"{at}self_attn.q_norm.weight"] = vector(head, 1.5)
            tensors[f"{at}self_attn.k_norm.weight"] = vector(head, 1.5)
        for name, (rows, columns) in {
            "gate": (inner, width),
            "up": (inner, width),
            "down": (width, inner),
        }.items():
            tensors[f"{at}mlp.{name}_proj.weight"] = matrix(rows, columns)
            if config.get("mlp_bias"):
                tensors[f"{at}mlp.{name}_proj.bias"] = vector(rows, 0.0)
        tensors[f"{at}input_layernorm.weight"] = vector(width, 1.0)
        tensors[f"{at}post_attention_layernorm.weight"] = vector(width, 1.0)
    return tensors


def write_random_model(
    folder: Path, family: str = "llama", *, seed: int = 0, shards: int = 1, **changes: object
) -> Path:
    """Write config, weights (in `shards` files, with an index if several) and tokenizer to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    config = random_config(family, **changes)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = random_tensors(config, seed)
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
    else:
        _write_shards(folder, tensors, shards)
    write_tokenizer(folder)
    return folder


def _write_shards(folder: Path, tensors: dict[str, np.ndarray], shards: int) -> None:
    names = sorted(tensors)
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: tensors[name] for name in names[shard::shards]}
        save_file(part, folder / file)
        weight_map.update(dict.fromkeys(part, file))
    index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def write_tokenizer(folder: Path) -> None:
    """A sentencepiece tokenizer of at most VOCAB pieces with byte fallback, and a chat template."""
    (folder / "tokenizer.model").write_bytes(sentencepiece_model())
    settings = {
        "add_bos_token": True,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "tokenizer_class": "LlamaTokenizer",
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@cache
def sentencepiece_model() -> bytes:
    """A trained model of 300 pieces, as `tokenizer.model` holds it."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a page holds sixteen tokens", "the cache of a chat lives in pages"] * 20),
        model_writer=model,
        vocab_size=300,
        model_type="bpe",
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()
