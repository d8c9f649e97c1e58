"""Grouped-query attention over KV pages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

import mlx.core as mx

from engine.layers.linear import Linear, load_joined, load_linear
from engine.layers.norm import RMSNorm
from engine.layers.ops import BlockOps, Rows
from engine.layers.rope import Rope
from engine.loading.config import DecoderConfig
from engine.loading.weights import Weights
from metal.attention_shape import AttentionShape, HeadNorms


@dataclass(frozen=True, slots=True, eq=False)
class AttentionLayer:
    """What lies between the projections of layer `index`: softmax(q kᵀ · scale) v on rotated heads.

    Attributes:
        norms: of query and key heads, if they have any.
    """

    index: int
    shape: AttentionShape
    rope: Rope
    norms: HeadNorms | None


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """What makes a layer's projections of hidden states: linear(norm(x))."""

    norm: RMSNorm
    linear: Linear


Attend = Callable[[AttentionLayer, Rows], Rows]
"""Writes a step's keys and values to pages and attends.

From projections (tokens, (heads + 2 kv_heads) · head_dim), queries then keys then values, to
(tokens, heads · head_dim). Keys and values live in pages only.
"""


class ProjectingAttend(ABC, Generic[Rows]):
    """An Attend that makes the projections itself, as they may go to pages while they are made."""

    @abstractmethod
    def __call__(self, layer: AttentionLayer, x: Rows, projection: Projection) -> Rows:
        """From hidden states (tokens, width) to (tokens, heads · head_dim)."""


Write = Callable[[AttentionLayer, Rows], object]
"""Writes a step's keys and values to pages, from the same projections."""


def attention_shape(
    config: DecoderConfig, window: int | None, page_size: int, dtype: mx.Dtype
) -> AttentionShape:
    """What the layers of a model with that window compute."""
    return AttentionShape(
        heads=config.heads,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        rotary_dims=config.head_dim,
        page_size=page_size,
        dtype=dtype,
        scale=config.head_dim**-0.5,
        window=window,
        norm_epsilon=config.norm_eps if config.qk_norm else None,
    )


class Attention:
    """x + output(attend(project(norm(x))))."""

    def __init__(
        self, config: DecoderConfig, norm: RMSNorm, weights: Weights, layer: int, page_size: int, rope: Rope
    ) -> None:
        width, head_dim = config.hidden_size, config.head_dim
        q_width, kv_width = config.heads * head_dim, config.kv_heads * head_dim
        outputs = {"q_proj": q_width, "k_proj": kv_width, "v_proj": kv_width}
        self.projection = Projection(norm, load_joined(weights, width, outputs, bias=config.attention_bias))
        self._output = load_linear(weights.at("o_proj"), q_width, width, bias=config.output_bias)
        norms = None
        if config.qk_norm:
            norms = HeadNorms(
                weights.at("q_norm").array("weight", (head_dim,)),
                weights.at("k_norm").array("weight", (head_dim,)),
            )
        shape = attention_shape(config, config.windows[layer], page_size, weights.dtype)
        self.layer = AttentionLayer(layer, shape, rope, norms)

    def __call__(self, x: Rows, ops: BlockOps[Rows], attend: Attend[Rows] | ProjectingAttend[Rows]) -> Rows:
        """x and the result: (tokens, width)."""
        if isinstance(attend, ProjectingAttend):
            attended = attend(self.layer, x, self.projection)
        else:
            attended = attend(self.layer, self._projected(x, ops))
        return ops.add(x, attended, self._output)

    def last(self, x: Rows, ops: BlockOps[Rows], attend: Attend[Rows], rows: int) -> Rows:
        """The last `rows` of what x (tokens, width) comes to, of which `attend` yields no others."""
        return ops.add(x[-rows:], attend(self.layer, self._projected(x, ops)), self._output)

    def store(self, x: Rows, ops: BlockOps[Rows], write: Write[Rows]) -> None:
        """Only write the keys and values of x, (tokens, width)."""
        write(self.layer, self._projected(x, ops))

    def _projected(self, x: Rows, ops: BlockOps[Rows]) -> Rows:
        return ops.project(x, self.projection.norm, self.projection.linear)
