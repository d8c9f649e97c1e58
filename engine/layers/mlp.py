"""The gated feed-forward layer."""

from __future__ import annotations

import mlx.core as mx

from engine.layers.linear import load_linear
from engine.loading.config import DecoderConfig
from engine.loading.weights import Weights


class SwiGLU:
    """down(silu(gate(x)) · up(x)) (Shazeer 2020, arXiv:2002.05202), x and the result (tokens, width)."""

    def __init__(self, config: DecoderConfig, weights: Weights) -> None:
        width, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self._gate = load_linear(weights.at("gate_proj"), width, inner, bias=bias)
        self._up = load_linear(weights.at("up_proj"), width, inner, bias=bias)
        self._down = load_linear(weights.at("down_proj"), inner, width, bias=bias)

    def __call__(self, x: mx.array) -> mx.array:
        gate = self._gate(x)
        return self._down(gate * mx.sigmoid(gate) * self._up(x))
