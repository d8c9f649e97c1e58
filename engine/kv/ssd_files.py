"""The files of the SSD cache that are there: found, read, written and removed within cap and floor."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from engine.kv.page_data import PageMemory
from engine.kv.page_file import EncodedRun, fetch, read_header, write_chats
from engine.kv.page_header import CacheIdentity, DamagedFile, PageHeader
from engine.kv.page_reader import OtherPages, Wanted, read_run
from engine.kv.ssd_folder import DAY_S, DiskUsage, FolderBusy, FoundFile, Ledger, SsdFolder, remove
from engine.kv.ssd_index import ChatBytes, Place, SsdIndex, StoredFile
from engine.kv.ssd_settings import SsdSettings

log = logging.getLogger(__name__)


class SsdFiles:
    """The folder and its index, kept true to each other. For several threads, but one writer.

    Reading and removing never raise. `open` and `store` may raise OSError: then the folder cannot be written.
    """

    def __init__(
        self,
        settings: SsdSettings,
        identity: CacheIdentity,
        clock: Callable[[], float],
        disk_usage: Callable[[Path], DiskUsage],
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._clock = clock
        self._folder = SsdFolder(settings.folder, identity.digest, disk_usage)
        self._guard = threading.Lock()
        self._index = SsdIndex()
        self._ledger = Ledger()
        self._is_current = False
        self._unsaved: set[Path] = set()
        self.removed_files = 0

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._settings.folder

    @property
    def total_bytes(self) -> int:
        """Bytes of all page files, of every model."""
        with self._guard:
            return self._index.total_bytes

    @property
    def chats(self) -> Mapping[str, ChatBytes]:
        """Bytes of each chat's pages of this model."""
        with self._guard:
            return self._index.chats

    @property
    def written_today(self) -> int:
        """Bytes that all processes have written since midnight UTC, as known at the last write here."""
        return self._ledger.written.get(self._today(), 0)

    def open(self) -> None:
        """Index what is there, remove leftovers, and come down to the cap."""
        try:
            self._folder.make()
            with self._folder.locked():
                self._catch_up(self._folder.read_ledger())
                self._come_down_to(self._settings.cap_bytes)
        except FolderBusy:
            self._rescan()  # the first write catches up
        except OSError:
            self._rescan()
            raise

    def among(self, keys: Iterable[bytes]) -> set[bytes]:
        """Those of the pages `keys` that are in a file."""
        with self._guard:
            return self._index.among(keys)

    def tick(self) -> int:
        """A time later than every one before, in ns since 1970 unless the clock went back."""
        with self._guard:
            return self._index.tick(self._now_ns())

    def may_hold(self, size: int, used_ns: int) -> bool:
        """Whether `size` bytes more are possible, if need be in place of files used before `used_ns`."""
        free = self._folder.free_bytes()
        with self._guard:
            over = self._index.total_bytes + size - self._settings.cap_bytes
            lack = max(over, self._settings.floor_bytes + size - free)
            return self._index.bytes_before(used_ns, lack) >= lack

    def store(self, run: EncodedRun, used_ns: int, is_wanted: Callable[[], bool]) -> bool:
        """Write a run that was used at `used_ns`; False when there is no room for it.

        It gets the room of files that were used before, never that of others, nor of the pages before it.
        Also when it is no longer wanted once it is written; it is never found then. Bytes are counted before
        they are written: a crash counts too many, never too few. Raises OSError, and FolderBusy when another
        process holds the folder.
        """
        size = run.header.size
        with self._folder.locked():
            self._catch_up(self._folder.read_ledger())
            self.touch(run.header.parent, used_ns)
            if not self._make_room(size, used_ns):
                return False
            self._ledger = self._ledger.add(self._today(), size)
            self._folder.write_ledger(self._ledger)
            path = self._folder.path_of(run.header.keys[-1])
            self._folder.write(path, run.buffers)
            with self._guard:
                is_kept = is_wanted()
                if is_kept:
                    self._index.add(self._matched(path, used_ns, run.header))
            if not is_kept:
                self._remove(path)
            self.touch(run.header.keys[-1], used_ns)
        self.save()
        return is_kept

    def place(self, key: bytes) -> Place | None:
        """Where page `key` is."""
        with self._guard:
            return self._index.find(key)

    def read(self, place: Place, ids: bytes, memory: PageMemory) -> bool:
        """Read the pages from `place` on whose ids are `ids` into `memory`, verified.

        False when their file is gone, holds others, or was damaged and is removed; what is in `memory` then
        is nothing to rely on.
        """
        file, path, header = place.file, place.file.path, place.file.header
        assert header is not None  # or it would hold no page that is found
        try:
            read_run(path, self._identity, Wanted(header, place.position, ids, memory))
        except DamagedFile as damage:
            self._discard(path, str(damage))
        except FileNotFoundError:
            self._lose(path)  # removed for the room, here or by another process, since it was looked up
        except OSError as error:
            log.warning("%s cannot be read: %s", path, error.strerror)
            self._lose(path)
        except OtherPages as other:
            self._index_again(other.header, file)
        else:
            return True
        return False

    def fetch(self, keys: Iterable[bytes]) -> None:
        """Let the system read the files with these pages into its own memory, while others work."""
        with self._guard:
            files = {place.file: None for key in keys if (place := self._index.find(key))}
        for file in files:
            fetch(file.path)

    def touch(self, key: bytes, used_ns: int) -> None:
        """The files with page `key` and with those before it were used at `used_ns`, or since."""
        with self._guard:
            place = self._index.find(key)
            used = self._index.use(place.file, used_ns) if place else []
            self._unsaved.update(file.path for file in used)

    def claim(self, keys: Iterable[bytes], chat: str) -> None:
        """The stored pages among `keys` are `chat`'s too."""
        with self._guard:
            self._unsaved.update(file.path for file in self._index.claim(keys, chat))

    def forget_chat(self, chat: str) -> None:
        """Remove every file, of any model, with a page that is only `chat`'s; others are its no longer."""
        with self._guard:
            orphaned, shared = self._index.disown(chat)
            self._unsaved.update(file.path for file in shared)
        for file in orphaned:
            self._remove(file.path)
        self.save()

    def quarantine(self, keys: Iterable[bytes]) -> None:
        """Remove every file that holds one of `keys`, and count it: its pages were wrong."""
        for path in self._paths(keys):
            self._discard(path, "its pages disagree with the model")

    def save(self) -> None:
        """Write down whose the files are, and when they were used, as their times.

        So that the next start counts and drops as this one would. A crash loses what was not saved: no page.
        """
        with self._guard:
            files = [file for path in self._unsaved if (file := self._index.get(path))]
            unsaved = [(file, file.header, tuple(file.chats), file.used_ns) for file in files]
            self._unsaved.clear()
        for file, header, chats, used_ns in unsaved:
            try:
                if header is not None and chats != header.chats:
                    file.header = write_chats(file.path, header, chats) or header
                os.utime(file.path, ns=(used_ns, used_ns))
            except (OSError, OverflowError):
                continue  # gone, read-only, or a clock beyond what the disk can write down

    def _index_again(self, header: PageHeader, file: StoredFile) -> None:
        """The file at that path may not be the one that was indexed: another process has replaced it."""
        if header.keys != file.keys:
            with self._guard:
                self._index.add(self._matched(file.path, file.used_ns, header))
                self._index.sort()

    def _make_room(self, size: int, used_ns: int) -> bool:
        """Remove the oldest of the files used before `used_ns` until `size` more bytes fit.

        Nothing is removed where that would not be enough.
        """
        if not self.may_hold(size, used_ns):
            return False
        self._come_down_to(self._settings.cap_bytes - size, used_ns)
        lack = self._settings.floor_bytes + size - self._folder.free_bytes()
        if lack > 0:
            self._come_down_to(self.total_bytes - lack, used_ns)
        return self._folder.free_bytes() - size >= self._settings.floor_bytes

    def _come_down_to(self, most: int, used_ns: float = math.inf) -> None:
        """Remove the oldest files until `most` bytes are left, or none that was used before `used_ns`."""
        while True:
            with self._guard:
                file = self._index.oldest()
                if file is None or file.used_ns >= used_ns or self._index.total_bytes <= most:
                    return
            file.path.unlink(missing_ok=True)
            with self._guard:
                self._index.remove(file.path)

    def _catch_up(self, ledger: Ledger) -> None:
        """Learn what other processes have changed; only for the holder of the folder's lock."""
        if not self._is_current or ledger.mark != self._ledger.mark:
            self._folder.remove_leftovers()
            self._rescan()
        self._ledger, self._is_current = ledger, True

    def _rescan(self) -> None:
        found = {file.path: file for file in self._folder.scan()}
        with self._guard:
            known = {file.path: file.size for file in self._index.files}
        fresh = [self._indexed(file) for file in found.values() if known.get(file.path) != file.size]
        with self._guard:
            for path in known.keys() - found.keys():
                self._index.remove(path)
            for file in fresh:
                if file is not None:
                    self._index.add(file)
            for file in self._index.files:
                if file.path in found:
                    file.used_ns = max(file.used_ns, found[file.path].used_ns)
            self._index.sort()

    def _indexed(self, found: FoundFile) -> StoredFile | None:
        is_ours = found.path.parent == self._folder.home
        try:
            header = read_header(found.path, self._identity if is_ours else None)
        except DamagedFile as damage:
            if is_ours:
                return self._discard(found.path, str(damage))
            header = None  # perhaps of a newer layout: not ours to judge, but it takes space
        except OSError:
            header = None
        if header is not None and is_ours:
            return self._matched(found.path, found.used_ns, header)
        chats = list(header.chats) if header else []
        return StoredFile(found.path, found.size, found.used_ns, header, False, chats)

    @staticmethod
    def _matched(path: Path, used_ns: int, header: PageHeader) -> StoredFile:
        return StoredFile(path, header.size, used_ns, header, True, list(header.chats))

    def _paths(self, keys: Iterable[bytes]) -> set[Path]:
        with self._guard:
            return {place.file.path for key in keys for place in self._index.places(key)}

    def _discard(self, path: Path, why: str) -> None:
        log.warning("%s was removed: %s", path, why)
        with self._guard:
            self.removed_files += 1
        self._remove(path)

    def _remove(self, path: Path) -> None:
        remove(path)
        self._lose(path)

    def _lose(self, path: Path) -> None:
        """Match nothing in the file at `path` any more; while it is there it still counts."""
        with self._guard:
            file = self._index.get(path)
            self._index.remove(path)
            if file is not None and path.exists():
                self._index.add(StoredFile(path, file.size, file.used_ns, None, False))
                self._index.sort()

    def _today(self) -> int:
        return int(self._clock() // DAY_S)

    def _now_ns(self) -> int:
        return int(self._clock() * 1e9)
