"""What a conversion is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from engine.errors import ConversionError
from engine.loading.quantization import GROUPS, QuantizationSpec

ConvertDtype = Literal["float16", "bfloat16", "float32"]
CONVERT_DTYPES: tuple[ConvertDtype, ...] = ("float16", "bfloat16", "float32")
NO_QUANT = "none"
_QUANTS: Mapping[str, QuantizationSpec] = MappingProxyType(
    {
        **{f"q{bits}": QuantizationSpec(64, bits) for bits in (2, 3, 4, 5, 6, 8)},
        "mxfp4": QuantizationSpec(32, 4, "mxfp4"),
        "mxfp8": QuantizationSpec(32, 8, "mxfp8"),
        "nvfp4": QuantizationSpec(16, 4, "nvfp4"),
    }
)
"""By name, with the group that MLX takes when none is asked for."""
CONVERT_QUANTS = (NO_QUANT, *_QUANTS)


@dataclass(frozen=True, slots=True)
class ConvertSettings:
    """How weights are stored.

    Attributes:
        quant: one of CONVERT_QUANTS.
        group_size: weights that share a scale, None for the usual number.
        dtype: of what is not packed, and of scales; None for config.json's torch_dtype, else as stored.
    """

    quant: str = "q4"
    group_size: int | None = None
    dtype: ConvertDtype | None = None

    def __post_init__(self) -> None:
        """Raises ConversionError for a quantisation or group that MLX does not have."""
        if self.quant not in CONVERT_QUANTS:
            raise ConversionError(f"quant is {self.quant!r}; it must be one of {', '.join(CONVERT_QUANTS)}")
        mode = _QUANTS[self.quant].mode if self.quant in _QUANTS else ""
        if self.group_size is not None and self.group_size not in GROUPS.get(mode, ()):
            can = ", ".join(map(str, GROUPS.get(mode, ()))) or "none: nothing is packed"
            raise ConversionError(f"group size {self.group_size} is not for {self.quant}, which takes {can}")

    @property
    def spec(self) -> QuantizationSpec | None:
        """How matrices are packed; None when they are not."""
        usual = _QUANTS.get(self.quant)
        if usual is None or self.group_size is None:
            return usual
        return QuantizationSpec(self.group_size, usual.bits, usual.mode)
