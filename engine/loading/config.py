"""`config.json`, read and checked: every number a model is built from, or one line of what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from engine.errors import ModelError
from engine.loading.quantization import QuantizationConfig
from engine.loading.small_files import read_object

LONGEST_CONTEXT = 1 << 31
"""Tokens that a model may name at most."""


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary embedding: base `theta` and a scaling `kind` of "default", "linear", "llama3" or "yarn".

    `divisors`: what each pair's scaled frequency is divided by besides; empty where there are none.
    """

    theta: float = 10000.0
    kind: str = "default"
    factor: float = 1.0
    original_context: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True
    divisors: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """A dense decoder's shape. `windows[l]` is layer l's sliding window in tokens, None where it has none."""

    family: str
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    norm_eps: float
    rope: RopeConfig
    windows: tuple[int | None, ...]
    tied_embeddings: bool
    attention_bias: bool
    output_bias: bool
    mlp_bias: bool
    qk_norm: bool
    quantization: QuantizationConfig | None

    @property
    def largest_window(self) -> int | None:
        """Tokens that some layer may still look back on; None when a layer sees everything."""
        widest = [window for window in self.windows if window is not None]
        return max(widest) if len(widest) == len(self.windows) else None


class ConfigReader:
    """A config's fields by name and type; a missing or absurd one raises ModelError naming it."""

    def __init__(self, raw: Mapping[str, object], where: str = "config.json", prefix: str = "") -> None:
        """`where` and `prefix` are said before a field's name, as in "model.gguf: llama.block_count"."""
        self.raw = raw
        self._where = where
        self._prefix = prefix

    def has(self, name: str) -> bool:
        """Whether `name` is there and not null."""
        return self.raw.get(name) is not None

    def integer(self, name: str, default: int | None = None, *, most: int = 1 << 24) -> int:
        """A whole number from 1 to `most`."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise self.wrong(name, value, f"a whole number from 1 to {most}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A number above 0 that single precision can hold, and its inverse too."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-30 < value < 1e30:
            raise self.wrong(name, value, "a number above 0, from 1e-30 to 1e30")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def section(self, name: str) -> ConfigReader | None:
        """A nested object, or None when it is missing or null."""
        value = self.raw.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(name, value, "an object")
        return ConfigReader(cast(Mapping[str, object], value), f"{self._where}: {self._prefix}{name}")

    def wrong(self, name: str, value: object, expected: str) -> ModelError:
        """The error for a field that is not as `expected`."""
        return ModelError(f"{self._where}: {self._prefix}{name} is {value!r:.80}; it must be {expected}")

    def _get(self, name: str, default: object) -> object:
        value = self.raw.get(name)
        if value is None:
            value = default
        if value is None:
            raise ModelError(f"{self._where}: {self._prefix}{name} is missing")
        return value


def read_json(path: Path) -> dict[str, object]:
    """A JSON object from a file. Raises ModelError when it is missing, unreadable or something else."""
    try:
        return read_object(path)
    except FileNotFoundError:
        raise ModelError(f"{path.name} is missing in {path.parent}; is this a model folder?") from None


def read_rope(config: ConfigReader, context_length: int, default_theta: float = 10000.0) -> RopeConfig:
    """The rotary settings, from `rope_parameters` (transformers 5) or `rope_scaling` and `rope_theta`.

    Raises ModelError for a scaling this engine does not have: ignoring it would give wrong text.
    """
    scaling = config.section("rope_parameters") or config.section("rope_scaling") or ConfigReader({})
    theta = scaling.number("rope_theta", config.number("rope_theta", default_theta))
    if theta <= 1:
        raise scaling.wrong("rope_theta", theta, "above 1")
    kind = scaling.raw.get("rope_type") or scaling.raw.get("type") or "default"
    if kind not in ("default", "linear", "llama3", "yarn"):
        raise ModelError(
            f"config.json: rope_scaling: type {kind!r:.80} is not supported; "
            "default, linear, llama3 and yarn are"
        )
    if kind == "default":
        return RopeConfig(theta)
    factor = scaling.number("factor")
    if kind == "linear":
        return RopeConfig(theta, "linear", factor)
    original = scaling.integer(
        "original_max_position_embeddings",
        config.integer("original_max_position_embeddings", context_length, most=LONGEST_CONTEXT),
        most=LONGEST_CONTEXT,
    )
    if kind == "llama3":
        low, high = scaling.number("low_freq_factor"), scaling.number("high_freq_factor")
        if high <= low:
            raise scaling.wrong("high_freq_factor", high, f"above low_freq_factor ({low})")
        return RopeConfig(theta, "llama3", factor, original, low_freq_factor=low, high_freq_factor=high)
    return RopeConfig(
        theta,
        "yarn",
        factor,
        original,
        beta_fast=scaling.number("beta_fast", 32.0),
        beta_slow=scaling.number("beta_slow", 1.0),
        attention_factor=_optional(scaling, "attention_factor"),
        mscale=_optional(scaling, "mscale"),
        mscale_all_dim=_optional(scaling, "mscale_all_dim"),
        truncate=scaling.flag("truncate", True),
    )


def _optional(config: ConfigReader, name: str) -> float | None:
    return config.number(name) if config.has(name) else None
