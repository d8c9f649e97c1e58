"""RMS normalisation."""

from __future__ import annotations

import mlx.core as mx

from engine.loading.weights import Weights
from engine.machine import device_kind


class RMSNorm:
    """y = w · x / sqrt(mean(x²) + eps) over the last axis (Zhang & Sennrich 2019, arXiv:1910.07467)."""

    def __init__(self, weight: mx.array, eps: float) -> None:
        """`weight`: (width,)."""
        self.weight = weight
        self.eps = eps
        self._is_cpu = device_kind() == "CPU"
        self._row, self._eps = weight[None], mx.array([[eps]])

    def __call__(self, x: mx.array) -> mx.array:
        if self._is_cpu and x.dtype == mx.float32 and x.ndim == 2 and len(x) == 1:
            return self._single(x)
        return mx.fast.rms_norm(x, self.weight, self.eps)

    def _single(self, x: mx.array) -> mx.array:
        """Of one row, (1, width), in six operations: MLX's CPU build makes ten of it."""
        squares = mx.addmm(self._eps, x, x.T, alpha=1 / x.size)
        return x * mx.rsqrt(squares) * self._row


def load_norm(weights: Weights, width: int, eps: float) -> RMSNorm:
    """The norm whose weight lies at `weights`."""
    return RMSNorm(weights.array("weight", (width,)), eps)
