"""Qwen2 and Qwen2.5: biases on q, k and v; a sliding window in the upper layers where it is turned on."""

from __future__ import annotations

from engine.loading.config import ConfigReader, DecoderConfig
from engine.models.common import dense_decoder, layer_windows


def qwen_windows(config: ConfigReader) -> tuple[int | None, ...]:
    """`sliding_window` counts only with `use_sliding_window`, from layer `max_window_layers` on."""
    if not config.flag("use_sliding_window", False) or not config.has("sliding_window"):
        return layer_windows(config, None)
    layers = config.integer("num_hidden_layers", most=1000)
    first = config.integer("max_window_layers", layers) if config.raw.get("max_window_layers") != 0 else 0
    return layer_windows(config, config.integer("sliding_window", most=1 << 31), first)


def configure(config: ConfigReader) -> DecoderConfig:
    """Biases on q, k, v, none on o."""
    return dense_decoder(
        config,
        "qwen2",
        windows=qwen_windows(config),
        attention_bias=True,
        default_theta=1_000_000.0,
    )
