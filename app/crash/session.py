"""A run of the window: what it leaves behind should it not end as it should, and how the last one ended."""

from __future__ import annotations

import faulthandler
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from app import VERSION
from app.crash.boot import boot_id, memory_kills
from app.crash.inquest import (
    CLOSING,
    DONE,
    EXCEPTION,
    FAILURE,
    MARKER,
    NOTES,
    OUTPUT,
    SIGNALS,
    STACKS,
    Ending,
    Inquest,
    inquire,
)
from app.crash.last_words import LastWords, read_last_words
from app.crash.marker import Marker, write_marker
from app.crash.stacks import threads, told
from app.errors import AppError

log = logging.getLogger(__name__)

RUNNING, LEFT = "running", "left-"
MOST_LEFT = 5
MOST_OUTPUT = 1_000_000
PARTS = ("mlx", "PySide6-Essentials")
END_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class Session:
    """The run of this process, for a `with` block; only for who holds the claim of the data folder.

    Attributes:
        early_crashes: runs in a row before this one that crashed soon after their start.
        left: how the last run ended and the folder of what it left, where that was a crash.
        is_safe_asked: whether safe mode was asked for on the command line.
        wants_restart: whether MLXR is to be started anew when this run has ended.
    """

    def __init__(self, folder: Path, *, is_safe_asked: bool = False) -> None:
        """`folder`: that of crashes. Where it cannot be written nothing is kept, and the log says so."""
        self._folder, self._here = folder, folder / RUNNING
        self._marker = Marker()
        self._words: LastWords | None = None
        self._keeps_output = False
        self._stacks: int | None = None  # never closed: the interpreter's own end may crash still
        self.early_crashes = 0
        self.left: tuple[Ending, Path] | None = None
        self.is_safe_asked, self.wants_restart = is_safe_asked, False
        try:
            self._begin()
        except OSError as error:
            log.warning("a crash of this run would leave no report: %s", error)

    def __enter__(self) -> Self:
        """Watch over this process from here on: for its main thread."""
        self.ask_to_end(self._end_at_once)  # until there is a window to close
        if self._stacks is not None:
            self._watch(self._stacks)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, AppError | KeyboardInterrupt | SystemExit):
            self.end()
            return
        with suppress(OSError):
            (self._here / FAILURE).write_text(told(error), "utf-8")
        self._mark(ending=EXCEPTION)

    @property
    def is_kept(self) -> bool:
        """Whether a crash would leave something behind."""
        return self._stacks is not None

    @property
    def safe(self) -> str:
        """Why this run is in safe mode, "" where it is not."""
        return self._marker.safe

    @property
    def is_calm(self) -> bool:
        """Whether it has lasted for some time."""
        return self._marker.is_calm

    def trim_output(self) -> None:
        """What was printed and is kept does not grow without end."""
        if self._keeps_output and os.fstat(2).st_size > MOST_OUTPUT:
            os.ftruncate(2, 0)

    def be_safe(self, why: str) -> None:
        """This run is in safe mode, or "": it is not."""
        self._mark(safe=why)

    def calm(self) -> None:
        """It has lasted for some time: whatever comes, its start was good."""
        self._mark(is_calm=True)

    def close(self) -> None:
        """It is wanted to end, and begins to."""
        self._mark(ending=CLOSING)

    def note(self, doing: Mapping[str, Any]) -> None:
        """Keep what the engine does now, as plain values."""
        if self._words is not None:
            self._words.note(doing)

    def end(self) -> None:
        """It has ended as it should."""
        self._mark(ending=DONE)

    def failure(self, what: str, error: BaseException) -> Ending:
        """What to report of a part that broke, with the run going on; for any thread."""
        stacks = f"{told(error)}\n\n{threads()}"
        return Ending("failure", what, self._marker, stacks, read_last_words(self._here / NOTES))

    def ask_to_end(self, quit_: Callable[[], None]) -> None:
        """Call `quit_` when the system or somebody in a terminal wants this process to end."""
        for number in END_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda *_: quit_())

    def _end_at_once(self) -> NoReturn:
        """Without an exception: libraries that are being loaded, and Qt, take one for a fault of theirs."""
        self.end()
        os._exit(0)

    def _begin(self) -> None:
        kills = memory_kills()
        inquest = self._look_back(kills)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._here.mkdir(mode=0o700, exist_ok=True)
        self.early_crashes = inquest.early_crashes
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._marker = Marker(
            VERSION, _parts(), os.getpid(), now, boot_id(), kills, early_crashes=inquest.early_crashes
        )
        self._words = LastWords(self._here / NOTES)
        self._stacks = _new_file(self._here / STACKS)
        write_marker(self._here / MARKER, self._marker)

    def _look_back(self, kills: int | None) -> Inquest:
        """Put aside what the last run left; that of a crash stays for its report."""
        if not self._here.exists():
            return Inquest(None, 0)
        aside = self._folder / f"{LEFT}{time.time_ns()}"
        self._here.replace(aside)
        inquest = inquire(aside, boot_id(), kills)
        if inquest.ending is None:
            shutil.rmtree(aside, ignore_errors=True)
        else:
            self.left = inquest.ending, aside
        for old in sorted(self._folder.glob(f"{LEFT}*"))[:-MOST_LEFT]:
            shutil.rmtree(old, ignore_errors=True)
        return inquest

    def _watch(self, stacks: int) -> None:
        faulthandler.enable(stacks, all_threads=True)
        if hasattr(signal, "SIGTRAP"):  # what Apple's own libraries end with
            faulthandler.register(signal.SIGTRAP, stacks, all_threads=True, chain=True)
        # Noted by the handler in C: also while the main thread is stuck, and Python's own handlers wait.
        signal.set_wakeup_fd(_new_file(self._here / SIGNALS, os.O_NONBLOCK), warn_on_full_buffer=False)
        self._keep_output()

    def _keep_output(self) -> None:
        """Where nobody reads what C++ says when it ends the process, as in an app of the Finder, keep it."""
        try:
            is_read = not os.path.samestat(os.fstat(2), Path(os.devnull).stat())
        except OSError:  # closed
            is_read = False
        if not is_read:
            os.dup2(_new_file(self._here / OUTPUT, os.O_APPEND), 2)
            self._keeps_output = True

    def _mark(self, **changes: Any) -> None:
        self._marker = replace(self._marker, **changes)
        if self.is_kept:
            try:
                write_marker(self._here / MARKER, self._marker)
            except OSError as error:
                log.warning("how this run ends cannot be kept: %s", error)


def _new_file(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | flags, 0o600)


def _parts() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for name in PARTS:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
