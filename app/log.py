"""The log: warnings and tracebacks of every part as lines of JSON, in the data folder, without secrets."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from app.errors import UsageError
from app.log_secrets import without_secrets

MAX_BYTES = 1_000_000
KEPT_FILES = 2
LEVEL_VARIABLE = "MLXR_LOG"
LEVELS = ("debug", "info", "warning", "error")
OURS = ("app", "engine", "metal")
"""Parts whose level may be chosen; others are heard from warnings on: they tell of every request."""


class _Lines(logging.Formatter):
    """One line of JSON a record; `log_reader.Entry` says what is in it."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        trace = self.formatException(record.exc_info) if record.exc_info else record.exc_text or ""
        return json.dumps(
            {
                "time": at.isoformat(timespec="milliseconds"),
                "level": record.levelname.lower(),
                "part": record.name,
                "process": record.process,
                "thread": record.threadName,
                "words": without_secrets(record.getMessage()),
                **({"trace": without_secrets(trace)} if trace else {}),
            },
            ensure_ascii=False,
        )


class _QuietFile(RotatingFileHandler):
    """Opens its file when there is something to write, and gives up in silence on a disk that refuses."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
            super().emit(record)
        except OSError:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's name
        """Nothing: a log that cannot be written must not disturb what it is about."""


def start_logging(path: Path) -> None:
    """Send what the whole process logs to `path`, rotated at MAX_BYTES: warnings and errors.

    Our own parts also tell less grave things where $MLXR_LOG is a lower level. Raises UsageError for one that
    is none.
    """
    level = os.environ.get(LEVEL_VARIABLE) or "warning"
    if level not in LEVELS:
        raise UsageError(f"{LEVEL_VARIABLE} is {level!r}; it must be one of {', '.join(LEVELS)}")
    handler = _QuietFile(path, maxBytes=MAX_BYTES, backupCount=KEPT_FILES, encoding="utf-8", delay=True)
    handler.setFormatter(_Lines())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())


def append(path: Path, words: str, trace: str) -> None:
    """Write one error to the log at once. Raises OSError where it cannot be."""
    record = logging.LogRecord("app", logging.ERROR, "", 0, words, None, None)
    record.exc_text = trace
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(_Lines().format(record) + "\n")
