"""The arena: per layer one array of keys and one of values, cut into fixed pages, read and written by slot.

Layout: (kv_heads, slots, head_dim), slot = page * page_size + offset. A head's consecutive slots are
contiguous, so that a sequence whose pages are neighbours is read as a strided view, without a copy.

Two sets of operations work on it, never both at once. The functional set is `write_layer`, `write_slots` and
`read_layer`: a write is an MLX op that yields a new pool, which reuses the old buffer because nothing else
holds it. On a GPU that is true only while each step is evaluated before the next one is built; a step in
flight would make MLX copy the whole pool. It alone takes quantised pages, whose codes, scales and biases are
pools of their own (engine/kv/coding.py). The in-place set (engine/kv/in_place.py) gets the arrays themselves,
as `pools`, with their fence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.cpu.host_view import host_view
from engine.kv.arena_pools import ArenaPools, PoolArrays
from engine.kv.coding import Plane, coding, head_bytes
from engine.kv.growth import GrowingPools
from engine.kv.page_data import Array, PageData
from engine.kv.page_table import PageCopy as PageCopied
from engine.kv.page_table import Span, page_spans
from engine.kv.pool_memory import PoolMemory
from engine.kv.pool_spans import bits, copy, gather, write
from metal.constants import device_integers
from metal.page_copy import PageCopy
from metal.pools import no_fence

KEYS, VALUES = "keys", "values"


class Arena:
    """Keys and values of all layers.

    It starts empty and grows, by at least doubling, to the pages that are really used: the budget is a limit,
    not a grab.

    Attributes:
        coding: how keys and values are stored.
        growing: where they are.
        grew: told of each growth: the bytes of all arrays then, and the seconds it took.
        unmet_bytes: of all arrays that `meet` would have to do with.
        met: told of each `meet` that had any, and of the seconds it took.
    """

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        page_size: int,
        dtype: mx.Dtype,
        bits: int | None = None,
    ) -> None:
        """`bits` of a stored element, None as computed. Raises EngineError for heads that do not quantise."""
        self.page_size, self._kv_heads, self._layers = page_size, kv_heads, layers
        self.coding = coding(head_dim, dtype, bits)
        self._planes = {name + plane.suffix: plane for name in (KEYS, VALUES) for plane in self.coding.planes}
        makers = {name: partial(empty_pool, kv_heads, plane) for name, plane in self._planes.items()}
        self.growing = GrowingPools(layers, page_size, makers)
        self._pools = self.growing.arrays
        self._copiers: Sequence[PageCopy] | None = None
        self._copied: Callable[[mx.array, PoolArrays], mx.array] = lambda _pair, arrays: arrays[-1][0]
        self._due: PageCopied | None = None
        self._shows_views = False
        self.grew: Callable[[int, float], None] = lambda _bytes, _seconds: None
        self.met: Callable[[int, float], None] = lambda _bytes, _seconds: None
        fence, slots = no_fence(dtype), device_integers(0)
        self._shown = ArenaPools(self._pools[KEYS], self._pools[VALUES], fence, slots)
        self.release()

    @property
    def pages(self) -> int:
        """Pages that the arrays hold now."""
        return self.growing.pages

    @property
    def is_quantised(self) -> bool:
        """Whether pages hold codes, scales and biases, not what was computed."""
        return len(self.coding.planes) > 1

    @property
    def page_bytes(self) -> int:
        """Bytes of one page: all layers, keys and values."""
        return self._layers * self.page_size * self.token_bytes

    @property
    def token_bytes(self) -> int:
        """Bytes of one token in one layer: keys and values."""
        return 2 * self._kv_heads * head_bytes(self.coding)

    @property
    def pools(self) -> ArenaPools:
        """The arrays themselves, for kernels; whoever launches one puts the next fence into its place."""
        if self.is_quantised:
            raise AssertionError("kernels take no quantised pages")
        self._copy_what_is_due()
        return self._shown

    def take_copy(self, target: int) -> tuple[ArenaPools, PageCopied | None]:
        """`pools`, and what is to be copied onto page `target`: whoever takes this does so in passing.

        What is to be copied onto another is copied first: pages of whoever takes it may lie there by now.
        """
        due = self._due if self._due is not None and self._due.target == target else None
        if due is not None:
            self._due = None
        return self.pools, due

    def work_in_place(self, copiers: Sequence[PageCopy] | None, *, by_views: bool = False) -> None:
        """From now on kernels touch the pools, and copy pages: one for each layer; None for MLX's operations.

        `by_views`: `pools` are views of one shape (see Pools), so that what is traced outlives a growth. What
        copies pages in all layers is.
        """
        self._copy_what_is_due()
        self._copiers, self._shows_views = copiers, by_views

        def copied(pair: mx.array, arrays: PoolArrays) -> mx.array:
            pools = ArenaPools.of(arrays)
            pools.copy_page(copiers or (), pair)
            return pools.fence

        self._copied = mx.compile(copied) if by_views else copied
        keys, values = ([], []) if by_views else (self._pools[KEYS], self._pools[VALUES])
        self._shown = ArenaPools(keys, values, self._shown.fence, self._shown.slots)
        self._show()

    def synchronize(self) -> None:
        """Wait for every launch that touches a pool: after this, anything may."""
        self._copy_what_is_due()
        mx.eval(self._shown.fence)

    def reserve(self, pages: int, limit: int) -> None:
        """Make room for `pages` pages and some more, at most `limit` in all; what is stored stays."""
        if pages <= self.pages:
            return
        self.synchronize()
        self._hide()
        began = time.perf_counter()
        self.growing.grow(pages, limit)
        self._show()
        self.unmet_bytes = self.pages * self.page_bytes
        self.grew(self.unmet_bytes, time.perf_counter() - began)

    def pages_for(self, pages: int, limit: int) -> int:
        """How many there are once `reserve` was asked for so many."""
        return self.growing.pages_for(pages, limit)

    def release(self) -> None:
        """Free all arrays; what was stored is gone. The next reserve builds them anew."""
        self._due, self.unmet_bytes = None, 0
        self._shown.fence = no_fence(self._shown.fence.dtype)
        self.growing.release()
        self._show()

    def write_layer(self, layer: int, keys: mx.array, values: mx.array, spans: Sequence[Span]) -> None:
        """Store (kv_heads, tokens, head_dim) keys and values in the slots of `spans`, in order."""
        for name, rows in ((KEYS, keys), (VALUES, values)):
            for pools, coded in zip(self._pools_of(name), self.coding.encode(rows), strict=True):
                write(pools[layer], coded, spans)

    def write_slots(self, layer: int, keys: mx.array, values: mx.array, slots: mx.array) -> None:
        """Store (tokens, kv_heads, head_dim) keys and values in as many slots, int32 (tokens,)."""
        for name, rows in ((KEYS, keys), (VALUES, values)):
            coded = self.coding.encode(rows.swapaxes(0, 1))
            for pools, part in zip(self._pools_of(name), coded, strict=True):
                pools[layer][:, slots] = part

    def read_layer(self, layer: int, spans: Sequence[Span]) -> tuple[mx.array, mx.array]:
        """Keys and values of `spans`, each (kv_heads, tokens, head_dim), in the dtype they were computed in.

        As computed they are a view of one span, and a copy of more.
        """
        keys, values = (
            self.coding.decode([gather(pools[layer], spans) for pools in self._pools_of(name)])
            for name in (KEYS, VALUES)
        )
        return keys, values

    def rows_of(self, slots: NDArray[np.int32]) -> mx.array:
        """Where the rows of `slots` (n, tokens) lie, for `read_rows`, until the arena grows."""
        heads = np.arange(self._kv_heads, dtype=np.int32) * (self.pages * self.page_size)
        return mx.array(slots[:, None] + heads[:, None])

    def read_rows(self, layer: int, rows: mx.array) -> tuple[mx.array, mx.array]:
        """Keys and values of `rows_of` slots, each a copy (n, kv_heads, tokens, head_dim), as computed."""
        keys, values = (
            self.coding.decode([pools[layer].flatten(0, 1)[rows] for pools in self._pools_of(name)])
            for name in (KEYS, VALUES)
        )
        return keys, values

    def on_host(self, layer: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Keys and values as they lie, (kv_heads, slots, head_dim), to be read and written; on a CPU only.

        Of pages that are not quantised. It waits for what is written there; nothing that touches the pools
        may be in flight, and these must be gone before the functional set writes, or it copies the pools.
        """
        pools = [self._pools[name][layer] for name in (KEYS, VALUES)]
        mx.eval(pools)
        return host_view(pools[0]), host_view(pools[1])

    def copy(self, copied: PageCopied) -> None:
        """Copy a page onto another, in every layer, before anything else touches the pools."""
        if self._copiers is None:
            self._copy(copied)
        else:
            self._copy_what_is_due()
            self._due = copied  # what comes next may do it in passing

    def gathered(self, pages: Sequence[int]) -> dict[str, list[mx.array]]:
        """What these pages hold: by name, such as "keys", of all layers."""
        self.synchronize()
        spans = page_spans(pages, self.page_size)
        return {name: [gather(pool, spans) for pool in pools] for name, pools in self._pools.items()}

    def read(self, pages: Sequence[int]) -> PageData:
        """What these pages hold, in host memory; waits for whoever writes them."""
        stacks = {name: mx.stack(parts) for name, parts in self.gathered(pages).items()}
        mx.eval(list(stacks.values()))
        arrays: dict[str, Array] = {name: np.array(bits(stack)) for name, stack in stacks.items()}
        return PageData(arrays, self.page_size)

    def meet(self) -> float:
        """Have the pools where `memory` can give them to the host, once since they grew; returns seconds.

        Apple's GPUs use the host's memory. MLX's CUDA build moves pools where both may touch them.
        """
        if not self.unmet_bytes:
            return 0.0
        began = time.perf_counter()
        self.memory(())
        nbytes, self.unmet_bytes, seconds = self.unmet_bytes, 0, time.perf_counter() - began
        self.met(nbytes, seconds)
        return seconds

    def memory(self, pages: Sequence[int]) -> PoolMemory:
        """Where these pages lie, to be filled with what `read` gives.

        It waits for all that touches the pools: no step may run while they are filled. It must be gone before
        the pools are used again, or the next write copies them. See `meet` before.
        """
        self.synchronize()
        views = {name: [host_view(bits(pool)) for pool in pools] for name, pools in self._pools.items()}
        return PoolMemory(views, pages, self.page_size)

    def state(self) -> list[mx.array]:
        """Every array, with what is due to be written there."""
        self._copy_what_is_due()
        return [*chain.from_iterable(self._pools.values()), self._shown.fence]

    def written(self) -> list[mx.array]:
        """Small arrays that are there as soon as what a functional step writes is, in its last layer too.

        The pools themselves do not do: the next step's writes take their place before these are evaluated.
        """
        return [pools[-1][:1, :1, :1] + 0 for pools in self._pools.values()]

    def _copy_what_is_due(self) -> None:
        due, self._due = self._due, None
        if due is not None:
            pair = mx.array([due.source, due.target], dtype=mx.int32)
            self._shown.fence = self._copied(pair, self._shown.arrays)

    def _show(self) -> None:
        """Let kernels see what there is now."""
        self._shown.slots = device_integers(self.pages * self.page_size)
        if self._shows_views:
            for views, name in ((self._shown.keys, KEYS), (self._shown.values, VALUES)):
                views[:] = [pool[0, : self.page_size] for pool in self._pools[name]]
                mx.async_eval(views)

    def _hide(self) -> None:
        """Drop the views: a functional write would copy a pool that has one."""
        if self._shows_views:
            self._shown.keys.clear()
            self._shown.values.clear()

    def _copy(self, copied: PageCopied) -> None:
        source, target = (page * self.page_size for page in (copied.source, copied.target))
        for pools in self._pools.values():
            copy(pools, source, target, self.page_size)

    def _pools_of(self, name: str) -> list[list[mx.array]]:
        """Of keys or of values: the pools of each plane."""
        return [self._pools[name + plane.suffix] for plane in self.coding.planes]


def empty_pool(kv_heads: int, plane: Plane, slots: int) -> mx.array:
    """One of a layer's arrays."""
    return mx.zeros((kv_heads, slots, plane.width), dtype=plane.dtype)
