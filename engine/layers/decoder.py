"""The stack that all dense decoder families share: embedding, blocks, final norm, output projection."""

from __future__ import annotations

import mlx.core as mx

from engine.kv.step import KVStep
from engine.layers.attention import Attention
from engine.layers.linear import load_embedding, load_linear
from engine.layers.mlp import SwiGLU
from engine.layers.norm import RMSNorm
from engine.layers.rope import Rope
from engine.loading.config import DecoderConfig
from engine.loading.weights import Weights


class DecoderBlock:
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, config: DecoderConfig, weights: Weights, layer: int, rope: Rope) -> None:
        self._input_norm = RMSNorm(weights.at("input_layernorm"), config.hidden_size, config.norm_eps)
        self._attention = Attention(config, weights.at("self_attn"), layer, rope)
        self._mlp_norm = RMSNorm(weights.at("post_attention_layernorm"), config.hidden_size, config.norm_eps)
        self._mlp = SwiGLU(config, weights.at("mlp"))

    def __call__(self, x: mx.array, step: KVStep) -> mx.array:
        x = x + self._attention(self._input_norm(x), step)
        return x + self._mlp(self._mlp_norm(x))


class Decoder:
    """A dense pre-norm decoder with rotary positions, in Hugging Face's tensor names."""

    def __init__(self, config: DecoderConfig, weights: Weights) -> None:
        """Takes every tensor it needs from `weights`. Raises ModelError for a missing or misshapen one."""
        rope = Rope(config.rope, config.head_dim)
        model = weights.at("model")
        self._embedding = load_embedding(model.at("embed_tokens"), config.vocab_size, config.hidden_size)
        self._blocks = [
            DecoderBlock(config, model.at(f"layers.{layer}"), layer, rope) for layer in range(config.layers)
        ]
        self._norm = RMSNorm(model.at("norm"), config.hidden_size, config.norm_eps)
        self._output = self._embedding.as_linear
        if not config.tied_embeddings:
            self._output = load_linear(weights.at("lm_head"), config.hidden_size, config.vocab_size)

    def hidden(self, tokens: mx.array, step: KVStep) -> mx.array:
        """Last hidden states (tokens, width) of int32 ids (tokens,); writes their keys and values."""
        x = self._embedding(tokens)
        for block in self._blocks:
            x = block(x, step)
        return x

    def logits(self, hidden: mx.array) -> mx.array:
        """Float32 logits (tokens, vocab) of last hidden states (tokens, width)."""
        return self._output(self._norm(hidden)).astype(mx.float32)
