"""A process of its own that downloads what its standard input names, each in a child that may be killed.

    python -m tests.app.downloads.puller ENDPOINT HOME

For each line with a repository it prints the child's process id, then its exit code: 0 the model is there,
1 the download failed and can go on, 2 it failed for good; the negative signal's number when it was killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from app.downloads.download import Means
from app.downloads.events import END, DownloadEvent, Failed, Finished
from app.downloads.hub import Hub
from app.downloads.journal import Journal
from app.downloads.queue import DownloadQueue
from app.downloads.wanted import Wanted
from tests.app.downloads.stage import HASTY, take_little_ahead

ROOT = Path(__file__).resolve().parents[3]


def main() -> None:
    """Serve standard input. One interpreter loads everything once; its children are forks of it."""
    endpoint, home = sys.argv[1], Path(sys.argv[2])
    take_little_ahead()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(_pull(endpoint, home, line.strip()))
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _pull(endpoint: str, home: Path, repo: str) -> int:
    ends: list[DownloadEvent] = []
    is_over = threading.Event()

    def hear(event: DownloadEvent) -> None:
        if isinstance(event, END):
            ends.append(event)
            is_over.set()

    hub = Hub(endpoint, home / "hub", lambda: None)
    means = Means(hub, HASTY, free=lambda folder: 10**12)
    queue = DownloadQueue(means, Journal(home / "downloads.sqlite3"), hear)
    queue.add(Wanted(repo))
    queue.start()
    is_over.wait()
    if isinstance(ends[0], Finished):
        return 0
    return 1 if isinstance(ends[0], Failed) and ends[0].is_resumable else 2


class Puller:
    """The process above, from outside."""

    def __init__(self, endpoint: str, home: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "0", "HF_HOME": str(home)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.app.downloads.puller", endpoint, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        )

    def begin(self, repo: str) -> int:
        """Start a download; the id of its process."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{repo}\n")
        self._process.stdin.flush()
        return self._number()

    def end(self) -> int:
        """Wait for the exit code of the download."""
        return self._number()

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=20)

    def _number(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


if __name__ == "__main__":
    main()
