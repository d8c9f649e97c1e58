"""The model families, one file each, and the registry that chooses by `model_type`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.errors import ModelError
from engine.loading.config import ConfigReader, DecoderConfig
from engine.models import llama, mistral, qwen2, qwen3

FAMILIES: Mapping[str, Callable[[ConfigReader], DecoderConfig]] = {
    "llama": llama.configure,
    "mistral": mistral.configure,
    "qwen2": qwen2.configure,
    "qwen3": qwen3.configure,
}
"""`model_type` in config.json → how that family's config becomes a decoder."""


def configure(raw: Mapping[str, object]) -> DecoderConfig:
    """The decoder that a `config.json` describes. Raises ModelError for an unknown family or wrong field."""
    family = raw.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        named = f"model_type is {family!r:.80}" if family else "model_type is missing"
        raise ModelError(f"config.json: {named}; supported are {', '.join(sorted(FAMILIES))}")
    return FAMILIES[family](ConfigReader(raw))
