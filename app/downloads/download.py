"""One download from its plan to a snapshot that every program of the Hugging Face cache finds."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.downloads.cache_layout import CacheLayout
from app.downloads.connection import Source
from app.downloads.digest import is_blob
from app.downloads.disk import check_room, free_bytes
from app.downloads.events import DownloadEvent, Finished, Prepared, Retrying
from app.downloads.hub import Hub, check_online
from app.downloads.journal import Entry, Journal
from app.downloads.lanes import MOST, Lanes
from app.downloads.plan import make_plan
from app.downloads.progress import ProgressTeller
from app.downloads.repo_lock import repo_lock
from app.downloads.retry import DEFAULT_PATIENCE, Attempts, Patience, PlanRefuted
from app.downloads.stop import Stop, Stopped
from app.downloads.transfer import Transfer
from app.downloads.wanted import Plan, PlannedFile
from app.errors import DownloadFailed

PLAN_ATTEMPTS = 4
"""Tries of asking what a repository holds: a person waits for it."""

TICK = 0.25
"""Seconds between two words on a transfer that stands still."""

MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, slots=True)
class Means:
    """What downloads are done with.

    Attributes:
        lanes: files that are fetched at once.
        memory: bytes of it, for the choice among quantisations.
        free: bytes that can be written to a folder's disk.
    """

    hub: Hub
    patience: Patience = DEFAULT_PATIENCE
    lanes: Lanes = field(default_factory=Lanes)
    memory: int = MEMORY
    free: Callable[[Path], int] = free_bytes


class Download:
    """Runs one entry of the journal until it is done or `stop` is asked."""

    def __init__(
        self, entry: Entry, means: Means, journal: Journal, emit: Callable[[DownloadEvent], None], stop: Stop
    ) -> None:
        self._entry = entry
        self._means = means
        self._journal = journal
        self._emit = emit
        self._layout = CacheLayout(means.hub.cache, entry.wanted.repo)
        self._stop = stop

    def run(self) -> Finished:
        """Plan, fetch, verify and publish. Raises DownloadFailed and Stopped."""
        try:
            check_online()
            plan = self._planned()
            with repo_lock(self._layout.lock, self._entry.wanted.repo):
                return self._fetch_all(plan)
        except PlanRefuted:
            self._journal.drop_plan(self._entry.id)
            raise
        except OSError as error:
            raise _disk_words(error, self._means.hub.cache) from error

    def remove(self) -> None:
        """Remove what is there of unfinished files that no other download needs. Raises AppError."""
        repo = self._entry.wanted.repo
        others = [entry for entry in self._journal.pending() if entry.id != self._entry.id]
        plans = [entry.plan for entry in others if entry.plan is not None and entry.wanted.repo == repo]
        try:
            with repo_lock(self._layout.lock, repo):
                self._layout.remove_parts({file.blob for plan in plans for file in plan.files})
        except OSError as error:
            raise _disk_words(error, self._means.hub.cache) from error

    def _planned(self) -> Plan:
        entry, means = self._entry, self._means
        if entry.plan is not None:
            return entry.plan

        def say(why: str, seconds: float) -> None:
            self._emit(Retrying(entry.id, "", why, seconds))

        attempts = Attempts(replace(means.patience, attempts=PLAN_ATTEMPTS), self._stop, say)
        plan = make_plan(means.hub, entry.wanted, means.memory, attempts)
        self._journal.note_plan(entry.id, plan)
        return plan

    def _fetch_all(self, plan: Plan) -> Finished:
        layout = self._layout
        files = tuple({file.blob: file for file in plan.files}.values())
        done = sum(layout.bytes_there(file) for file in files)
        self._emit(Prepared(self._entry.id, plan, plan.choice, done, layout.folder))
        check_room(layout.folder, plan.size - done, self._means.free)
        layout.make_folders()
        watch = ProgressTeller(self._entry.id, done, plan.size, self._emit)
        missing = [file for file in files if not self._is_there(file, plan, watch)]
        self._transfer(missing, plan, watch)
        snapshot = layout.publish(plan, self._entry.wanted.revision)
        return Finished(self._entry.id, plan, self._path(snapshot, plan), watch.fetched)

    def _path(self, snapshot: Path, plan: Plan) -> Path:
        """What `--model` takes, a GGUF file or a folder; else the file that was asked for."""
        first = snapshot / plan.files[0].name
        return first if self._entry.wanted.file or first.suffix.lower() == ".gguf" else first.parent

    def _is_there(self, file: PlannedFile, plan: Plan, watch: ProgressTeller) -> bool:
        """Whether the file is whole and right; other programs put files there that they did not verify."""
        for path in self._layout.copies(file, plan.commit):
            if path.is_file():
                watch.verifying(file.name)
                if is_blob(path, file.blob, file.size, self._stop):
                    return True
        watch.counted(file.name, self._layout.bytes_of_part(file) - self._layout.bytes_there(file))
        return False

    def _transfer(self, files: Sequence[PlannedFile], plan: Plan, watch: ProgressTeller) -> None:
        """Fetch `files`, as many at once as there are lanes. The first failure stops the others."""
        with ThreadPoolExecutor(MOST, thread_name_prefix="mlxr-transfer") as pool:
            jobs = [pool.submit(self._one(file, plan, watch).run) for file in files]
            while not self._are_done(jobs):
                watch.tick()
            errors = [error for job in jobs if job.done() and (error := job.exception()) is not None]
            if errors:
                pool.shutdown(wait=False, cancel_futures=True)
                self._stop.ask()
        if errors:
            raise next((error for error in errors if not isinstance(error, Stopped)), errors[0])

    def _are_done(self, jobs: Sequence[Future[None]]) -> bool:
        """Wait a moment; whether all are done or one has failed."""
        done, left = wait(jobs, TICK, FIRST_EXCEPTION)
        return not left or any(job.exception() for job in done)

    def _one(self, file: PlannedFile, plan: Plan, watch: ProgressTeller) -> Transfer:
        source = Source(self._means.hub, self._entry.wanted.repo, plan.commit, file.name)
        blob = self._layout.blob(file)
        return Transfer(source, file, blob, self._means.patience, self._means.lanes, self._stop, watch)


def _disk_words(error: OSError, cache: Path) -> DownloadFailed:
    where = error.filename or cache
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DownloadFailed(
            f"the disk of {cache} is full; make room, then go on: nothing is lost", is_resumable=True
        )
    if error.errno == errno.ELOOP:
        return DownloadFailed(f"{where} is a link; MLXR writes through none: move it away", is_resumable=True)
    return DownloadFailed(
        f"{where} cannot be written ({error.strerror or error}); make it writable, or set HF_HOME elsewhere",
        is_resumable=True,
    )
