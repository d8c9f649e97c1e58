"""What reaches the screen, and what must not."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import termios

import pytest

from app.cli.terminal import Terminal, harmless, one_line, open_terminal

ESCAPES = "\x1b[31mred\x1b]0;title\x07 \x9b2J \x08\x7f\r"


class Stream(io.StringIO):
    """Text that claims to be a terminal, or not."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def terminal(out: bool, err: bool, **environ: str) -> tuple[Terminal, Stream, Stream]:
    streams = Stream(out), Stream(err)
    return Terminal(*streams, environ={"TERM": "xterm", **environ}), *streams


def test_control_characters_go_and_text_stays() -> None:
    assert harmless("a\tb\nö 日本 👩‍👩‍👧 " + ESCAPES) == "a\tb\nö 日本 👩‍👩‍👧 [31mred]0;title 2J "


def test_a_line_is_one_line() -> None:
    assert one_line("  two\nlines\r\n\x1b[2J  here ") == "two lines [2J here"


def test_a_pipe_gets_every_character_of_an_answer() -> None:
    screen, out, err = terminal(out=False, err=True)
    screen.answer(ESCAPES)
    screen.end_answer()
    assert out.getvalue() == ESCAPES
    assert err.getvalue() == ""


def test_a_terminal_gets_a_line_end_when_the_answer_has_none() -> None:
    screen, out, _ = terminal(out=True, err=True)
    for text in ("one", "\ntwo", ESCAPES[:5]):
        screen.answer(text)
    screen.end_answer()
    screen.answer("three\n")
    screen.end_answer()
    assert out.getvalue() == "one\ntwo[31m\nthree\n"


def test_progress_gives_way_to_the_answer() -> None:
    screen, out, err = terminal(out=True, err=True)
    screen.progress("10%")
    screen.progress("20%")
    screen.answer("hello")
    assert out.getvalue() == "hello"
    assert err.getvalue().endswith("\r\x1b[K")
    screen.progress("in the middle of a line")
    assert "middle" not in err.getvalue()


@pytest.mark.parametrize(
    ("err", "environ", "shown"),
    [(False, {}, ""), (True, {"TERM": "dumb"}, "a note\n"), (True, {"NO_COLOR": "1"}, "a note\n")],
)
def test_logs_and_plain_terminals_get_no_escape_sequences(
    err: bool, environ: dict[str, str], shown: str
) -> None:
    screen, _, stream = terminal(out=True, err=err, **environ)
    if not environ.get("NO_COLOR"):
        screen.progress("10%")
    screen.note("a note")
    assert stream.getvalue() == shown


def test_what_matters_is_said_also_in_a_log() -> None:
    screen, _, err = terminal(out=True, err=False)
    screen.say("a\nline\x1b[2J")
    assert err.getvalue() == "a line[2J\n"


def test_a_passing_line_is_one_row_of_a_narrow_terminal() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
    with os.fdopen(theirs, "w") as err, os.fdopen(ours, "rb", buffering=0) as screen:
        Terminal(Stream(True), err, environ={"TERM": "xterm", "NO_COLOR": "1"}).progress(
            "日本 and 40 letters more"
        )
        assert screen.read(100).decode() == "\r\x1b[K日本 and 40 letter…"  # 19 places


def test_whatever_ends_the_run_leaves_the_cursor_at_the_start_of_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, err = Stream(True), Stream(True)
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")

    def fail(error: type[BaseException], answer: str) -> None:
        with open_terminal() as screen:
            screen.answer(answer)
            if not answer:
                screen.progress("reading")
            raise error

    with pytest.raises(KeyboardInterrupt):
        fail(KeyboardInterrupt, "")
    assert err.getvalue() == "\r\x1b[Kreading\r\x1b[K"
    with pytest.raises(EOFError):
        fail(EOFError, "half an answ")
    assert out.getvalue() == "half an answ\n"


def test_progress_that_is_kept_is_a_line_each_also_in_a_pipe() -> None:
    out, err = Stream(False), Stream(False)
    shown = Terminal(out, err, environ={}, keeps_progress=True)
    shown.progress("one\nof two")
    shown.progress("two of two")
    shown.answer("done")
    assert (out.getvalue(), err.getvalue()) == ("done", "one of two\ntwo of two\n")
