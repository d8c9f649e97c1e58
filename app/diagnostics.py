"""The text to paste into a bug report: what `mlxr doctor` finds, and what the log said last."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from app.log_reader import Entry, entries
from app.log_secrets import without_secrets

MOST_ENTRIES = 20
MOST_TRACE_LINES = 12


def diagnostics(report: Iterable[str], log: Path, user_home: Path) -> str:
    """Markdown without secrets, in which the user's folder, and so the user's name, is `~`.

    `report`: lines of the machine's and the app's state; `log`: the newest log file.
    """
    try:
        told = [_told(entry) for entry in islice(entries(log, "warning"), MOST_ENTRIES)]
    except OSError as error:
        told = [f"the log cannot be read: {error.strerror}"]
    text = "\n".join(
        ["## MLXR", "```", *report, "```", "## The log, newest first", "```", *(told or ["nothing"]), "```"]
    )
    return without_secrets(text).replace(str(user_home), "~") + "\n"


def _told(entry: Entry) -> str:
    """An entry with the end of its traceback, where the cause stands."""
    trace = entry.trace.splitlines()[-MOST_TRACE_LINES:]
    head = f"{entry.time} {entry.level} {entry.part}: {entry.words}".strip()
    return "\n".join([head, *(f"    {line}" for line in trace)]).replace("```", "'''")
