"""The queue of downloads: one after the other, several files of it at once, on a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from app.downloads.download import Download, Means
from app.downloads.events import Cancelled, DownloadEvent, Failed, Finished, Paused, Queued
from app.downloads.journal import Entry, Journal
from app.downloads.stop import Stop, Stopped
from app.downloads.wanted import Wanted
from app.errors import AppError, DownloadFailed

log = logging.getLogger(__name__)

Wish = Literal["fetch", "pause", "cancel"]


@dataclass(slots=True)
class _Job:
    """A download in the queue, what is wanted of it by now, and whether somebody is at it.

    `is_given_up`: whether it was tried to give it up.
    """

    entry: Entry
    wish: Wish = "fetch"
    is_taken: bool = False
    is_given_up: bool = False
    stop: Stop = field(default_factory=Stop)


class DownloadQueue:
    """Runs downloads. Every method may be called from any thread and returns at once, but for `close`, and
    for `cancel` while another download runs, which removes files.

    `emit` hears of everything, on whichever thread it happens. What is queued ends in exactly one of Paused,
    Cancelled, Finished and Failed, unless the queue is closed before; what was to be paused or given up is
    so then, too.
    """

    def __init__(self, means: Means, journal: Journal, emit: Callable[[DownloadEvent], None]) -> None:
        self._means = means
        self._journal = journal
        self._emit = emit
        self._changed = threading.Condition()
        self._jobs: dict[int, _Job] = {}  # in order
        self._running: _Job | None = None  # the thread's
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="mlxr-downloads", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def add(self, wanted: Wanted) -> int:
        """Queue a request and return its number; one that is known already goes on. Raises AppError."""
        entry = self._journal.add(wanted)
        self.resume(entry)
        return entry.id

    def resume(self, entry: Entry) -> None:
        """Queue a download that the journal knows. One that is queued or runs already goes on."""
        with self._changed:
            if entry.id in self._jobs and self._jobs[entry.id].wish == "fetch":
                return
            self._jobs.pop(entry.id, None)
            self._jobs[entry.id] = _Job(entry)
            self._journal.note_state(entry.id, "waiting")
            self._emit(Queued(entry.id, entry.wanted))
            self._changed.notify()

    def pause(self, id_: int) -> None:
        """Stop a download that is queued or runs; what it has stays."""
        with self._changed:
            job = self._jobs.get(id_)
            if job is not None:
                self._wish(job, "pause")
                if not job.is_taken:
                    self._end(job, Paused(id_))

    def cancel(self, entry: Entry) -> None:
        """Give a download up, in whatever state it is, and remove what it has of unfinished files."""
        with self._changed:
            job = self._jobs.setdefault(entry.id, _Job(entry))
            self._wish(job, "cancel")
            running = self._running
            # The thread does it: at once where it has nothing else to do; where it fetches of the same
            # repository, whose lock it holds, behind that.
            if job.is_taken or running is None or running.entry.wanted.repo == entry.wanted.repo:
                return
            job.is_taken = True
        self._finish(job)

    def close(self, timeout: float | None = None) -> bool:
        """Stop everything and join; the next queue goes on with it. Whether the thread ended in time."""
        with self._changed:
            self._is_closing = True
            for job in self._jobs.values():
                job.stop.ask()
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _wish(self, job: _Job, wish: Wish) -> None:
        job.wish = wish
        job.stop.ask()
        self._changed.notify()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            self._finish(job)

    def _finish(self, job: _Job) -> None:
        try:
            end = self._run(job)
        except Exception as error:  # the other downloads go on
            log.exception("a download ended")
            end = Failed(job.entry.id, f"MLXR made a mistake ({error!r:.160})", is_resumable=True)
        if end is not None:
            self._end(job, end)

    def _next(self) -> _Job | None:
        """The first job that ends one, else the first one; None when it is time to end."""

        def waiting() -> list[_Job]:
            return [job for job in self._jobs.values() if not job.is_taken]

        with self._changed:
            self._running = None
            self._changed.wait_for(lambda: self._is_closing or waiting())
            ending = [job for job in waiting() if job.wish != "fetch"]
            job = next(iter(ending if ending or self._is_closing else waiting()), None)
            if job is not None:
                self._running, job.is_taken = job, True
            return job

    def _run(self, job: _Job) -> DownloadEvent | None:
        """Do what is wanted of the job, and say how it ended; None when the queue closes meanwhile."""
        id_ = job.entry.id
        try:
            if job.wish == "fetch":
                return Download(job.entry, self._means, self._journal, self._emit, job.stop).run()
        except Stopped:
            pass
        except AppError as error:
            if job.wish == "fetch":
                return Failed(id_, str(error), not isinstance(error, DownloadFailed) or error.is_resumable)
        if job.wish == "pause":
            return Paused(id_)
        job.is_given_up = job.wish == "cancel"
        return self._cancel(job.entry) if job.is_given_up else None

    def _cancel(self, entry: Entry) -> DownloadEvent:
        try:
            Download(entry, self._means, self._journal, self._emit, Stop()).remove()
        except AppError as error:
            return Failed(entry.id, str(error), is_resumable=True)
        return Cancelled(entry.id)

    def _end(self, job: _Job, end: DownloadEvent) -> None:
        with self._changed:
            if self._jobs.get(end.id) is not job and not isinstance(end, Finished):
                return  # it was queued anew meanwhile, and has its end before it
            if job.wish == "cancel" and not (job.is_given_up or isinstance(end, Finished)):
                job.is_taken = False  # that was wanted when it had just paused or failed, and is done next
                self._changed.notify()
                return
            self._jobs.pop(end.id, None)
            if isinstance(end, Paused):
                self._journal.note_state(end.id, "paused")
            elif isinstance(end, Failed) and end.is_resumable:
                self._journal.note_state(end.id, "failed", end.words)
            else:
                self._journal.forget(end.id)
            self._emit(end)
