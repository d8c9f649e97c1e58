"""Text and numbers that people hand to the command line: read, checked, and refused in one line."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from pathlib import Path

from app.errors import AppError, UsageError

STANDARD_INPUT = "-"


def read_text_file(name: str) -> str:
    """The whole text of file `name`, or of standard input for "-". Raises AppError."""
    if name == STANDARD_INPUT:
        return read_standard_input()
    if not name.strip():  # as of a variable that is not set
        raise AppError(f"no file is named; give one, or {STANDARD_INPUT} for standard input")
    try:
        return decoded(Path(name).expanduser().read_bytes(), name)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise AppError(f"{name} cannot be read: {reason}") from None


def read_standard_input() -> str:
    """All of standard input as text. Raises AppError."""
    try:
        return decoded(sys.stdin.buffer.read(), "standard input")
    except OSError as error:
        raise AppError(f"standard input cannot be read: {error.strerror}") from None


def decoded(data: bytes, where: str) -> str:
    """`data` as UTF-8, without the byte-order mark some editors put first. Raises AppError."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise AppError(
            f"{where} is not UTF-8 text (line {line}, byte {error.start}); convert it first"
        ) from None


def checked_argument(text: str | None, name: str) -> str | None:
    """`text` as it came. Raises UsageError when the shell handed over bytes that are not UTF-8."""
    if text is not None:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{name} is not UTF-8 text; check the terminal's encoding") from None
    return text


def positive(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    return _whole(text, 1)


def natural(text: str) -> int:
    """An argparse type: a whole number of at least 0."""
    return _whole(text, 0)


def token_ids(text: str) -> tuple[int, ...]:
    """An argparse type: "1,2,3" as ids."""
    try:
        ids = tuple(int(part) for part in text.split(","))
    except ValueError:
        ids = ()
    if not ids or min(ids) < 0:
        raise ArgumentTypeError(f"{text!r} is not a list of token ids such as 1,2,3")
    return ids


def token_bias(text: str) -> tuple[int, float]:
    """An argparse type: "ID=BIAS"."""
    token, equals, bias = text.partition("=")
    try:
        if equals:
            return int(token), float(bias)
    except ValueError:
        pass
    raise ArgumentTypeError(f"{text!r} is not of the form ID=BIAS, such as 42=-1.5")


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return number
