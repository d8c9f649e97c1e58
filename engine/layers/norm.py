"""RMS normalisation."""

from __future__ import annotations

import mlx.core as mx

from engine.loading.weights import Weights


class RMSNorm:
    """y = w · x / sqrt(mean(x²) + eps) over the last axis (Zhang & Sennrich 2019, arXiv:1910.07467)."""

    def __init__(self, weights: Weights, width: int, eps: float) -> None:
        self.weight = weights.array("weight", (width,))
        self.eps = eps

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, self.weight, self.eps)
