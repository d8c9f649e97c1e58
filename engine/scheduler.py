"""Who runs next: one request at a time, in order of arrival. Pure Python."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from engine.request import Request


class Scheduler:
    """A queue of accepted requests; the first one is active until it is removed."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()

    def __iter__(self) -> Iterator[Request]:
        return iter(tuple(self._requests))

    @property
    def active(self) -> Request | None:
        """The request to work on."""
        return self._requests[0] if self._requests else None

    @property
    def queued(self) -> int:
        """Requests that wait behind the active one."""
        return max(0, len(self._requests) - 1)

    def add(self, request: Request) -> None:
        """Append a request."""
        self._requests.append(request)

    def find(self, request_id: str) -> Request | None:
        """The request called `request_id`, if it is still here."""
        return next((request for request in self._requests if request.id == request_id), None)

    def remove(self, request: Request) -> None:
        """Take a request out, active or not."""
        self._requests.remove(request)
