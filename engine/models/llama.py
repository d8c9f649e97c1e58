"""Llama 2, 3.x, TinyLlama, SmolLM2: plain pre-norm decoders with optional biases and llama3 RoPE scaling."""

from __future__ import annotations

from engine.loading.config import ConfigReader, DecoderConfig
from engine.models.common import dense_decoder


def configure(config: ConfigReader) -> DecoderConfig:
    """`attention_bias` adds biases to q, k, v and o; `mlp_bias` to gate, up and down."""
    bias = config.flag("attention_bias", False)
    return dense_decoder(
        config,
        "llama",
        attention_bias=bias,
        output_bias=bias,
        mlp_bias=config.flag("mlp_bias", False),
    )
