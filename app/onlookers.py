"""Who looks on while the window's engine works: the history of requests, and the local socket."""

from __future__ import annotations

import logging
from collections.abc import Callable

from app.event_inbox import in_turn
from app.history.recorder import Recorder
from app.history.worker import HistoryWorker
from app.instance.address import Claim
from app.instance.feed import LiveFeed
from app.instance.listener import Listener
from app.instance.protocol import Opening
from app.paths import Paths
from app.store.database_worker import Post
from engine import Event

log = logging.getLogger(__name__)


class Onlookers:
    """See every event on the engine's thread, before the window does.

    Attributes:
        history: what was recorded, to be asked.
        recorder: sees what is asked of the engine, and so what is to be recorded.
    """

    def __init__(
        self,
        paths: Paths,
        post: Post,
        on_problem: Callable[[str], None],
        on_open: Callable[[Opening], None],
        kv_bits: int | None,
        claim: Claim | None = None,
    ) -> None:
        """What comes of other threads comes through `post`.

        `on_problem`: of the history, as for DatabaseWorker; `kv_bits`: as for Recorder; `on_open`: another
        program wants the window to be shown, and may have something to open; `claim`: as for Listener.
        """
        self.history = HistoryWorker(paths.history, post, on_problem)
        self.recorder = Recorder(self.history.save, "window", kv_bits)
        self._feed = LiveFeed()
        self._listener = Listener(
            paths.home, self._feed, lambda opening: post(lambda: on_open(opening)), claim
        )

    def before(self, emit: Callable[[Event], None]) -> Callable[[Event], None]:
        """`emit`, behind them."""
        return in_turn(self.recorder.take, self._feed.take, emit)

    def start(self) -> None:
        """Start their threads."""
        self.history.start()
        self._listener.start()

    def stop_listening(self, timeout: float) -> None:
        """Before all else: who starts now is not to be left to a window that is about to go."""
        if not self._listener.close(timeout):
            log.warning("the local socket did not close in time")

    def close(self, timeout: float) -> None:
        """End the history's thread, after the engine: what it cut short is recorded."""
        if not self.history.close(timeout):
            log.warning("the database of requests did not close in time")
