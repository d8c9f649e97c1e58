"""An arena's arrays, which grow: larger ones, built before they take the place of those that are there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import nullcontext
from functools import partial
from weakref import WeakSet

import mlx.core as mx

from engine.cpu.host_view import host_view
from engine.kv.pool_spans import bits
from engine.machine.machine import device_kind
from engine.machine.processors import step_aside
from engine.worker import Worker

_BESIDE = mx.new_thread_local_stream(mx.cpu)
"""A thread of MLX's on a CPU, beside the one that computes."""

_NAME = "mlxr-arena"
"""Of the thread that builds on a CPU while the engine's computes."""

_NICER = 3
"""As who computes prompts: it may have their processor meanwhile."""

_builder = Worker(_NAME, partial(step_aside, _NAME, _NICER))

_begun = WeakSet[Future[list[mx.array]]]()
"""What such threads were asked for."""


class GrowingPools:
    """Arrays by name, such as "keys", one of each layer; none has a page at first.

    Attributes:
        arrays: (kv_heads, slots, width) each, of zeros where nothing was written.
        pages: that they hold.
    """

    def __init__(self, layers: int, page_size: int, makers: dict[str, Callable[[int], mx.array]]) -> None:
        """`makers`: by name, what makes one of so many slots, of zeros."""
        self._layers, self._page_size, self._makers = layers, page_size, makers
        self.arrays = {name: list[mx.array]() for name in makers}
        self.pages = 0
        self._ahead: _Growth | None = None
        self.release()

    def pages_for(self, pages: int, limit: int) -> int:
        """How many there are once `grow` was asked for so many: twice as many at least, `limit` at most."""
        if pages <= self.pages:
            return self.pages
        return min(limit, max(pages + pages // 16, 2 * self.pages, 1024 // self._page_size))

    def grow(self, pages: int, limit: int) -> None:
        """Hold so many pages or more, with all that was written.

        What was built ahead a device may still be copying when this returns.
        """
        growth, self._ahead = self._growth_to(pages, limit), None
        # Both sizes are there then, so that no layer has to be done before the next one begins.
        is_waited_for = not growth.is_built
        for layer in range(self._layers):
            news = growth.take([pools[layer] for pools in self.arrays.values()])
            if is_waited_for:
                mx.eval(news)
            else:
                mx.async_eval(news)
            for pools, new in zip(self.arrays.values(), news, strict=True):
                pools[layer] = new
        self.pages = growth.pages

    def build_ahead(self, pages: int, limit: int) -> bool:
        """Build an array of what `grow` would; returns whether there is no more to build before it.

        On a CPU a thread does, while answers go on: see `is_building`. There is nothing where the arrays of
        both sizes would have more than `limit` pages together.
        """
        if pages <= self.pages:
            return True
        self._ahead = growth = self._growth_to(pages, limit)
        return not self.keep_to(limit) or growth.build()

    def keep_to(self, limit: int) -> bool:
        """Free what was built ahead where the arrays of both sizes have more than `limit` pages together.

        Returns whether there is something, and it stays.
        """
        if self._ahead is not None and self.pages + self._ahead.pages > limit:
            self.drop_ahead()
        return self._ahead is not None

    @property
    def ahead_bytes(self) -> int:
        """Of what was built ahead, and is being built."""
        return 0 if self._ahead is None else self._ahead.nbytes

    @property
    def is_building(self) -> bool:
        """Whether an array is on its way, so that there is nothing to do for it meanwhile."""
        return self._ahead is not None and self._ahead.is_building

    def drop_ahead(self) -> None:
        """Free what was built ahead."""
        self._ahead = None

    def release(self) -> None:
        """Free all; what was written is gone."""
        self.pages, self._ahead = 0, None
        for name, make in self._makers.items():
            self.arrays[name][:] = [make(0) for _ in range(self._layers)]

    def _growth_to(self, pages: int, limit: int) -> _Growth:
        """What was built ahead, if that has as many, and the limit has not become less since."""
        if self._ahead is not None and pages <= self._ahead.pages <= limit:
            return self._ahead
        size = self.pages_for(pages, limit)
        makers = [partial(make, size * self._page_size) for make in self._makers.values()]
        return _Growth(size, self._layers, makers)


class _Growth:
    """Arrays of `pages`, built one at a time."""

    def __init__(self, pages: int, layers: int, makers: Sequence[Callable[[], mx.array]]) -> None:
        self.pages = pages
        self._makers, self._whole = makers, layers * len(makers)
        self._built = deque[mx.array]()
        self._coming: tuple[int, Future[list[mx.array]]] | None = None

    def build(self) -> bool:
        """One more, in the order of layers, begun at least; returns whether all are built."""
        if self.is_building:
            return False
        self._take_in()
        if len(self._built) < self._whole:
            make = self._makers[len(self._built) % len(self._makers)]
            if device_kind() == "CPU":
                self._coming = make().nbytes, _builder.submit(partial(_made, [make]))
                _begun.add(self._coming[1])
            else:
                self._built += _made([make])
        return self.is_built

    @property
    def is_built(self) -> bool:
        """Whether all are there."""
        return len(self._built) == self._whole

    @property
    def is_building(self) -> bool:
        """Whether one is on its way."""
        return self._coming is not None and not self._coming[1].done()

    def _take_in(self) -> None:
        """Wait for the one that is on its way. Raises what kept it from being built."""
        if self._coming is not None:
            (_, built), self._coming = self._coming, None
            self._built += built.result()

    @property
    def nbytes(self) -> int:
        """Of what is built, and on its way."""
        coming = 0 if self._coming is None else self._coming[0]
        return sum(array.nbytes for array in self._built) + coming

    def take(self, olds: Sequence[mx.array]) -> list[mx.array]:
        """Those of the next layer, with what `olds` hold."""
        self._take_in()
        pools = [self._built.popleft() for _ in self._makers if self._built]
        pools += _made(self._makers[len(pools) :])
        for old, pool in zip(olds, pools, strict=True):
            if device_kind() == "CPU":
                host_view(bits(pool))[:, : old.shape[1]] = host_view(bits(old))
            else:
                pool[:, : old.shape[1]] = old
        return pools


def settle() -> None:
    """Wait until nothing is built beside any more, in any arena: a process may be forked then."""
    wait(list(_begun))


def _made(makers: Sequence[Callable[[], mx.array]]) -> list[mx.array]:
    """On a CPU by two threads, waited for: memory that the system gives for the first time takes long."""
    if device_kind() != "CPU":
        pools = [make() for make in makers]
        mx.async_eval(pools)
        return pools
    pools = list[mx.array]()
    for index, make in enumerate(makers):
        with mx.stream(_BESIDE) if index % 2 else nullcontext():
            pools.append(make())
    mx.eval(pools)
    return pools
