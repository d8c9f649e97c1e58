"""Qwen3 (dense): RMSNorm on every query and key head, an explicit head size, no biases by default."""

from __future__ import annotations

from engine.loading.config import ConfigReader, DecoderConfig
from engine.models.common import dense_decoder
from engine.models.qwen2 import qwen_windows


def configure(config: ConfigReader) -> DecoderConfig:
    """`attention_bias` adds biases to q, k, v and o."""
    bias = config.flag("attention_bias", False)
    return dense_decoder(
        config,
        "qwen3",
        windows=qwen_windows(config),
        attention_bias=bias,
        output_bias=bias,
        qk_norm=True,
        default_theta=1_000_000.0,
    )
