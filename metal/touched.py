"""The words in which a launcher declares what a launch of its kernel touches: pages of one layer's pools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal.errors import KernelError
from metal.executors import TemplateValue


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch that has run.

    Attributes:
        arrays: its inputs by name, evaluated.
        template: the values that its text names.
        page_size: tokens a page.
    """

    arrays: Mapping[str, mx.array]
    template: Mapping[str, TemplateValue]
    page_size: int

    def integers(self, name: str) -> NDArray[np.int32]:
        """The input called `name`. Raises KernelError when it is no int32."""
        array = self.arrays[name]
        if array.dtype != mx.int32:
            raise KernelError(f"input '{name}' is {array.dtype}, not int32")
        return cast("NDArray[np.int32]", np.array(array))

    def number(self, name: str) -> int:
        """The template's integer called `name`."""
        return int(self.template[name])  # pyright: ignore[reportArgumentType]

    def pages(self, table: NDArray[np.int32], begin: int, end: int) -> frozenset[int]:
        """The pages of tokens [begin, end) of the sequence whose pages are `table`."""
        first, last = begin // self.page_size, -(-end // self.page_size)
        return frozenset(int(page) for page in table[first:last]) if begin < end else frozenset()


@dataclass(frozen=True, slots=True)
class Touched:
    """Pages that a launch reads, and those that it writes; of keys and values alike."""

    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()

    def __or__(self, other: Touched) -> Touched:
        return Touched(self.reads | other.reads, self.writes | other.writes)


Declaration = Callable[[Launched], Touched]
