"""The SSD cache's folder: names, the lock between processes, atomic writes, the ledger of writes.

    FOLDER/lock                         held while files are written or old ones make room
    FOLDER/ledger.json                  bytes written per day, and a mark that changes with every write
    FOLDER/DIGEST.forgotten             a chat that was deleted (engine/kv/ssd/notes.py)
    FOLDER/DIGEST.lease                 a chat that ends with its process (engine/kv/ssd/leases.py)
    FOLDER/IDENTITY/KEY.safetensors     a run of pages, named by the key of its last page
    FOLDER/IDENTITY/.KEY.tmp            the same while it is written; without the lock's holder, a leftover

Pages hold the ids of chats: folders and files are their owner's alone, whatever the umask.

Whatever else lies there is not ours: it is neither read, counted nor removed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

from engine.kv.ssd.leases import end_leases, is_lease
from engine.kv.ssd.notes import Notes, is_note

log = logging.getLogger(__name__)

SUFFIX = ".safetensors"
DAY_S = 86_400

_IDENTITY = re.compile(r"[0-9a-f]{32}")
_FILE = re.compile(r"[0-9a-f]{32}\.safetensors")
_LEFTOVER = re.compile(r"\.[0-9a-f]{32}\.tmp")
_LOCK, _LEDGER = "lock", "ledger.json"
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
_OTHERS = 0o077
_LOCK_S = 2.0
_KEPT_DAYS = 32


class FolderBusy(Exception):
    """Another process has held the folder's lock for too long."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A page file as the folder lists it: its size in bytes and when it was last used, in ns since 1970."""

    path: Path
    size: int
    used_ns: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """What every process that writes to the folder knows.

    Attributes:
        mark: another one after every change of the folder's files.
        written: bytes by day, counted in days since 1970 (UTC).
        total: bytes of all page files; None where an older version has written the ledger.
    """

    mark: str = ""
    written: Mapping[int, int] = field(default_factory=dict[int, int])
    total: int | None = None

    def add(self, day: int, size: int, total: int) -> Ledger:
        """With `size` more bytes on `day`, `total` in all, and a new mark; the latest 32 days are kept."""
        written = {**self.written, day: self.written.get(day, 0) + size}
        kept = {day, *sorted(written, reverse=True)[:_KEPT_DAYS]}
        return Ledger(_mark(), {day: written[day] for day in kept}, total)

    def of(self, total: int) -> Ledger:
        """With `total` bytes in all, and a new mark."""
        return Ledger(_mark(), self.written, total)


class DiskUsage(Protocol):
    """Space of a disk, as shutil.disk_usage tells it."""

    @property
    def free(self) -> int:
        """Bytes that may still be written."""
        ...


class SsdFolder:
    """One folder that several models and processes share; every method but `scan` may raise OSError.

    Attributes:
        root: the folder.
        home: the part of it that holds one model's pages.
        notes: of deleted chats.
        is_made: whether the folder was there since this is.
    """

    def __init__(
        self, root: Path, identity: str, disk_usage: Callable[[Path], DiskUsage], floor_bytes: int = 0
    ) -> None:
        """`floor_bytes`: what is to stay free of its disk."""
        self._floor_bytes = floor_bytes
        self.root = root
        self.home = root / identity
        self.notes = Notes(root)
        self._disk_usage = disk_usage
        self.is_made = False

    def path_of(self, key: bytes) -> Path:
        """The file of the run that ends with page `key`."""
        return self.home / f"{key.hex()}{SUFFIX}"

    def beside(self, path: Path, key: bytes) -> Path:
        """The file of the run that ends with page `key`, of the same model as that at `path`."""
        return path.with_name(f"{key.hex()}{SUFFIX}")

    def free_bytes(self) -> int:
        """Bytes that the folder's disk can still take."""
        return self._disk_usage(self.root).free

    def is_above_floor(self, size: int) -> bool:
        """Whether what is to stay free does, beside `size` bytes more."""
        return self.free_bytes() - size >= self._floor_bytes

    def make(self) -> None:
        """Make the folder where it is not there; what older versions left open to others is closed.

        Once: a folder that was taken away then stays away.
        """
        if self.is_made:
            return
        self.root.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        ours = [entry for entry in _entries(self.root) if _is_ours(entry)]
        if ours and len(ours) == len(_entries(self.root)):  # not one with other things in it
            _close_to_others(self.root.resolve())
        for entry in ours:
            _close_to_others(Path(entry.path))
        for folder in self._identities():
            for entry in _entries(folder):
                if _FILE.fullmatch(entry.name):
                    _close_to_others(Path(entry.path))
        self.is_made = True

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the lock that writers of all processes share. Raises FolderBusy after two seconds."""
        lock = os.open(self.root / _LOCK, os.O_RDWR | os.O_CREAT, _FILE_MODE)
        try:
            _wait_for(lock, _LOCK_S)
            yield
        finally:
            os.close(lock)  # lets go of the lock too, as the end of the process does

    def scan(self) -> list[FoundFile]:
        """Every page file, of every model. What cannot be listed is not there."""
        return [found for folder in self._identities() for found in _page_files(folder)]

    def end_leases(self) -> None:
        """Chats whose processes have ended count as deleted from now on; needs no lock."""
        end_leases(self.root)

    def remove_leftovers(self) -> None:
        """Remove what writers that are gone have left; only for the holder of the lock."""
        for folder in self._identities():
            for entry in _entries(folder):
                if _LEFTOVER.fullmatch(entry.name):
                    remove(Path(entry.path))

    def clear(self) -> None:
        """Remove all page files, leftovers, notes and the ledger; only for the holder of the lock."""
        self.remove_leftovers()
        for found in self.scan():
            found.path.unlink(missing_ok=True)
        for folder in self._identities():
            with suppress(OSError):  # what else is in it is not ours
                folder.rmdir()
        self.notes.remove(self.notes.read())
        (self.root / _LEDGER).unlink(missing_ok=True)

    def write(self, path: Path, buffers: Sequence[memoryview]) -> None:
        """Write the file whole or not at all. Removes what it began when that fails."""
        # Not its parents: a folder that was taken away stays away.
        path.parent.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        _replace(path, path.with_name(f".{path.stem}.tmp"), buffers, is_durable=True)

    def read_ledger(self) -> Ledger:
        """The ledger; a missing or damaged one is empty: it counts, nothing depends on it."""
        try:
            handle = os.open(self.root / _LEDGER, os.O_RDONLY | os.O_NONBLOCK)  # for a pipe nobody waits
            with os.fdopen(handle, "rb") as file:
                found = cast("object", json.loads(file.read()))
        except (OSError, ValueError, RecursionError):  # the last: of one that is nested without end
            return Ledger()
        if not isinstance(found, dict):
            return Ledger()
        entries = cast("dict[str, object]", found)
        mark, written, total = entries.get("mark"), entries.get("written"), entries.get("total")
        if not isinstance(mark, str) or not isinstance(written, dict):
            return Ledger()
        days = cast("dict[str, object]", written)
        return Ledger(
            mark,
            {int(d): n for d, n in days.items() if isinstance(n, int) and re.fullmatch(r"-?\d{1,9}", d)},
            total if isinstance(total, int) else None,
        )

    def write_ledger(self, ledger: Ledger) -> None:
        """Replace the ledger; only for the holder of the lock. A power cut may lose it, a crash does not."""
        said = {"mark": ledger.mark, "written": ledger.written, "total": ledger.total}
        text = json.dumps(said).encode()
        temporary = self.root / f".{_LEDGER}.tmp"
        _replace(self.root / _LEDGER, temporary, [memoryview(text)], is_durable=False)

    def _identities(self) -> list[Path]:
        return [Path(entry.path) for entry in _entries(self.root) if _IDENTITY.fullmatch(entry.name)]


def _mark() -> str:
    return os.urandom(8).hex()


def remove(path: Path) -> None:
    """Remove a file; one that is gone, or cannot be removed, is left to what it is."""
    try:
        path.unlink()
    except OSError:
        return


def _replace(path: Path, temporary: Path, buffers: Sequence[memoryview], *, is_durable: bool) -> None:
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
        with os.fdopen(handle, "wb", buffering=0) as file:
            for buffer in buffers:
                while buffer:
                    buffer = buffer[file.write(buffer) :]
            if is_durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        remove(temporary)
        raise


def _is_ours(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    return name in (_LOCK, _LEDGER) or bool(_IDENTITY.fullmatch(name)) or is_note(name) or is_lease(name)


def _close_to_others(path: Path) -> None:
    """Take from everybody but its owner what they may do with `path`; a link is not followed."""
    try:
        mode = path.lstat().st_mode
        if mode & _OTHERS and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except FileNotFoundError:
        return  # another process has removed it
    except OSError as error:
        if error.errno == errno.EROFS:
            return  # what wants to write there says so
        log.warning("%s stays open to other accounts: %s", path, error.strerror)


def _wait_for(lock: int, seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise FolderBusy from None
            time.sleep(0.005)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _page_files(folder: Path) -> Iterator[FoundFile]:
    for entry in _entries(folder):
        try:
            if not _FILE.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            about = entry.stat(follow_symlinks=False)
        except OSError:
            continue  # another process has removed it
        yield FoundFile(Path(entry.path), about.st_size, about.st_mtime_ns)
