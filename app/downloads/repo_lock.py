"""One MLXR at a time writes into a repository's folder of the cache."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from app.errors import DownloadFailed


@contextmanager
def repo_lock(path: Path, repo: str) -> Generator[None]:
    """Hold the lock file `path`; a process that dies lets go of it.

    Raises DownloadFailed when another MLXR holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DownloadFailed(
                f"another MLXR is downloading {repo} right now; let it finish, or pause it there",
                is_resumable=True,
            ) from None
        yield
    finally:
        os.close(handle)
