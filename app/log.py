"""The log file: warnings and tracebacks of every part, in the data folder, small and for bug reports only."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

MAX_BYTES = 1_000_000
KEPT_FILES = 2


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
    """Send warnings and errors of the whole process to `path`, rotated at MAX_BYTES."""
    handler = _QuietFile(path, maxBytes=MAX_BYTES, backupCount=KEPT_FILES, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
