"""The downloads as people see them, folded from the queue's events and from nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QObject, Signal

from app.downloads.events import (
    Cancelled,
    DownloadEvent,
    Failed,
    Finished,
    Paused,
    Prepared,
    Progress,
    Queued,
    Retrying,
    Verifying,
)
from app.downloads.journal import Entry, Journal
from app.downloads.lanes import Lanes
from app.downloads.wanted import Wanted
from app.errors import DownloadFailed
from app.hub.errors import HubError
from app.models.background import Background
from app.paths import Paths

if TYPE_CHECKING:
    from app.downloads.queue import DownloadQueue

DownloadPhase = Literal["queued", "running", "retrying", "verifying", "paused", "failed", "finished"]


@dataclass(frozen=True, slots=True)
class DownloadState:
    """How a download stands.

    Attributes:
        choice: key of the quantisation that is fetched; "" where there was none to choose.
        done, total: bytes; 0 of 0 before it is known what to fetch.
        rate: bytes a second.
        seconds_left: None when nothing comes.
        words: why it waits or failed, else "".
        path: what can be opened, once it is finished.
    """

    id: int
    wanted: Wanted
    phase: DownloadPhase
    choice: str = ""
    done: int = 0
    total: int = 0
    rate: float = 0.0
    seconds_left: float | None = None
    words: str = ""
    is_resumable: bool = True
    path: str = ""

    @property
    def title(self) -> str:
        """The repository, with the quantisation where it is one of several."""
        choice = self.choice or self.wanted.quant
        return f"{self.wanted.repo}:{choice}" if choice else self.wanted.repo

    @property
    def is_active(self) -> bool:
        """Whether it goes on by itself."""
        return self.phase in ("queued", "running", "retrying", "verifying")


def fold(state: DownloadState, event: DownloadEvent) -> DownloadState:
    """The state after one more event of this download; Cancelled leaves nothing to fold."""
    match event:
        case Queued():
            return replace(state, phase="queued", words="", rate=0.0, seconds_left=None)
        case Prepared(plan=plan, choice=choice, done=done):
            return replace(state, phase="running", choice=choice, done=done, total=plan.size, words="")
        case Progress(done=done, total=total, rate=rate, seconds_left=left):
            return replace(
                state, phase="running", done=done, total=total, rate=rate, seconds_left=left, words=""
            )
        case Retrying(why=why):
            return replace(state, phase="retrying", words=why, rate=0.0, seconds_left=None)
        case Verifying():
            return replace(state, phase="verifying", words="")
        case Paused():
            return replace(state, phase="paused", words="", rate=0.0, seconds_left=None)
        case Failed(words=words, is_resumable=resumable):
            return replace(
                state, phase="failed", words=words, is_resumable=resumable, rate=0.0, seconds_left=None
            )
        case Finished(path=path):
            return replace(state, phase="finished", done=state.total, words="", path=str(path))
        case Cancelled():
            return state


OpenQueue = Callable[[Paths, Callable[[DownloadEvent], None]], "tuple[DownloadQueue, Journal]"]


class DownloadsViewModel(QObject):
    """All downloads that are not put away.

    Signals: `changed`; `finished(DownloadState)`; `failed(words)` when something could not even be noted.
    """

    changed = Signal()
    finished = Signal(object)
    failed = Signal(str)

    def __init__(
        self, paths: Paths, background: Background, open_queue: OpenQueue, parent: QObject | None = None
    ) -> None:
        """`open_queue` makes and starts the queue; it runs on the background thread, at the first need."""
        super().__init__(parent)
        self._paths = paths
        self._background = background
        self._open_queue = open_queue
        self._opened: tuple[DownloadQueue, Journal] | None = None  # the background thread's
        self._states: dict[int, DownloadState] = {}

    @property
    def states(self) -> tuple[DownloadState, ...]:
        """The downloads, the oldest first."""
        return tuple(self._states.values())

    def resume_pending(self) -> None:
        """Go on with what ran when the app ended, and show what was paused or failed."""

        def pending() -> list[DownloadState]:
            queue, journal = self._queue()
            entries = journal.pending()
            for entry in entries:
                if entry.state == "waiting":
                    queue.resume(entry)
            return [_state(entry) for entry in entries]

        self._background.ask(pending, self._show_pending, self.failed.emit)

    def add(self, repo: str, choice: str) -> None:
        """Download the choice of a repository."""
        wanted = Wanted(repo, choice)
        self._background.ask(lambda: self._queue()[0].add(wanted), lambda id_: None, self.failed.emit)

    def pause(self, id_: int) -> None:
        """Stop it; what it has stays."""
        self._background.ask(lambda: self._queue()[0].pause(id_), lambda _: None, self.failed.emit)

    def resume(self, id_: int) -> None:
        """Go on with one that is paused or failed."""
        wanted = self._states[id_].wanted
        self._background.ask(lambda: self._queue()[0].add(wanted), lambda id_: None, self.failed.emit)

    def cancel(self, id_: int) -> None:
        """Give it up: what it has of unfinished files goes."""

        def cancel() -> None:
            queue, journal = self._queue()
            for entry in journal.pending():
                if entry.id == id_:
                    queue.cancel(entry)

        self._background.ask(cancel, lambda _: None, self.failed.emit)

    def put_away(self, id_: int) -> None:
        """Show it no more: it is finished, or failed for good."""
        self._states.pop(id_, None)
        self.changed.emit()

    def close(self, timeout: float) -> bool:
        """Stop what runs; the next start goes on with it. Returns whether the threads ended in time."""

        if not self._background.is_running:
            return True
        ended: list[bool] = []

        def close() -> None:
            if self._opened is not None:
                queue, journal = self._opened
                ended.append(queue.close(timeout))
                if all(ended):
                    journal.close()

        self._background.ask(close, lambda _: None, lambda words: None)
        return self._background.close(timeout) and all(ended)

    def handle(self, event: DownloadEvent) -> None:
        """Take in an event of the queue."""
        if isinstance(event, Queued) and event.id not in self._states:
            self._states[event.id] = DownloadState(event.id, event.wanted, "queued")
        known = self._states.get(event.id)
        if known is None:
            return
        if isinstance(event, Cancelled):
            del self._states[event.id]
        else:
            self._states[event.id] = fold(known, event)
        self.changed.emit()
        if isinstance(event, Finished):
            self.finished.emit(self._states[event.id])

    def _queue(self) -> tuple[DownloadQueue, Journal]:
        if self._opened is None:
            self._opened = self._open_queue(self._paths, self._emit)
            if problem := self._opened[1].problem:
                self._background.tell(lambda: self.failed.emit(problem))
        return self._opened

    def _emit(self, event: DownloadEvent) -> None:
        self._background.tell(lambda: self.handle(event))

    def _show_pending(self, states: list[DownloadState]) -> None:
        for state in states:
            self._states.setdefault(state.id, state)
        self.changed.emit()


def _state(entry: Entry) -> DownloadState:
    phases: dict[str, DownloadPhase] = {"waiting": "queued", "paused": "paused", "failed": "failed"}
    total = entry.plan.size if entry.plan else 0
    return DownloadState(entry.id, entry.wanted, phases[entry.state], total=total, words=entry.words)


def open_queue(
    token: Callable[[], str | None],
    lanes: Lanes,
) -> OpenQueue:
    """What opens the app's own queue with the Hub that the environment names.

    `lanes` tell how many files are fetched at once, also while they are.
    """

    def usable() -> str | None:
        """The token; one that cannot be sent ends a download in its words."""
        try:
            return token()
        except HubError as error:
            raise DownloadFailed(str(error), is_resumable=True) from None

    def open_it(paths: Paths, emit: Callable[[DownloadEvent], None]) -> tuple[DownloadQueue, Journal]:
        # Imported here, off the GUI thread: the Hub's client takes a third of a second.
        from app.downloads.download import Means
        from app.downloads.hub import default_hub
        from app.downloads.queue import DownloadQueue

        journal = Journal(paths.downloads)
        queue = DownloadQueue(Means(default_hub(usable), lanes=lanes), journal, emit)
        queue.start()
        return queue, journal

    return open_it
