"""Mistral: Llama's shape with an explicit head size and, in 7B v0.1, a sliding window in every layer."""

from __future__ import annotations

from engine.loading.config import ConfigReader, DecoderConfig
from engine.models.common import dense_decoder, layer_windows


def configure(config: ConfigReader) -> DecoderConfig:
    """`sliding_window` null (v0.2 and later) means full attention."""
    window = config.integer("sliding_window", most=1 << 31) if config.has("sliding_window") else None
    return dense_decoder(config, "mistral", windows=layer_windows(config, window))
