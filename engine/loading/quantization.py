"""MLX quantisation settings as `config.json` states them, with per-layer overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from engine.errors import ModelError

_BITS = {"affine": (2, 3, 4, 5, 6, 8), "mxfp4": (4,), "mxfp8": (8,), "nvfp4": (4,)}
GROUPS = {"affine": (32, 64, 128), "mxfp4": (32,), "mxfp8": (32,), "nvfp4": (16,)}
_USUAL_BITS = {"affine": 4, "mxfp4": 4, "mxfp8": 8, "nvfp4": 4}
_USUAL_GROUP = {"affine": 64, "mxfp4": 32, "mxfp8": 32, "nvfp4": 16}
"""What a layer's own setting leaves out, as mlx.nn.quantize fills it in."""


@dataclass(frozen=True, slots=True)
class QuantizationSpec:
    """How one matrix is packed: `bits` a weight in groups of `group_size`, by MLX's `mode`."""

    group_size: int
    bits: int
    mode: str = "affine"

    def __str__(self) -> str:
        return f"{self.bits}-bit, groups of {self.group_size} ({self.mode})"


@dataclass(frozen=True, slots=True)
class QuantizationConfig:
    """The model-wide setting and those that differ, by full name ("model.layers.0.mlp.down_proj").

    `overrides` holds None for a matrix that is not quantised.
    """

    default: QuantizationSpec
    overrides: Mapping[str, QuantizationSpec | None]

    def at(self, matrix: str) -> QuantizationSpec:
        """What is stated of a packed `matrix`; without a setting of its own it may be packed otherwise."""
        return self.overrides.get(matrix) or self.default

    def check(self, matrix: str, found: QuantizationSpec) -> None:
        """Raises ModelError when `matrix` has a setting of its own and is packed otherwise.

        The model-wide setting binds no matrix: models that were quantised in two goes hold others, and mlx-lm
        reads those by their shapes too.
        """
        stated = self.overrides.get(matrix, found)
        if stated is None:
            raise ModelError(
                f"config.json: quantization.{matrix} is false, but the weights hold {matrix}.scales"
            )
        if stated != found:
            raise ModelError(
                f"config.json: quantization.{matrix} is {stated}, but the weights are {found}; "
                "config.json and the weights do not match"
            )


def packed_spec(matrix: str, width: int, words: int, groups: int, *, small_float: bool) -> QuantizationSpec:
    """How a matrix of `width` columns is packed, told by the shapes of its tensors.

    Args:
        matrix: its full name, for the error.
        width: weights in a row.
        words: 32-bit words in a row of the packed weight.
        groups: scales in a row.
        small_float: whether scales are bytes, which they are in every mode but affine.

    Raises ModelError for shapes that no packing of MLX has.
    """
    bits, group_size = words * 32 // width, width // max(1, groups)
    for mode in _BITS:
        if (mode != "affine") == small_float and bits in _BITS[mode] and group_size in GROUPS[mode]:
            spec = QuantizationSpec(group_size, bits, mode)
            if (words * 32, groups * group_size) == (width * bits, width):
                return spec
    raise ModelError(
        f"tensor {matrix}.weight has {words} words and {groups} scales in a row; "
        f"config.json asks for {width} columns, which MLX packs in no such way"
    )


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
                f"config.json: the weights are quantised with {method!s:.80}, which is not supported; "
                "use an MLX-quantised or an unquantised version of this model"
            )
        return None
    if not isinstance(entry, Mapping):
        raise ModelError(f"config.json: quantization is {entry!r:.80}; it must be an object")
    settings = cast(Mapping[str, object], entry)
    default = _spec(settings, "quantization")
    overrides = {
        name: _override(cast(Mapping[str, object] | bool, value), name, default)
        for name, value in settings.items()
        if isinstance(value, Mapping | bool)
    }
    return QuantizationConfig(default, overrides)


def _override(
    entry: Mapping[str, object] | bool, name: str, default: QuantizationSpec
) -> QuantizationSpec | None:
    """A layer's own setting; what it leaves out is as usual for its mode."""
    if isinstance(entry, bool):
        return default if entry else None
    mode = str(entry.get("mode", "affine"))
    usual = {"bits": _USUAL_BITS.get(mode), "group_size": _USUAL_GROUP.get(mode)}
    return _spec({**usual, **entry}, f"quantization.{name:.80}")


def _spec(entry: Mapping[str, object], where: str) -> QuantizationSpec:
    group, bits, mode = entry.get("group_size"), entry.get("bits"), entry.get("mode", "affine")
    if not isinstance(mode, str) or mode not in _BITS:
        raise ModelError(f"config.json: {where}.mode is {mode!r:.80}; it must be one of {', '.join(_BITS)}")
    if not isinstance(bits, int) or bits not in _BITS[mode]:
        raise ModelError(f"config.json: {where}.bits is {bits!r:.80}; {mode} runs with {_BITS[mode]}")
    if not isinstance(group, int) or group not in GROUPS[mode]:
        raise ModelError(f"config.json: {where}.group_size is {group!r:.80}; {mode} runs with {GROUPS[mode]}")
    return QuantizationSpec(group, bits, mode)
