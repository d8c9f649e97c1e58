"""When something that failed is tried again, and when it is given up."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from app.downloads.stop import Stop
from app.errors import DownloadFailed


class Retry(Exception):
    """What went wrong may pass. `str()` is for people.

    Attributes:
        wait: seconds that the server asks for, or None.
        is_stall: nothing came, or too slowly; the connection itself looks alive.
        refutes: the server contradicts what the hub listed.
    """

    def __init__(
        self, why: str, *, wait: float | None = None, is_stall: bool = False, refutes: bool = False
    ) -> None:
        super().__init__(why)
        self.wait = wait
        self.is_stall = is_stall
        self.refutes = refutes


class PlanRefuted(DownloadFailed):
    """What is sent is not what was listed: the next time the hub is asked anew what there is."""

    def __init__(self, message: str) -> None:
        super().__init__(message, is_resumable=True)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long what is waited for.

    Attributes:
        attempts: failures in a row, without one new byte, after which it is given up.
        first_wait, longest_wait: seconds before the first new try, doubled each time up to the longest.
        longest_asked: seconds that a server may ask for (Retry-After); beyond that it is given up.
        connect: seconds for a connection.
        stall: seconds without a byte.
        floor: bytes a second, over `floor_seconds`, below which a connection counts as stalled.
        stalls: stalls of a file after which it is fetched in small pieces, each over a connection of its own.
    """

    attempts: int = 8
    first_wait: float = 0.5
    longest_wait: float = 30.0
    longest_asked: float = 300.0
    connect: float = 10.0
    stall: float = 20.0
    floor: int = 1000
    floor_seconds: float = 30.0
    stalls: int = 2

    def wait(self, failures: int) -> float:
        """Seconds before the next try after so many `failures` in a row, from half of it on at random."""
        longest = min(self.longest_wait, self.first_wait * 2 ** min(failures - 1, 20))
        return longest * random.uniform(0.5, 1.0)


DEFAULT_PATIENCE = Patience()


class Attempts:
    """Counts failures in a row of one thing that is tried."""

    def __init__(self, patience: Patience, stop: Stop, say: Callable[[str, float], None]) -> None:
        """`say` hears of each wait: why, and for how many seconds."""
        self._patience = patience
        self._stop = stop
        self._say = say
        self._failures = 0

    def failed(self, retry: Retry, *, progressed: bool) -> None:
        """Wait until the next try; `progressed` when something new was reached since the last failure.

        Raises DownloadFailed when it is time to give up, and Stopped.
        """
        self._stop.check()
        self._failures = 1 if progressed else self._failures + 1
        if self._failures >= self._patience.attempts:
            words = f"{retry}; given up after {self._failures} tries"
            raise PlanRefuted(words) if retry.refutes else DownloadFailed(words, is_resumable=True)
        wait = self._patience.wait(self._failures)
        if retry.wait is not None:
            if retry.wait > self._patience.longest_asked:
                raise DownloadFailed(str(retry), is_resumable=True)
            wait = max(wait, retry.wait)
        self._say(str(retry), wait)
        self._stop.wait(wait)
