"""What the engine is asked, in order; while a model is loaded some of it is done before its turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class CommandQueue(Generic[T]):
    """Filled from any thread, and emptied by one.

    `latest`: what came of it last in its order, and may be being done still.
    """

    def __init__(self) -> None:
        self.latest: T | None = None
        self._items = SimpleQueue[T]()
        self._put_off = deque[T]()

    def put(self, item: T) -> None:
        """Behind all that waits."""
        self._items.put(item)

    def get(self, *, block: bool, timeout: float | None = None) -> T:
        """The first one, which is waited for if `block`, for `timeout` seconds. Raises Empty."""
        self.latest = self._put_off.popleft() if self._put_off else self._items.get(block, timeout)
        return self.latest

    def withdraw(self, is_it: Callable[[T], bool]) -> T | None:
        """The first of those that stayed in their order for which `is_it`; None where there is none.

        It waits no longer.
        """
        found = next((item for item in self._put_off if is_it(item)), None)
        if found is not None:
            self._put_off.remove(found)
        return found

    def has_waiting(self, is_it: Callable[[T], bool]) -> bool:
        """Whether there is one, of those that stayed in their order, for which `is_it`."""
        return any(is_it(item) for item in self._put_off)

    def take_all(self) -> list[T]:
        """All that wait, in their order."""
        items = list[T]()
        with suppress(Empty):
            while True:
                items.append(self.get(block=False))
        return items

    def take_early(self, is_early: Callable[[T, Sequence[T]], bool]) -> list[T]:
        """Those that may go before what waits already; the others stay in their order.

        `is_early`: told each item and those that stay before it.
        """
        early = list[T]()
        with suppress(Empty):
            while True:
                item = self._items.get(block=False)
                (early if is_early(item, tuple(self._put_off)) else self._put_off).append(item)
        return early
