"""What the terminal shows: answers on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TextIO

from app.cli.columns import cropped
from app.errors import AppError

_DIM, _PLAIN, _ERASE_LINE = "\x1b[2m", "\x1b[0m", "\r\x1b[K"


class _Harmless(dict[int, str | None]):
    """A str.translate table that drops control characters, which could drive a terminal; \\n and \\t stay."""

    def __missing__(self, code: int) -> str | None:
        keep = chr(code) in "\n\t" or unicodedata.category(chr(code)) != "Cc"
        self[code] = chr(code) if keep else None
        return self[code]


_HARMLESS = _Harmless()


def harmless(text: str) -> str:
    """`text` without control characters other than line breaks and tabs."""
    return text.translate(_HARMLESS)


def one_line(text: str) -> str:
    """`text` fit for one line of a terminal: white space runs become a blank, control characters go."""
    return harmless(" ".join(text.split()))


class Terminal:
    """Standard output and standard error as one screen.

    Answers to a file or a pipe are written exactly. On a terminal they lose control characters, and a
    progress line on standard error gives way to whatever comes next.

    Attributes:
        interactive: whether a person reads standard error (progress and notes are shown).
    """

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        environ: Mapping[str, str] | None = None,
        *,
        keeps_progress: bool = False,
    ) -> None:
        """`keeps_progress`: each progress is a line of its own, also where no person reads."""
        self._keeps_progress = keeps_progress
        environ = os.environ if environ is None else environ
        self._out, self._err = out, err
        self._out_is_terminal = out.isatty()
        self.interactive = err.isatty()
        able = self.interactive and environ.get("TERM", "dumb") != "dumb"
        self._erases = able
        self._colours = able and not environ.get("NO_COLOR")
        self._progress = False
        self._at_line_start = True

    def answer(self, text: str) -> None:
        """Write a piece of an answer at once. Raises AppError when it cannot be written."""
        self._clear()
        if self._out_is_terminal:
            text = harmless(text)
        if text:
            self._at_line_start = text.endswith("\n")
            self._write(text)

    def end_answer(self) -> None:
        """Leave the cursor at the start of a line; nothing is added to a file or a pipe."""
        self._clear()
        if self._out_is_terminal and not self._at_line_start:
            self._write("\n")
        self._at_line_start = True

    def progress(self, text: str) -> None:
        """Show a passing line, in place of the last one; only where lines can be erased, or are kept."""
        if self._keeps_progress:
            self._line(one_line(text))
        elif self._erases and self._at_line_start:
            self._err.write(f"{_ERASE_LINE}{self._dimmed(self._fitting(one_line(text)))}")
            self._err.flush()
            self._progress = True

    def note(self, text: str) -> None:
        """A quiet line for a person at a terminal; nothing otherwise."""
        if self.interactive:
            self._line(self._dimmed(one_line(text)))

    def say(self, text: str) -> None:
        """A line that matters also in a log."""
        self._line(one_line(text))

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError:  # nobody reads any more, which is no mistake
            raise
        except OSError as error:
            raise AppError(f"standard output cannot be written: {error.strerror}") from None

    def _line(self, text: str) -> None:
        self._clear()
        self._err.write(text + "\n")
        self._err.flush()

    def _fitting(self, text: str) -> str:
        """As much as one row shows: what wraps cannot be erased again."""
        try:
            columns = os.get_terminal_size(self._err.fileno()).columns
        except (OSError, ValueError):
            return text
        return cropped(text, columns - 1) if columns > 1 else text

    def _dimmed(self, text: str) -> str:
        return f"{_DIM}{text}{_PLAIN}" if self._colours else text

    def _clear(self) -> None:
        if self._progress:
            self._err.write(_ERASE_LINE)
            self._err.flush()
            self._progress = False


@contextmanager
def open_terminal(*, keeps_progress: bool = False) -> Generator[Terminal]:
    """The process's own streams; whatever ends the block, what is written next begins a line."""
    terminal = Terminal(sys.stdout, sys.stderr, keeps_progress=keeps_progress)
    try:
        yield terminal
    finally:
        terminal.end_answer()
