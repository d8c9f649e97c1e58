"""Trials of kernels while the engine has nothing to do: on a thread of their own, in child processes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from engine.events.trials import KernelTrials
from metal.selection import Selection

log = logging.getLogger(__name__)

REST_S = 0.5
"""Seconds without work before a trial begins: whoever opens a model may be about to ask."""

_ENOUGH = 2
"""Operations after which it may be said how long others take."""


class IdleTrials:
    """At most one trial at a time; for one thread, the engine's.

    Args:
        ended: called on another thread when a trial has ended, with whether it came to verdicts.
        told: called on another thread with how far trials are, for `now`.
    """

    def __init__(self, ended: Callable[[bool], None], told: Callable[[KernelTrials], None]) -> None:
        self._ended, self._told = ended, told
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_running = self._are_put_off = False
        self._hopeless: Selection | None = None
        self._progress: _Progress | None = None

    def begin(self, model: str, selection: Selection) -> None:
        """Try what waits in `selection`, soon; nothing where a trial runs or could not be made before.

        `model`: the path of the one that it is for.
        """
        if self._is_running or not selection.pending or selection is self._hopeless:
            return
        if self._progress is None or self._progress.selection is not selection:
            self._progress = _Progress(model, selection)
        if self._are_put_off:
            return
        self._is_running, self._stop = True, threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._progress, self._stop), name="mlxr-trials", daemon=True
        )
        self._thread.start()

    def put_off(self, are_put_off: bool) -> None:
        """Make none from now on, or as usual. A trial that runs ends as by `stop`, and that tells of it."""
        self._are_put_off = are_put_off
        if are_put_off:
            self.stop()
        if self._progress is not None and not self._is_running:
            self._tell(self._progress)

    def now(self, event: KernelTrials) -> KernelTrials:
        """What was told, when its turn has come: trials may have been put off, or not, since it was made."""
        return replace(event, are_put_off=self._are_put_off)

    def stop(self) -> None:
        """End the trial; returns at once. What it has not tried waits for the next."""
        self._stop.set()

    def close(self, timeout: float) -> None:
        """End the trial and wait, at most `timeout` seconds."""
        self.stop()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self, progress: _Progress, stop: threading.Event) -> None:
        has_verdicts, selection = False, progress.selection
        try:
            if not stop.wait(REST_S):
                progress.begin()
                self._tell(progress, is_running=True)
                has_verdicts = bool(
                    selection.run_pending(stop=stop.is_set, after=lambda: self._settled(progress))
                )
            if selection.pending and not stop.is_set():
                self._hopeless, progress.problem = selection, selection.problem
                log.warning("kernels stay untried: %s", selection.problem)
        except Exception:  # the top of this thread: chat goes on with what runs already
            self._hopeless, progress.problem = selection, "the trial broke; the log says more"
            log.exception("a trial of kernels broke")
        finally:
            self._is_running = False
            self._tell(progress)
            self._ended(has_verdicts)

    def _settled(self, progress: _Progress) -> None:
        progress.settled()
        self._tell(progress, is_running=True)

    def _tell(self, progress: _Progress, *, is_running: bool = False) -> None:
        self._told(progress.event(is_running=is_running))


class _Progress:
    """How far the trials of a selection are, over as many runs as they take."""

    def __init__(self, model: str, selection: Selection) -> None:
        self.selection, self._model = selection, model
        self.problem = ""
        self._total = len(selection.pending)
        self._tried, self._seconds, self._since = 0, 0.0, 0.0

    def begin(self) -> None:
        """An operation is tried from now on."""
        self._since = time.monotonic()

    def settled(self) -> None:
        """It has its verdict, and the next one is tried."""
        now = time.monotonic()
        self._tried += 1
        self._seconds += now - self._since
        self._since = now

    def event(self, *, is_running: bool) -> KernelTrials:
        """What there is to tell. Others may have asked for more operations, or tried some, meanwhile.

        Whether trials are put off is added by `IdleTrials.now`.
        """
        left = len(self.selection.pending)
        self._total = max(self._total, left)
        each = self._seconds / self._tried if self._tried >= _ENOUGH else None
        return KernelTrials(
            self._model,
            self._total - left,
            self._total,
            is_running,
            seconds_left=None if each is None else each * left,
            problem=self.problem,
        )
