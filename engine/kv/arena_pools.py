"""The arena's arrays as kernels take them, of all layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from metal.page_copy import PageCopy, together
from metal.pools import SMALLEST, Pools

PoolArrays = tuple[list[mx.array], list[mx.array], list[mx.array]]
"""Keys and values of every layer; the fence, and the slots."""


@dataclass(slots=True)
class ArenaPools:
    """Of every layer keys and values, as in Pools; the fence and the slots of all.

    One fence serves all layers: each launch that touches pools takes what the last one made, and so comes
    after all before it. It is all that MLX knows of their order.

    Attributes:
        first: the layer whose they are, the first of them.
    """

    keys: list[mx.array]
    values: list[mx.array]
    fence: mx.array
    slots: mx.array
    first: int = 0

    @classmethod
    def of(cls, arrays: PoolArrays, first: int = 0) -> ArenaPools:
        """Those of `arrays`, from layer `first` on; a fence that is handed on here is not put there."""
        keys, values, (fence, slots) = arrays
        return cls(keys, values, fence, slots, first)

    @property
    def arrays(self) -> PoolArrays:
        """All of them, as what is traced takes them."""
        return self.keys, self.values, [self.short_fence, self.slots]

    @property
    def short_fence(self) -> mx.array:
        """The beginning of the fence, which may have any shape: (SMALLEST,).

        What is traced hands it on like this, as these operations take Python as long as a launch.
        """
        return self.fence if self.fence.shape == (SMALLEST,) else self.fence.reshape(-1)[:SMALLEST]

    def part(self, layers: range) -> PoolArrays:
        """Of layers that follow each other, with the fence as it is."""
        own = slice(layers.start - self.first, layers.stop - self.first)
        return self.keys[own], self.values[own], [self.fence, self.slots]

    def layer(self, index: int) -> Pools:
        """Those of one layer as they are now."""
        own = index - self.first
        return Pools(self.keys[own], self.values[own], self.fence, self.slots)

    def copy_page(self, copiers: Sequence[PageCopy], pair: mx.array) -> None:
        """Copy a page onto another in each of its layers, by the kernel of each, which takes `pair`."""
        for kernel, places in together(copiers):
            self.fence = kernel([self.layer(self.first + place) for place in places], pair)
