"""The gated feed-forward layer."""

from __future__ import annotations

from engine.layers.linear import load_joined, load_linear
from engine.layers.norm import RMSNorm
from engine.layers.ops import BlockOps, Rows
from engine.loading.config import DecoderConfig
from engine.loading.weights import Weights


class SwiGLU:
    """x + down(silu(gate(n)) · up(n)) for n = norm(x) (Shazeer 2020, arXiv:2002.05202), (tokens, width)."""

    def __init__(self, config: DecoderConfig, norm: RMSNorm, weights: Weights) -> None:
        width, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self._norm = norm
        self._gate_up = load_joined(weights, width, {"gate_proj": inner, "up_proj": inner}, bias=bias)
        self._down = load_linear(weights.at("down_proj"), inner, width, bias=bias)

    def __call__(self, x: Rows, ops: BlockOps[Rows]) -> Rows:
        return ops.add(x, ops.gated(x, self._norm, self._gate_up), self._down)
