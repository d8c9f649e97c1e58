"""Whose the pages of files are, as the files say: what is added to that, and chats that are taken from it.

What a file says is read anew each time, by the holder of the folder's lock: another process may have written
it since.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from engine.kv.page_file import EncodedRun, read_header, roomier, write_chats
from engine.kv.page_header import Chats, DamagedFile, PageHeader
from engine.kv.ssd.folder import DAY_S, FolderBusy, SsdFolder
from engine.kv.ssd.forgotten import Forgotten, forget_chats
from engine.kv.ssd.index import SsdIndex
from engine.kv.ssd.notes import Notes, digest_of
from engine.kv.ssd.stored import StoredFile

log = logging.getLogger(__name__)


Rewrite = Callable[[StoredFile, EncodedRun], bool]
"""Puts a file in another's place, if there is room; returns whether it did. May raise OSError."""


def add_owners(file: StoredFile, known: PageHeader, owners: Chats, rewrite: Rewrite) -> PageHeader | None:
    """Write down the owners of its pages that are not of `known`, which `file` said once.

    Those that others have written since stay, and those that they have taken away stay away. Where there is
    not the room for so many, the file is written anew, with more. Returns what it says then; None where it is
    damaged or another one, or has not the room. Raises OSError.
    """
    try:
        said = read_header(file.path, None)
    except DamagedFile:
        return None
    if said.keys != known.keys:
        return None
    pages = zip(said.chats, owners, known.chats, strict=True)
    chats = tuple(there | (ours - before) for there, ours, before in pages)
    if chats == said.chats:
        return said
    if (written := write_chats(file.path, said, chats)) is not None:
        return written
    run = roomier(file.path, replace(said, chats=chats))
    return run.header if rewrite(file, run) else None


def note_down(notes: Notes, digests: Iterable[str]) -> None:
    """Write down that these chats were deleted, where the disk takes it."""
    try:
        notes.write(digests)
    except OSError:
        return  # whoever has asked remembers it while the process lives


def forget_in_folder(root: Path, digests: Set[str], floor_bytes: int = 0, cap_bytes: int = 0) -> bool:
    """The same for who has no cache open in the folder `root`; `floor_bytes` of its disk stay free.

    `cap_bytes`: see forget_chats. False, said in the log, when some may stay.
    """
    folder = SsdFolder(root, "", shutil.disk_usage, floor_bytes)
    try:
        if not root.exists():
            return True
        note_down(folder.notes, digests)
        folder.notes.sync()
        with folder.locked():
            forgotten = forget_chats(folder, digests, cap_bytes)
            if forgotten.changed:
                with suppress(OSError):  # whoever writes next says it
                    total, day = sum(file.size for file in folder.scan()), int(time.time() // DAY_S)
                    folder.write_ledger(folder.read_ledger().add(day, forgotten.written, total))
            return forgotten.is_all
    except (FolderBusy, OSError) as error:
        _tell_kept(root, error)
        return False


class Unsaved:
    """What is known of files, and they do not say yet: whose they are, when they were used, who is forgotten.

    Args:
        guard: held while `index` is looked at or changed.
        rewrite: for files with more owners than they have room for.
        cap_bytes: most that all files may take.
    """

    def __init__(
        self, folder: SsdFolder, index: SsdIndex, guard: threading.Lock, rewrite: Rewrite, cap_bytes: int
    ) -> None:
        self._folder, self._index, self._guard, self._rewrite = folder, index, guard, rewrite
        self._cap_bytes = cap_bytes
        self._paths: set[Path] = set()
        self._hidden: list[StoredFile] = []  # with chats that go, as they were: others may own pages of them
        self._forgotten: set[str] = set()  # digests, as all below
        self._stuck: frozenset[str] = frozenset()  # in files that cannot go: not tried with every write

    def add(self, files: Iterable[StoredFile]) -> None:
        """Owners of these, or when they were used, have changed; under the guard."""
        self._paths.update(file.path for file in files)

    def forget(self, digests: Set[str]) -> None:
        """Nothing is found any more as these chats', and no file shall say that it is theirs."""
        note_down(self._folder.notes, digests)
        with self._guard:
            self._stuck -= digests
            self.hide(digests)

    def hide(self, noted: Set[str] = frozenset()) -> None:
        """Files may have been indexed that are of forgotten chats, or of `noted` ones; under the guard."""
        self._forgotten |= noted
        self._disown(self._forgotten)

    def try_again(self) -> None:
        """Files that could not go may be able to now."""
        with self._guard:
            self._stuck = frozenset()

    @property
    def forgotten(self) -> frozenset[str]:
        """Digests of chats that files may still be of."""
        with self._guard:
            return frozenset(self._forgotten)

    @property
    def owners_wait(self) -> bool:
        """Whether files do not say all of whose they are."""
        with self._guard:
            return bool(self._forgotten - self._stuck or self._unsaid)

    def write_owners(self) -> Forgotten:
        """Have files say whose they are; only for the holder of the folder's lock.

        Returns what was forgotten; of files that stay, those that the index does not know as they are now.
        """
        noted = self._folder.notes.read()  # reads the disk: the engine's thread wants the guard
        with self._guard:
            unsaid, self._hidden = self._unsaid, []
            self._forgotten |= noted
            digests = frozenset(self._forgotten - self._stuck)
        for file, header, owners in unsaid:
            try:
                said = add_owners(file, header, owners, self._rewrite)
            except OSError:
                continue  # gone, or read-only
            if said is not None:
                with self._guard:
                    self._index.renew(file.path, said, owners)
                    self.hide()
        forgotten = Forgotten({}, True)
        if digests:
            forgotten = forget_chats(self._folder, digests, self._cap_bytes)
        with self._guard:
            if forgotten.is_all:
                self._forgotten -= digests
            else:
                self._stuck |= digests
            changed = {
                path: said
                for path, said in forgotten.changed.items()
                if said is None or not self._index.renew(path, said)
            }
            self._disown(digests)
        return replace(forgotten, changed=changed)

    def write_times(self) -> None:
        """Have files say when they were used. Those whose owners could not be written stay unsaved."""
        with self._guard:
            used = [(path, file.used_ns) for path in self._paths if (file := self._index.get(path))]
            self._paths = {file.path for file, *_ in self._unsaid}
        for path, used_ns in used:
            try:
                os.utime(path, ns=(used_ns, used_ns))
            except (OSError, OverflowError):
                continue  # gone, read-only, or a clock beyond what the disk can write down

    def tell_kept(self, error: FolderBusy | OSError) -> None:
        """The folder cannot be held, because of `error`: pages of forgotten chats may be there still."""
        if self._forgotten:
            _tell_kept(self._folder.root, error)

    def _disown(self, digests: Set[str]) -> None:
        chats = [chat for chat in self._index.owners if digest_of(chat) in digests] if digests else []
        for chat in chats:
            self._hidden += self._index.disown(chat)

    @property
    def _unsaid(self) -> list[tuple[StoredFile, PageHeader, Chats]]:
        """Files with owners that they do not say, what they say, and their owners; under the guard."""
        files = [file for path in self._paths if (file := self._index.get(path))]
        files += [file for file in self._hidden if self._index.get(file.path)]
        return [
            (file, file.header, tuple(file.chats))
            for file in files
            if file.header is not None and not file.is_saved
        ]


def _tell_kept(root: Path, error: FolderBusy | OSError) -> None:
    why = error.strerror if isinstance(error, OSError) else "another process is writing there"
    log.warning("pages of deleted chats stay in %s for now: %s", root, why)
