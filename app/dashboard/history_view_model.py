"""What the dashboard asks of the history: a span, what is compared in it, and its file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path, PurePath

from PySide6.QtCore import QObject, QTimer, Signal

from app.dashboard.history_figures import Look, Value, look_up, setting_words
from app.dashboard.history_times import SPAN_PHRASES, SpanName, span_of
from app.errors import AppError
from app.history.recorder import Recorder
from app.history.records import Field, RequestRecord
from app.history.requests import RequestStore
from app.history.worker import HistoryWorker
from engine import Event, Failed, Finished

SOON_MS = 500
"""From a request's end to the question about it: several that end together are one question."""

AGAIN_MS = 60_000
"""Between looks whether time has gone on, or another program has recorded something."""


class HistoryViewModel(QObject):
    """`changed` when `look` has; `exported(words)` and `failed(words)` of a file.

    Attributes:
        span: the time that is looked at.
        by: what is compared in it, or None.
        look: what the history answered last; None before it did, and where it could not.
        problem: why it could not, one line; "" where all is well.
    """

    changed = Signal()
    exported = Signal(str)
    failed = Signal(str)

    def __init__(
        self,
        history: HistoryWorker,
        recorder: Recorder,
        name_of: Callable[[str], str],
        clock: Callable[[], float] = time.time,
        parent: QObject | None = None,
    ) -> None:
        """`clock`: seconds since the epoch; `name_of`: a model's name by its path.

        `name_of` is called on the history's thread: it asks the disk, which may be one that does not answer.
        """
        super().__init__(parent)
        self._history, self._recorder, self._find_name, self._clock = history, recorder, name_of, clock
        self._names: dict[str, str] = {}
        self.span: SpanName = "session"
        self.by: Field | None = None
        self.look: Look | None = None
        self.problem = ""
        self._pair: tuple[Value, ...] = ()
        self._question = 0
        self._is_shown = self._is_waiting = self._is_old = False
        self._soon, self._again = QTimer(self), QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(SOON_MS)
        self._soon.timeout.connect(self._ask_unless_waiting)
        self._again.setInterval(AGAIN_MS)
        self._again.timeout.connect(self.look_again)

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock()

    def show(self) -> None:
        """Somebody looks."""
        self._is_shown = True
        self._again.start()
        self.ask()

    def hide(self) -> None:
        """Nobody looks any more."""
        self._is_shown = False
        self._soon.stop()
        self._again.stop()

    def handle(self, event: Event) -> None:
        """Take in an engine event."""
        if self._is_shown and isinstance(event, Finished | Failed) and not self._soon.isActive():
            self._soon.start()

    def choose_span(self, name: SpanName) -> None:
        """Look at another time."""
        self.span = name
        self.ask()

    def compare(self, by: Field | None) -> None:
        """Compare requests by this; None: not at all."""
        self.by, self._pair = by, ()
        self.ask()

    def choose(self, line: int, value: Value) -> None:
        """Let line 0 or 1 be the requests with this value."""
        pair = [one.value for one in self.look.lines] if self.look else []
        if line >= len(pair):
            return
        if value in pair:  # they change places
            pair.reverse()
        pair[line] = value
        self._pair = tuple(pair)
        self.ask()

    def ask(self) -> None:
        """Ask the history now; an answer to an earlier question is dropped."""
        self._question += 1
        self._is_waiting, self._is_old = True, False
        question, name, by, pair = self._question, self.span, self.by, self._pair
        span = span_of(name, self._recorder, self._clock())

        def answer(store: RequestStore) -> tuple[Look, dict[str, str]]:
            look = look_up(store, name, span, by, pair)
            return look, {path: self._name(path) for path in look.models}

        self._history.ask(
            answer, lambda told: self._answered(question, *told), lambda words: self._refused(question, words)
        )

    def look_again(self) -> None:
        """Ask if there is anything new: with a long history the whole question takes a second or two."""
        span = span_of(self.span, self._recorder, self._clock())

        def compare(latest: list[RequestRecord]) -> None:
            if self.look is None or (span, latest) != (self.look.span, list(self.look.latest[:1])):
                self.ask()

        question = self._question
        self._history.ask(
            lambda store: store.latest(span, limit=1), compare, lambda words: self._refused(question, words)
        )

    def name_of(self, path: str) -> str:
        """The name of a model in `look`."""
        return self._names[path]

    def words(self, value: Value) -> str:
        """A value of what is compared; models of one name are told apart by their folders."""
        if self.look is None or self.look.by is None:
            return "All requests"
        by = self.look.by
        said = [setting_words(by, group.values[0], self.name_of) for group in self.look.groups]
        mine = setting_words(by, value, self.name_of)
        return str(value) if said.count(mine) > 1 else mine

    def export(self, path: Path) -> None:
        """Write the span's requests to a CSV file."""
        name = self.span
        span = span_of(name, self._recorder, self._clock())

        def written(count: int | AppError) -> None:
            if isinstance(count, AppError):
                self.failed.emit(str(count))
                return
            what = "1 request" if count == 1 else f"{count:,} requests"
            self.exported.emit(f"{what} of {SPAN_PHRASES[name]} written to {path}")

        self._history.export(path, written, span)

    def _ask_unless_waiting(self) -> None:
        if self._is_waiting:
            self._is_old = True
        else:
            self.ask()

    def _name(self, path: str) -> str:
        try:
            return self._find_name(path)
        except (OSError, RuntimeError, ValueError):  # links in a circle, a path that cannot be one
            return PurePath(path).name

    def _answered(self, question: int, look: Look, names: dict[str, str]) -> None:
        if question != self._question:
            return
        self.look, self._names, self.problem = look, names, ""
        self._end_wait()

    def _refused(self, question: int, words: str) -> None:
        if question == self._question:
            self.look, self.problem = None, words
            self._end_wait()

    def _end_wait(self) -> None:
        self._is_waiting = False
        self.changed.emit()
        if self._is_old and self._is_shown:
            self._soon.start()
