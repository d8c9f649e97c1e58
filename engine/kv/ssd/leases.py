"""Chats that end with a process, however that ends: what nobody could forget any more, the next start does.

Files that hold nothing, and say all by their names, as notes do (engine/kv/ssd/notes.py):

    FOLDER/DIGEST.lease         such a chat; locked while its process lives
    FOLDER/.DIGEST.lease.tmp    the same until it is locked
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
from pathlib import Path

from engine.kv.ssd.notes import Notes, digest_of

log = logging.getLogger(__name__)

_LEASE = re.compile(r"([0-9a-f]{32})\.lease|\.[0-9a-f]{32}\.lease\.tmp")
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600


def is_lease(name: str) -> bool:
    """Whether a file of that name is a lease."""
    return _LEASE.fullmatch(name) is not None


def lease_path(root: Path, digest: str) -> Path:
    """The lease of a chat."""
    return root / f"{digest}.lease"


class ChatLeases:
    """Chats of this process that nobody goes on with after it, in the SSD cache's folder.

    A lease goes when the chat is forgotten. Where it is not, the lock ends with the process, and who opens
    the folder next forgets the chat.
    """

    def __init__(self, folder: Path | None) -> None:
        """`folder`: that of the cache; None where there is none."""
        self._folder = folder
        self._locked: dict[str, int] = {}  # chats' files

    def take(self, chat: str) -> None:
        """From now on `chat` ends with this process. Where that cannot be written down, the log says so."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            self._locked[chat] = _locked(lease_path(self._folder, digest_of(chat)))
        except OSError as error:
            log.warning(
                "if this process is killed, pages of its chat stay in %s: %s", self._folder, error.strerror
            )

    def give_back(self, chat: str) -> None:
        """`chat` is forgotten from now on, by this process or by who opens the folder next."""
        if (file := self._locked.pop(chat, None)) is not None:
            os.close(file)

    def close(self) -> None:
        """The process is about to end: let go of the locks."""
        for chat in list(self._locked):
            self.give_back(chat)


def end_leases(root: Path) -> None:
    """Chats whose processes have ended count as deleted from now on. Needs no lock."""
    try:
        leases = [path for path in root.iterdir() if is_lease(path.name)]
    except OSError:
        return
    for path in leases:
        try:
            _end(path)
        except OSError:
            continue  # its process lives, or another one has just done this


def _locked(path: Path) -> int:
    """Make the file `path`, which nobody ever sees without its lock. Raises OSError."""
    temporary = path.with_name(f".{path.name}.tmp")
    while True:
        file = os.open(temporary, os.O_RDWR | os.O_CREAT, _FILE_MODE)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            temporary.rename(path)
        except FileNotFoundError:  # taken for a leftover before it was locked
            os.close(file)
        except BaseException:
            os.close(file)
            raise
        else:
            return file


def _end(path: Path) -> None:
    file = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = _LEASE.fullmatch(path.name)
        assert found is not None
        if found[1]:
            path.rename(Notes(path.parent).path_of(found[1]))
        else:
            path.unlink()  # of a process that died before it had a chat
    finally:
        os.close(file)
