"""Grouped-query attention over KV pages."""

from __future__ import annotations

import mlx.core as mx

from engine.kv.step import KVStep
from engine.layers.linear import load_linear
from engine.layers.norm import RMSNorm
from engine.layers.rope import Rope
from engine.loading.config import DecoderConfig
from engine.loading.weights import Weights


class Attention:
    """softmax(q kᵀ / sqrt(head_dim)) v with rotary positions; keys and values live in pages only."""

    def __init__(self, config: DecoderConfig, weights: Weights, layer: int, rope: Rope) -> None:
        self._layer = layer
        self._window = config.windows[layer]
        self._heads, self._kv_heads, self._head_dim = config.heads, config.kv_heads, config.head_dim
        self._rope = rope
        width, q_width, kv_width = (
            config.hidden_size,
            self._heads * self._head_dim,
            self._kv_heads * self._head_dim,
        )
        bias = config.attention_bias
        self._q = load_linear(weights.at("q_proj"), width, q_width, bias=bias)
        self._k = load_linear(weights.at("k_proj"), width, kv_width, bias=bias)
        self._v = load_linear(weights.at("v_proj"), width, kv_width, bias=bias)
        self._o = load_linear(weights.at("o_proj"), q_width, width, bias=config.output_bias)
        self._q_norm = self._k_norm = None
        if config.qk_norm:
            self._q_norm = RMSNorm(weights.at("q_norm"), self._head_dim, config.norm_eps)
            self._k_norm = RMSNorm(weights.at("k_norm"), self._head_dim, config.norm_eps)

    def __call__(self, x: mx.array, step: KVStep) -> mx.array:
        """x (tokens, width), the tokens of `step`; returns (tokens, width)."""
        tokens = x.shape[0]
        q = self._q(x).reshape(1, tokens, self._heads, self._head_dim)
        k = self._k(x).reshape(1, tokens, self._kv_heads, self._head_dim)
        v = self._v(x).reshape(1, tokens, self._kv_heads, self._head_dim)
        if self._q_norm is not None and self._k_norm is not None:
            q, k = self._q_norm(q), self._k_norm(k)
        q = self._rope(q.swapaxes(1, 2), step.start)  # (1, heads, tokens, head_dim)
        k = self._rope(k.swapaxes(1, 2), step.start)  # (1, kv_heads, tokens, head_dim)
        out = step.attend(self._layer, q, k, v.swapaxes(1, 2), self._head_dim**-0.5, self._window)
        return self._o(out.swapaxes(1, 2).reshape(tokens, -1))
