"""The guide's network, a plain Llama over a dictionary of weights: forward pass, first weights, saving."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn

from resources.guide.recipe import CONTEXT_LENGTH, Shape

Weights = dict[str, mx.array]
EMBEDDING = "model.embed_tokens.weight"


def first_weights(shape: Shape, seed: int) -> Weights:
    """Weights to start from: normal, 0.02 wide, those that end a block narrower by its depth."""
    width, heads = shape.hidden_size, shape.head_dim * shape.num_attention_heads
    shared = shape.head_dim * shape.num_key_value_heads
    sizes = {EMBEDDING: (shape.vocab_size, width)}
    for layer in range(shape.num_hidden_layers):
        at = f"model.layers.{layer}"
        sizes |= {
            f"{at}.self_attn.q_proj.weight": (heads, width),
            f"{at}.self_attn.k_proj.weight": (shared, width),
            f"{at}.self_attn.v_proj.weight": (shared, width),
            f"{at}.self_attn.o_proj.weight": (width, heads),
            f"{at}.mlp.gate_proj.weight": (shape.intermediate_size, width),
            f"{at}.mlp.up_proj.weight": (shape.intermediate_size, width),
            f"{at}.mlp.down_proj.weight": (width, shape.intermediate_size),
        }
    keys = mx.random.split(mx.random.key(seed), len(sizes))
    narrow = (2 * shape.num_hidden_layers) ** -0.5
    weights: Weights = {}
    for key, (name, size) in zip(keys, sizes.items(), strict=True):
        scale = 0.02 * (narrow if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0)
        weights[name] = scale * mx.random.normal(size, key=key)
    for layer in range(shape.num_hidden_layers):
        weights[f"model.layers.{layer}.input_layernorm.weight"] = mx.ones(width)
        weights[f"model.layers.{layer}.post_attention_layernorm.weight"] = mx.ones(width)
    weights["model.norm.weight"] = mx.ones(width)
    return weights


def forward(w: Weights, shape: Shape, ids: mx.array, dropout: float = 0.0) -> mx.array:
    """Logits (rows, length, vocab) of `ids` (rows, length), in the weights' dtype."""
    drop = nn.Dropout(dropout)
    x = drop(w[EMBEDDING][ids])  # (rows, length, hidden)
    for layer in range(shape.num_hidden_layers):
        at = f"model.layers.{layer}"
        normed = mx.fast.rms_norm(x, w[f"{at}.input_layernorm.weight"], shape.rms_norm_eps)
        x = x + drop(_attention(w, f"{at}.self_attn", shape, normed))
        normed = mx.fast.rms_norm(x, w[f"{at}.post_attention_layernorm.weight"], shape.rms_norm_eps)
        gate = nn.silu(normed @ w[f"{at}.mlp.gate_proj.weight"].T)
        up = normed @ w[f"{at}.mlp.up_proj.weight"].T
        x = x + drop((gate * up) @ w[f"{at}.mlp.down_proj.weight"].T)
    return mx.fast.rms_norm(x, w["model.norm.weight"], shape.rms_norm_eps) @ w[EMBEDDING].T


def _attention(w: Weights, at: str, shape: Shape, x: mx.array) -> mx.array:
    rows, length, _ = x.shape

    def heads(name: str, count: int) -> mx.array:
        projected = x @ w[f"{at}.{name}.weight"].T
        return projected.reshape(rows, length, count, shape.head_dim).transpose(0, 2, 1, 3)

    def turned(values: mx.array) -> mx.array:
        return mx.fast.rope(
            values, shape.head_dim, traditional=False, base=shape.rope_theta, scale=1.0, offset=0
        )

    queries = turned(heads("q_proj", shape.num_attention_heads))
    keys = turned(heads("k_proj", shape.num_key_value_heads))
    values = heads("v_proj", shape.num_key_value_heads)
    mixed = mx.fast.scaled_dot_product_attention(
        queries, keys, values, scale=shape.head_dim**-0.5, mask="causal"
    )
    return mixed.transpose(0, 2, 1, 3).reshape(rows, length, -1) @ w[f"{at}.o_proj.weight"].T


def save_network(folder: Path, w: Weights, shape: Shape, bos: int, end: int) -> None:
    """Write config.json, generation_config.json and model.safetensors (fp16) in Hugging Face's layout."""
    tokens = {"bos_token_id": bos, "eos_token_id": end}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **asdict(shape),
        "max_position_embeddings": CONTEXT_LENGTH,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        **tokens,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    sampling = {**tokens, "do_sample": True, "temperature": 0.7, "top_p": 0.9}
    (folder / "generation_config.json").write_text(json.dumps(sampling, indent=2) + "\n", "utf-8")
    halves = {name: value.astype(mx.float16) for name, value in w.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), halves, metadata={"format": "pt"})
