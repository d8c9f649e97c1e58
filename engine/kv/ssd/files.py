"""The files of the SSD cache that are there: found, read, written and removed within cap and floor."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from engine.kv.page_data import PageMemory
from engine.kv.page_file import EncodedRun, fetch
from engine.kv.page_header import CacheIdentity, DamagedFile
from engine.kv.page_reader import OtherPages, Wanted, read_run
from engine.kv.ssd.folder import DAY_S, DiskUsage, FolderBusy, Ledger, SsdFolder
from engine.kv.ssd.index import ChatBytes, SsdIndex
from engine.kv.ssd.owners import Unsaved
from engine.kv.ssd.room import SsdRoom
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.stored import Place, StoredFile
from engine.kv.ssd.upkeep import Upkeep

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SsdUsage:
    """Of the folder, whoever writes there: bytes of its page files, and those written since midnight UTC."""

    total_bytes: int
    written_today: int


class SsdFiles:
    """The folder and its index, kept true to each other. For several threads, but one writer.

    Reading and removing never raise. `open` and `store` may raise OSError: then the folder cannot be written.

    Attributes:
        room: what may be written.
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
        self._folder = SsdFolder(settings.folder, identity.digest, disk_usage, settings.floor_bytes)
        self._guard = threading.Lock()
        self._index = SsdIndex()
        self._ledger = Ledger()
        self._is_current = False
        self.room = SsdRoom(settings, self._folder, self._index, self._guard)
        cap = settings.cap_bytes
        self._unsaved = Unsaved(self._folder, self._index, self._guard, self._rewrite, cap)
        self._upkeep = Upkeep(self._folder, identity, self._index, self._guard, self._unsaved)

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._settings.folder

    @property
    def removed_files(self) -> int:
        """Files that were damaged or wrong, and are gone."""
        return self._upkeep.removed_files

    @property
    def usage(self) -> SsdUsage:
        """What the folder takes now, and what was written: the ledger says what others have changed since."""
        told = self._folder.read_ledger()
        with self._guard:
            total = self._index.total_bytes
        if told.mark != self._ledger.mark and told.total is not None:
            total = told.total
        return SsdUsage(total, told.written.get(self._today(), 0))

    @property
    def chats(self) -> Mapping[str, ChatBytes]:
        """Bytes of each chat's pages of this model."""
        with self._guard:
            return self._index.chats

    def open(self) -> None:
        """Index what is there, remove leftovers, and come down to cap and floor."""
        try:
            self._folder.make()
            self._folder.end_leases()
            with self._held():
                self.room.keep()
        except FolderBusy:
            self._upkeep.rescan(is_held=False)  # the first write catches up
        except OSError:
            self._upkeep.rescan(is_held=False)
            raise

    def among(self, keys: Iterable[bytes]) -> set[bytes]:
        """Those of the pages `keys` that are in a file."""
        with self._guard:
            return self._index.among(keys)

    def tick(self) -> int:
        """A time later than every one before, in ns since 1970 unless the clock went back."""
        with self._guard:
            return self._index.tick(self._now_ns())

    def store(self, run: EncodedRun, used_ns: int, is_wanted: Callable[[], bool]) -> bool:
        """Write a run that was used at `used_ns`; False when there is no room for it, or it is not wanted.

        It gets the room of files that were used before, never that of others, nor of the pages before it.
        Also when it is no longer wanted once it is written; it is never found then. Bytes are counted before
        they are written: a crash counts too many, never too few. Raises OSError, and FolderBusy when another
        process holds the folder.
        """
        path = self._folder.path_of(run.header.keys[-1])
        self._folder.make()  # where it could not be when it was opened
        with self._held():
            if not is_wanted():  # of a chat that may be forgotten by now, for good
                return False
            self._upkeep.learn_owners(path)
            self.touch(run.header.parent, used_ns)
            if not self._write(path, run, used_ns):
                return False
            with self._guard:
                is_kept = is_wanted()
                if is_kept:
                    self._index.supersede(StoredFile.matched(path, used_ns, run.header))
            if not is_kept:
                self._upkeep.remove(path)
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
        try:
            return self._read(place, ids, memory)
        except DamagedFile:
            pass  # or its owners were being written: not while the lock is held
        path = place.file.path
        try:
            with self._folder.locked():
                return self._read(place, ids, memory)
        except DamagedFile as damage:
            self._upkeep.discard(path, str(damage))
        except (FolderBusy, OSError):
            log.warning("%s may be damaged: it is not read again before the next start", path)
            self._upkeep.lose(path)
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
            self._unsaved.add(self._index.use(place.file, used_ns) if place else [])

    def claim(self, keys: Iterable[bytes], chat: str) -> None:
        """The stored pages among `keys` are `chat`'s too."""
        with self._guard:
            self._unsaved.add(self._index.claim(keys, chat))

    def forget(self, digests: Set[str]) -> None:
        """Nothing is found any more of these chats; `remove_forgotten` is due. Reads no file."""
        self._unsaved.forget(digests)

    @property
    def forgotten(self) -> frozenset[str]:
        """Digests of forgotten chats that files may still be of."""
        return self._unsaved.forgotten

    def remove_forgotten(self) -> None:
        """Remove every page, of any model, that only forgotten chats own; no other is theirs.

        Whatever they say of it now, and whoever wrote that; this reads them all. What cannot be done now is
        done with the next write, with the next call, or by whoever opens the folder next.
        """
        self._unsaved.try_again()
        try:
            self._folder.notes.sync()
            with self._held():
                pass  # which does it
        except (FolderBusy, OSError) as error:
            self._unsaved.tell_kept(error)

    def quarantine(self, keys: Iterable[bytes]) -> None:
        """Remove every file that holds one of `keys`, and count it: its pages were wrong."""
        with self._guard:
            paths = {place.file.path for key in keys for place in self._index.places(key)}
        for path in paths:
            self._upkeep.discard(path, "its pages disagree with the model")

    @property
    def owners_wait(self) -> bool:
        """Whether files do not say all of whose they are."""
        return self._unsaved.owners_wait

    def save(self) -> None:
        """Write down whose the files are, and when they were used, as their times.

        So that the next start counts and drops as this one would. A crash loses what was not saved: no page.
        """
        if self.owners_wait:
            try:
                with self._held():
                    pass  # which has written them
            except (FolderBusy, OSError) as error:
                self._unsaved.tell_kept(error)
        self._unsaved.write_times()

    @contextmanager
    def _held(self) -> Generator[None]:
        """Hold the folder's lock, with what other processes have changed learnt, and owners written down."""
        with self._folder.locked():
            self._catch_up(self._folder.read_ledger())
            forgotten = self._unsaved.write_owners()
            self._upkeep.forgot(forgotten.changed)
            if forgotten.written:
                self._ledger = self._ledger.add(self._today(), forgotten.written, 0)  # noted below
            yield
            self._note_total()

    def _write(self, path: Path, run: EncodedRun, used_ns: int) -> bool:
        """Write a file, those used before `used_ns` making room; False when there is none."""
        if not self.room.make(run.header.size, used_ns):
            return False
        with self._guard:
            total = self._index.total_bytes + run.header.size
        self._ledger = self._ledger.add(self._today(), run.header.size, total)
        self._folder.write_ledger(self._ledger)
        self._folder.write(path, run.buffers)
        return True

    def _rewrite(self, file: StoredFile, run: EncodedRun) -> bool:
        """Have `file`, which is in use, be `run`; False when there is no room for both at once."""
        with self._guard:
            used_ns = self._index.tick(self._now_ns())
            self._unsaved.add(self._index.use(file, used_ns))
        return self._write(file.path, run, used_ns)

    def _read(self, place: Place, ids: bytes, memory: PageMemory) -> bool:
        """The same, which raises DamagedFile."""
        file, path, header = place.file, place.file.path, place.file.header
        assert header is not None  # or it would hold no page that is found
        try:
            read_run(path, self._identity, Wanted(header, place.position, ids, memory))
        except FileNotFoundError:
            self._upkeep.lose(path)  # removed for the room, here or by another process, since it was found
        except OSError as error:
            log.warning("%s cannot be read: %s", path, error.strerror)
            self._upkeep.lose(path)
        except OtherPages as other:
            self._upkeep.index_again(other.header, file)
        else:
            return True
        return False

    def _catch_up(self, ledger: Ledger) -> None:
        """Learn what other processes have changed; only for the holder of the folder's lock."""
        if not self._is_current or ledger.mark != self._ledger.mark:
            self._folder.remove_leftovers()
            self._upkeep.rescan(is_held=True)
        self._ledger, self._is_current = ledger, True

    def _note_total(self) -> None:
        """Have the ledger say what the files take, where some went, or one took another's place."""
        with self._guard:
            total = self._index.total_bytes
        if total != (self._ledger.total or 0):
            with suppress(OSError):  # whoever writes next says it
                ledger = self._ledger.of(total)
                self._folder.write_ledger(ledger)
                self._ledger = ledger

    def _today(self) -> int:
        return int(self._clock() // DAY_S)

    def _now_ns(self) -> int:
        return int(self._clock() * 1e9)
