"""The folder of reports: the newest few, each a text file that anybody may read, copy and delete."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

MOST_REPORTS = 10
MOST_BYTES = 200_000
PREFIX, SUFFIX = "report-", ".md"


class Reports:
    """Reports in `folder`; at most MOST_REPORTS, of MOST_BYTES each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, text: str) -> Path:
        """Keep a report, and let the oldest go. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
        path = self._folder / f"{PREFIX}{stamp}{SUFFIX}"
        data = text.encode("utf-8", "replace")
        if len(data) > MOST_BYTES:
            data = data[:MOST_BYTES].decode("utf-8", "ignore").encode() + "\n… (cut)\n".encode()
        path.write_bytes(data)
        path.chmod(0o600)
        for old in self.all()[MOST_REPORTS:]:
            old.unlink(missing_ok=True)
        return path

    def all(self) -> list[Path]:
        """The reports' files, the newest first."""
        return sorted(self._folder.glob(f"{PREFIX}*{SUFFIX}"), reverse=True)
