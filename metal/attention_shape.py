"""What attention is computed in a layer: sizes and options that every attention kernel is compiled for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mlx.core as mx

from metal.errors import KernelError
from metal.source import Feature

DTYPES = (mx.float32, mx.float16, mx.bfloat16)
HEAD_DIMS = (64, 80, 96, 128, 256)
PAGE_SIZES = (16, 32)


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Grouped-query attention over pages.

    Attributes:
        heads, kv_heads: query heads, and key/value heads that share them in equal groups.
        head_dim: elements of a head; the first `rotary_dims` are rotated, in pairs (i, i + rotary_dims/2).
        page_size: tokens a page.
        dtype: of the projections and the pools.
        scale: factor on q·k.
        window: keys that a token sees, itself among them; None for all.
        softcap: scores become softcap · tanh(score / softcap); None for none.
        sinks: each head has one more logit in its softmax's denominator (gpt-oss).
        norm_epsilon: of the RMS norm on every query and key head; None for none.
    """

    heads: int
    kv_heads: int
    head_dim: int
    rotary_dims: int
    page_size: int
    dtype: mx.Dtype
    scale: float
    window: int | None = None
    softcap: float | None = None
    sinks: bool = False
    norm_epsilon: float | None = None

    @property
    def group(self) -> int:
        """Query heads of one key/value head."""
        return self.heads // self.kv_heads

    @property
    def qkv_width(self) -> int:
        """Elements of a row of projections: queries, keys, values."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def logit_features(self) -> dict[str, Feature]:
        """What turns q·k into a logit to base 2, as kernels have it built in; a cap takes natural logits."""
        if self.softcap is None:
            return {"SCALE": self.scale * math.log2(math.e)}
        cap = self.softcap * math.log2(math.e)
        return {"SCALE": self.scale, "SOFTCAP": cap, "PER_SOFTCAP": 1 / self.softcap}

    def check(self) -> None:
        """Raises KernelError, naming what it is, for a shape that the kernels are not written for."""
        if self.dtype not in DTYPES:
            raise KernelError(f"attention in {self.dtype}; kernels take floats of 16 or 32 bits")
        if self.head_dim not in HEAD_DIMS:
            raise KernelError(
                f"a head size of {self.head_dim}; kernels take {', '.join(map(str, HEAD_DIMS))}"
            )
        if self.kv_heads < 1 or self.heads % self.kv_heads or self.group not in (*range(1, 9), 16):
            raise KernelError(
                f"{self.heads} heads on {self.kv_heads} key/value heads; kernels take groups of 1 to 8 and 16"
            )
        if self.rotary_dims % 16 or not 0 <= self.rotary_dims <= self.head_dim:
            raise KernelError(f"{self.rotary_dims} rotated elements a head; kernels take multiples of 16")
        if self.page_size not in PAGE_SIZES:
            raise KernelError(f"pages of {self.page_size} tokens; kernels take 16 and 32")


@dataclass(frozen=True, slots=True)
class HeadNorms:
    """Weights (head_dim,) of the RMS norms on query and key heads."""

    query: mx.array
    key: mx.array
