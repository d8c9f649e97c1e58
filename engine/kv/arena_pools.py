"""The arena's arrays as kernels take them, of all layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from metal.page_copy import PageCopy, together
from metal.pools import Pools

PoolArrays = tuple[list[mx.array], list[mx.array], list[mx.array], list[mx.array]]
"""Keys, values and fences of every layer, and the slots."""


@dataclass(slots=True)
class ArenaPools:
    """Of every layer keys, values and the last fence, as in Pools; and the slots of all.

    A fence is yielded by each kernel that touches a layer's pools and taken by the next: it is all that MLX
    knows of their order.

    Attributes:
        first: the layer whose they are, the first of them.
    """

    keys: list[mx.array]
    values: list[mx.array]
    fences: list[mx.array]
    slots: mx.array
    first: int = 0

    @classmethod
    def of(cls, arrays: PoolArrays, first: int = 0) -> ArenaPools:
        """Those of `arrays`, from layer `first` on; a fence that is handed on here is not put there."""
        keys, values, fences, (slots,) = arrays
        return cls(keys, values, list(fences), slots, first)

    @property
    def arrays(self) -> PoolArrays:
        """All of them, as what is traced takes them."""
        return self.keys, self.values, self.fences, [self.slots]

    def part(self, layers: range) -> PoolArrays:
        """The same of layers that follow each other."""
        own = slice(layers.start - self.first, layers.stop - self.first)
        return self.keys[own], self.values[own], self.fences[own], [self.slots]

    def layer(self, index: int) -> Pools:
        """Those of one layer as they are now."""
        own = index - self.first
        return Pools(self.keys[own], self.values[own], self.fences[own], self.slots)

    def hand_on(self, index: int, fence: mx.array) -> None:
        """A launch on a layer's pools has yielded this: the next one takes it."""
        self.fences[index - self.first] = fence

    def copy_page(self, copiers: Sequence[PageCopy], pair: mx.array) -> None:
        """Copy a page onto another in every layer: by the kernel of each, and a `pair` as that takes it."""
        for kernel, layers in together(copiers):
            fence = kernel([self.layer(layer) for layer in layers], pair)
            for layer in layers:
                self.hand_on(layer, fence)
