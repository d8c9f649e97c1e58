"""What a report must not hold: secrets, the user's name, and words that may come from a chat."""

from __future__ import annotations

import re
from pathlib import Path

from app.log_secrets import without_secrets

LEFT_OUT = "… (left out: it may quote a chat)"

_PLAIN = frozenset(
    "OSError PermissionError FileNotFoundError FileExistsError NotADirectoryError IsADirectoryError "
    "ConnectionError ConnectionResetError ConnectionRefusedError BrokenPipeError TimeoutError "
    "BlockingIOError InterruptedError ImportError ModuleNotFoundError MemoryError RecursionError "
    "AttributeError NameError UnboundLocalError TypeError IndexError ZeroDivisionError RuntimeError "
    "NotImplementedError KernelError TrialError".split()
)
"""Whose messages are of programs and files: Python's own, MLX's, the system's. What ValueError, KeyError and
the like say may be what somebody has typed."""

_MESSAGE = re.compile(r"\b([A-Z]\w*(?:Error|Exception|Invalid|Warning))\b(?:: | \()(?=\S)")
# engine/requests/failure.py: with the error's message
_BROKE = re.compile(r"(something broke inside the engine) \(")
_CHAINED = (
    "Traceback (most recent call last):",
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)


def without_messages(text: str) -> str:
    """`text`, of one failure, without messages of exceptions that may quote anything.

    Such a message may have many lines: all up to the next traceback go.
    """
    lines: list[str] = []
    is_message = False
    for line in text.splitlines():
        is_message = is_message and line not in _CHAINED
        if is_message:
            continue
        end = _beginning_of_message(line)
        is_message = end is not None
        lines.append(line if end is None else line[:end] + LEFT_OUT)
    return "\n".join(lines)


def fit_to_share(text: str, user_home: Path) -> str:
    """`text` without secrets, and with `~` for the user's folder, which has the user's name."""
    shown, home = without_secrets(text), str(user_home)
    return shown.replace(home, "~") if len(home) > 1 else shown


def _beginning_of_message(line: str) -> int | None:
    if line.endswith(LEFT_OUT):  # it was done before
        return None
    if found := _BROKE.search(line):
        return found.end()
    return next((found.end() for found in _MESSAGE.finditer(line) if found[1] not in _PLAIN), None)
