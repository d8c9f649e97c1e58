"""What a database's thread has still to write, in the order in which it was given."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Named(Protocol):
    """A value to be saved; one of the same `id` that is newer takes its place."""

    @property
    def id(self) -> str:
        """A name that no other value has."""
        ...


S = TypeVar("S")
V = TypeVar("V", bound=Named)


@dataclass(frozen=True, slots=True)
class Change(Generic[S]):
    """What is to be run in a transaction; `then` hears that it is written, `failed` why it never will be."""

    run: Callable[[S], object]
    then: Callable[[], None] | None = None
    failed: Callable[[str], None] | None = None


class Waiting(Generic[S, V]):
    """Values and changes. Values between two changes are written together, each as it was given last."""

    def __init__(self) -> None:
        self._waiting: deque[dict[str, V] | Change[S]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __str__(self) -> str:
        values = sum(len(each) for each in self._waiting if isinstance(each, dict))
        return f"values: {values}, changes: {len(self.changes())}"

    def changes(self) -> list[Change[S]]:
        """The changes among it."""
        return [each for each in self._waiting if isinstance(each, Change)]

    def add(self, job: V | Change[S]) -> None:
        """Wait behind what waits; a value takes the place of one of the same id behind the last change."""
        if isinstance(job, Change):
            self._waiting.append(job)
            return
        if not self._waiting or isinstance(self._waiting[-1], Change):
            self._waiting.append({})
        values = self._waiting[-1]
        assert isinstance(values, dict)
        values[job.id] = job

    def first(self) -> list[V] | Change[S]:
        """What is to be written next, in one transaction."""
        first = self._waiting[0]
        return first if isinstance(first, Change) else list(first.values())

    def written(self) -> None:
        """The first is done with."""
        self._waiting.popleft()
