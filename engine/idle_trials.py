"""Trials of kernels while the engine has nothing to do: on a thread of their own, in child processes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from metal.selection import Selection

log = logging.getLogger(__name__)

REST_S = 0.5
"""Seconds without work before a trial begins: whoever opens a model may be about to ask."""


class IdleTrials:
    """At most one trial at a time; for one thread, the engine's.

    Args:
        ended: called on another thread when a trial has ended, with whether it came to verdicts.
    """

    def __init__(self, ended: Callable[[bool], None]) -> None:
        self._ended = ended
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_running = False
        self._hopeless: Selection | None = None

    def begin(self, selection: Selection) -> None:
        """Try what waits in `selection`, soon; nothing where a trial runs or could not be made before."""
        if self._is_running or not selection.pending or selection is self._hopeless:
            return
        self._is_running, self._stop = True, threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(selection, self._stop), name="mlxr-trials", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the trial; returns at once. What it has not tried waits for the next."""
        self._stop.set()

    def close(self, timeout: float) -> None:
        """End the trial and wait, at most `timeout` seconds."""
        self.stop()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self, selection: Selection, stop: threading.Event) -> None:
        has_verdicts = False
        try:
            if not stop.wait(REST_S):
                has_verdicts = bool(selection.run_pending(stop=stop.is_set))
            if selection.pending and not stop.is_set():
                self._hopeless = selection
                log.warning("kernels stay untried: %s", selection.problem)
        except Exception:  # the top of this thread: chat goes on with what runs already
            self._hopeless = selection
            log.exception("a trial of kernels broke")
        finally:
            self._is_running = False
            self._ended(has_verdicts)
