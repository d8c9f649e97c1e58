"""What `mlxr doctor` says of crashes and of safe mode."""

from __future__ import annotations

import os
from pathlib import Path

from app.cli.findings import Finding
from app.crash.boot import boot_id, memory_kills
from app.crash.crash_words import SAFE_CRASHES
from app.crash.inquest import MARKER, inquire
from app.crash.marker import read_marker
from app.crash.reports import Reports
from app.crash.safe_mode import CRASHES
from app.crash.session import RUNNING

_AREA = "Window"


def check_crashes(folder: Path) -> list[Finding]:
    """How the last run ended, the newest report, and whether a start is in safe mode; nothing is changed.

    `folder`: that of crashes.
    """
    findings: list[Finding] = []
    here = folder / RUNNING
    marker = read_marker(here / MARKER)
    if marker is not None and _is_alive(marker.pid):
        if marker.safe:
            advice = "end MLXR and start it again to leave it"
            findings.append(Finding(_AREA, "safe mode", f"on, since {marker.safe}", "note", advice))
    elif marker is not None:
        found = inquire(here, boot_id(), memory_kills())
        if found.ending is not None:
            advice = "the next start writes a report and shows it"
            findings.append(Finding(_AREA, "last run", found.ending.what, "note", advice))
        if found.early_crashes >= CRASHES:
            why = SAFE_CRASHES.format(count=found.early_crashes)
            findings.append(Finding(_AREA, "safe mode", f"at the next start, since {why}", "note"))
    if reports := Reports(folder).all():
        kept = f"{len(reports)} {'report' if len(reports) == 1 else 'reports'}, the newest {reports[0]}"
        findings.append(Finding(_AREA, "crashes", kept))
    return findings


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return pid > 0
