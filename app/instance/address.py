"""Where the local socket lies: in the data folder, or for a long path in a folder of this account's own."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from pathlib import Path

LONGEST = 103
"""Bytes of a socket's path: macOS has room for 104 (`sun_path`), the closing zero included; Linux for 108."""
_SHORT = Path("/tmp")  # neither TMPDIR nor XDG_RUNTIME_DIR: the app and a terminal may have different ones


def socket_path(home: Path) -> Path:
    """The socket of the app whose data is in `home`; the folder it lies in may not be there."""
    path = home / "mlxr.sock"
    if len(os.fsencode(path)) <= LONGEST:
        return path
    name = hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:16]
    return _short_folder() / f"{name}.sock"


def check_folder(folder: Path) -> None:
    """Make sure that nobody else can have put a socket into /tmp/mlxr-UID: anybody may make that.

    A data folder is not looked at, whoever may write there: who may could put other chats there, too.

    Raises OSError; PermissionError where somebody else made it, or others may write into it.
    """
    if folder != _short_folder():
        return
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} is not this account's alone; remove it")


def _short_folder() -> Path:
    return _SHORT / f"mlxr-{os.getuid()}"


class Claim:
    """The lock of the data folder `home`: the process that holds it is its app, and serves its socket.

    One that dies lets go of it. Used by one thread at a time.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / "mlxr.lock"
        self._handle: int | None = None

    def take(self) -> bool:
        """Whether it is held now; False when another holds it. Raises OSError when there can be no file."""
        if self._handle is not None:
            return True
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        except OSError:
            os.close(handle)
            raise
        self._handle = handle
        return True

    def release(self) -> None:
        """Let go of it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
