"""What the window says of crashes and of safe mode, and what it offers then."""

from __future__ import annotations

import logging
import shutil
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.appearance import Appearance
from app.chat.chat_pane import ChatPane
from app.crash import crash_words as words
from app.crash.hooks import ENGINE_THREAD, Hooks
from app.crash.inquest import Ending
from app.crash.report import report_text
from app.crash.report_dialog import ReportDialog
from app.crash.reports import Reports
from app.crash.safe_mode import CALM_SECONDS
from app.crash.session import Session
from app.errors import AppError
from app.models.background import Background, Post
from app.paths import Paths
from app.widgets.banner import Banner
from engine import clear_cache

log = logging.getLogger(__name__)

TRIM_MS = 60_000
MOST_FAILURES = 3
"""That a run reports: what fails once a frame would fill the folder."""


class CrashDesk(QObject):
    """Banners over the chat, and the report behind them. Intent: `restart_wanted`: close, and start again.

    Attributes:
        banner: of a crash, or of a part that failed; safe_banner: of safe mode.
    """

    restart_wanted = Signal()

    def __init__(
        self,
        session: Session,
        appearance: Appearance,
        pane: ChatPane,
        paths: Paths,
        post: Post,
        machine: Callable[[], list[str]] | None = None,
    ) -> None:
        """`post` runs a callable on this thread later; `machine`: lines about this one, on another thread."""
        super().__init__()
        self._session, self._pane, self._paths, self._post = session, pane, paths, post
        self._machine = machine or machine_lines
        self._reports = Reports(paths.crashes)
        self._background = Background("mlxr-crashes", post)
        self._hooks = Hooks(self._failed)
        self._failures = set[tuple[str, str]]()
        self._shown: Path | None = None
        self.banner, self.safe_banner = Banner(appearance), Banner(appearance)
        self.banner.acted.connect(self.show_report)
        self.safe_banner.acted.connect(self.restart)
        pane.add_banner(self.banner)
        pane.add_banner(self.safe_banner)
        self._calm = QTimer(self)
        self._calm.setSingleShot(True)
        self._calm.setInterval(round(1000 * CALM_SECONDS))
        self._calm.timeout.connect(session.calm)
        self._trim = QTimer(self)
        self._trim.setInterval(TRIM_MS)
        self._trim.timeout.connect(session.trim_output)

    def start(self) -> None:
        """Tell of the last run, where it crashed, and of safe mode; watch over this one."""
        self._hooks.install()
        self._calm.start()
        self._trim.start()
        if why := self._session.safe:
            self.safe_banner.say(words.safe_banner(why), words.LEAVE)
        if self._session.left is not None:
            ending, folder = self._session.left
            self._report(ending, folder)

    def close(self, seconds: float) -> None:
        """Watch no longer; a report that is being written is finished, and what was deleted is gone."""
        self._calm.stop()
        self._trim.stop()
        self._hooks.remove()
        if not self._background.close(seconds):
            log.warning("what is to be done after crashes and in safe mode did not end in time")

    @Slot()
    def forget(self) -> None:
        """A chat was deleted: in safe mode nobody else takes its pages off the disk, so all of them go."""
        if self._session.safe:
            work = partial(clear_cache, self._paths.kv_cache)
            self._background.ask(work, lambda _: None, lambda problem: log.warning("%s", problem))

    @property
    def report(self) -> Path | None:
        """The file of the report that the banner is about."""
        return self._shown

    @Slot()
    def show_report(self) -> None:
        """Show it, all of it."""
        if self._shown is None:
            return
        try:
            report = self._shown.read_text("utf-8")
        except OSError:
            self.banner.say(words.GONE)
            return
        dialog = ReportDialog(self._shown, report, self._pane.window())
        dialog.deleted.connect(self._delete)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def _failed(self, error: BaseException, thread: str) -> None:
        """A part of this run broke; on its thread."""
        last = traceback.extract_tb(error.__traceback__)[-1:]
        place = (type(error).__name__, f"{last[0].filename}:{last[0].lineno}" if last else "")
        if place in self._failures or len(self._failures) >= MOST_FAILURES:
            return
        self._failures.add(place)
        what = words.ENGINE_FAILED if thread == ENGINE_THREAD else words.FAILED
        ending = self._session.failure(what, error)
        self._post(lambda: self._report(ending, None))

    def _report(self, ending: Ending, left: Path | None) -> None:
        """Write the report, off this thread, and then say so; what it was made of goes."""

        def write() -> Path:
            when = datetime.now(UTC).isoformat(timespec="seconds")
            text = report_text(ending, when, self._machine(), self._paths.log, Path.home())
            try:
                path = self._reports.save(text)
            except OSError as error:
                raise AppError(f"a report cannot be written: {error.strerror}") from None
            if left is not None:
                shutil.rmtree(left, ignore_errors=True)
            return path

        def show(path: Path) -> None:
            self._shown = path
            self.banner.set_tone("muted" if ending.may_be_wanted else "notice")
            self.banner.say(words.BANNER.format(what=ending.what), words.SHOW)

        self._background.ask(write, show, lambda problem: log.warning("%s", problem))

    @Slot()
    def restart(self) -> None:
        """Close, and start again."""
        self._session.wants_restart = True
        self.restart_wanted.emit()

    @Slot()
    def _delete(self) -> None:
        if self._shown is not None:
            self._shown.unlink(missing_ok=True)
            self._shown = None
        self.banner.say("")


def machine_lines() -> list[str]:
    """System, chip, memory and Python, as `mlxr doctor` says them."""
    from app.cli.machine_checks import check_system

    return [f"{finding.what}: {finding.is_}" for finding in check_system()]
