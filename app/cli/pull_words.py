"""What `mlxr pull` shows while it works, and the lines it ends with."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable

from app.amounts import counted, duration, size
from app.cli.terminal import Terminal
from app.downloads.events import DownloadEvent, Finished, Prepared, Progress, Queued, Retrying, Verifying
from app.downloads.wanted import MAIN, Wanted

LINE_EVERY = 10.0
"""Seconds between two lines of progress where no line can be replaced."""


class PullWords:
    """Progress on a terminal in place; elsewhere a line now and then."""

    def __init__(self, terminal: Terminal, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal = terminal
        self._clock = clock
        self._line_at = clock() + LINE_EVERY

    def tell(self, event: DownloadEvent, wanted: Wanted) -> None:
        """Show an event that does not end the download."""
        if isinstance(event, Queued):
            self._terminal.progress(f"{wanted.title}: asking what there is")
        elif isinstance(event, Prepared):
            self._terminal.say(f"{wanted.title}: {_prepared(event)}")
        elif isinstance(event, Progress):
            self._progress(progress_words(event), wanted)
        elif isinstance(event, Retrying):
            self._terminal.say(_retrying(event))
        elif isinstance(event, Verifying):
            self._terminal.progress(f"verifying {event.file}")

    def _progress(self, words: str, wanted: Wanted) -> None:
        self._terminal.progress(words)  # the line above it names the model
        if not self._terminal.interactive and self._clock() >= self._line_at:
            self._line_at = self._clock() + LINE_EVERY
            self._terminal.say(f"{wanted.title}: {words}")


def progress_words(event: Progress) -> str:
    """ "1.2 GB of 15.0 GB, 30.1 MB/s, 7 min 40 s left"."""
    words = f"{size(event.done)} of {size(event.total)}"
    if event.rate:
        words += f", {size(event.rate)}/s"
    if event.seconds_left is not None:
        words += f", {duration(event.seconds_left)} left"
    return words


def result_lines(event: Finished, wanted: Wanted) -> list[str]:
    """What is there now, for people."""
    count = len(event.plan.files)
    files = counted(count, "file")
    fetched = "" if event.fetched == event.plan.size else f" ({size(event.fetched)} fetched now)"
    lines = [f"{wanted.title}: {files}, {size(event.plan.size)}{fetched}, verified, in {event.path}"]
    if not wanted.file or event.path.suffix == ".gguf":
        lines.append(f"chat with it: mlxr chat --model {shlex.quote(_model(event, wanted))}")
    return lines


def _model(event: Finished, wanted: Wanted) -> str:
    """The shortest that `--model` takes for it."""
    if wanted.file or wanted.revision != MAIN:
        return str(event.path)
    return f"{wanted.repo}:{event.plan.choice}" if event.plan.choice else wanted.repo


def _prepared(event: Prepared) -> str:
    count = len(event.plan.files)
    words = f"{f'{event.choice}, ' if event.choice else ''}{counted(count, 'file')}"
    words += f", {size(event.plan.size)}, commit {event.plan.commit[:7]}"
    return f"{words}; {size(event.done)} are there already" if event.done else words


def _retrying(event: Retrying) -> str:
    words = f"{event.file}: {event.why}" if event.file else event.why
    return f"{words}; trying again in {event.seconds:.1f} s" if event.seconds else words
