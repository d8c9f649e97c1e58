"""A thread for what would keep the window waiting: disk and network, one job after the other."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from app.errors import AppError

log = logging.getLogger(__name__)

T = TypeVar("T")
Post = Callable[[Callable[[], None]], None]

MISTAKE = "MLXR made a mistake ({error}); its log says more"
NO_DATABASE = "a database of MLXR cannot be used ({error}); make room on its disk and try again"


class Background:
    """Runs jobs on a daemon thread, which starts with the first one.

    `post` runs a callable on the caller's thread later; what a job returns comes back through it.
    """

    def __init__(self, name: str, post: Post) -> None:
        self._name = name
        self._post = post
        self._asked = self._done = 0  # the first is the caller's to write, the second the thread's
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def free(self) -> Background:
        """This one, or where it is at work another that is not: then this one ends after its jobs.

        For questions to a network, which may not answer for a while: what is asked next need not wait. Its
        one user goes on with what is returned, and asks nothing more of what it replaces.
        """
        if self._asked == self._done:
            return self
        self.end()
        return Background(self._name, self._post)

    @property
    def is_running(self) -> bool:
        """Whether there was anything to do yet."""
        return self._thread.is_alive()

    def ask(self, work: Callable[[], T], then: Callable[[T], None], failed: Callable[[str], None]) -> None:
        """Run `work` after all jobs before it; `then` gets what it returns, `failed` a line why not."""

        def job() -> None:
            try:
                result = work()
            except AppError as error:
                words = str(error)
            except sqlite3.Error as error:
                log.exception("a job of %s", self._thread.name)
                words = NO_DATABASE.format(error=error)
            except Exception as error:  # the top of this thread: the window goes on
                log.exception("a job of %s", self._thread.name)
                words = MISTAKE.format(error=f"{error!r:.160}")
            else:
                self._post(lambda: then(result))
                return
            self._post(lambda: failed(words))

        self._asked += 1
        self._jobs.put(job)
        if self._thread.ident is None:
            self._thread.start()

    def tell(self, call: Callable[[], None]) -> None:
        """Run `call` on the caller's thread soon: for a job that tells how far it is."""
        self._post(call)

    def end(self) -> None:
        """End after the jobs that are queued, whenever that is."""
        self._jobs.put(None)

    def close(self, timeout: float | None = None) -> bool:
        """End after the jobs that are queued. Returns whether the thread ended in time."""
        if self._thread.ident is None:
            return True
        self.end()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._done += 1
