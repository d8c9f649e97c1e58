"""MLX quantisation settings as `config.json` states them, with per-layer overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from engine.errors import ModelError

_BITS = {"affine": (2, 3, 4, 5, 6, 8), "mxfp4": (4,), "mxfp8": (8,), "nvfp4": (4,)}
_GROUPS = {"affine": (32, 64, 128), "mxfp4": (32,), "mxfp8": (32,), "nvfp4": (16,)}


@dataclass(frozen=True, slots=True)
class QuantizationSpec:
    """How one matrix is packed: `bits` a weight in groups of `group_size`, by MLX's `mode`."""

    group_size: int
    bits: int
    mode: str = "affine"


@dataclass(frozen=True, slots=True)
class QuantizationConfig:
    """The model-wide setting and those that differ, by full name ("model.layers.0.mlp.down_proj")."""

    default: QuantizationSpec
    overrides: Mapping[str, QuantizationSpec]

    def at(self, layer: str) -> QuantizationSpec:
        """The setting of the matrix called `layer`."""
        return self.overrides.get(layer, self.default)


def read_quantization(raw: Mapping[str, object]) -> QuantizationConfig | None:
    """The `quantization` of a config, or None when it has none.

    Raises ModelError for a setting MLX cannot run, and for Hugging Face quantisers that are not MLX's.
    """
    entry = raw.get("quantization")
    if entry is None:
        foreign = raw.get("quantization_config")
        if isinstance(foreign, Mapping):
            method = cast(Mapping[str, object], foreign).get("quant_method", "an unknown method")
            raise ModelError(
                f"config.json: the weights are quantised with {method}, which is not supported; "
                "use an MLX-quantised or an unquantised version of this model"
            )
        return None
    if not isinstance(entry, Mapping):
        raise ModelError(f"config.json: quantization is {entry!r}; it must be an object")
    settings = cast(Mapping[str, object], entry)
    default = _spec(settings, "quantization")
    overrides = {
        name: _spec(cast(Mapping[str, object], value), f"quantization.{name}")
        for name, value in settings.items()
        if isinstance(value, Mapping)
    }
    return QuantizationConfig(default, overrides)


def _spec(entry: Mapping[str, object], where: str) -> QuantizationSpec:
    group, bits, mode = entry.get("group_size"), entry.get("bits"), entry.get("mode", "affine")
    if mode not in _BITS:
        raise ModelError(f"config.json: {where}.mode is {mode!r}; it must be one of {', '.join(_BITS)}")
    name = str(mode)
    if bits not in _BITS[name]:
        raise ModelError(f"config.json: {where}.bits is {bits!r}; {name} runs with {_BITS[name]}")
    if group not in _GROUPS[name]:
        raise ModelError(f"config.json: {where}.group_size is {group!r}; {name} runs with {_GROUPS[name]}")
    return QuantizationSpec(cast(int, group), cast(int, bits), name)
