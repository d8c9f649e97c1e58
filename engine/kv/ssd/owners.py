"""Whose the pages of files are, as the files say: what is added to that, and chats that are taken from it.

What a file says is read anew each time, by the holder of the folder's lock: another process may have written
it since.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from engine.kv.page_file import EncodedRun, read_header, roomier, write_chats
from engine.kv.page_header import Chats, DamagedFile, PageHeader
from engine.kv.ssd.folder import FolderBusy, FoundFile, SsdFolder
from engine.kv.ssd.index import SsdIndex
from engine.kv.ssd.leases import lease_path
from engine.kv.ssd.notes import Notes, digest_of, sync
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


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Chats that were taken from files.

    Attributes:
        changed: files that were theirs, with what they say now; None where one is removed.
        is_all: whether none is left, as far as files can be read.
    """

    changed: Mapping[Path, PageHeader | None]
    is_all: bool


def forget_chats(folder: SsdFolder, digests: Set[str]) -> Forgotten:
    """Remove every file, of any model, with a page that only chats of `digests` own; no other is theirs.

    Only for the holder of the lock. What a writer that is gone has left of a file is removed too, and notes
    and leases of these chats once all is done, and would stay so through a power cut.
    """
    folder.remove_leftovers()
    changed: dict[Path, PageHeader | None] = {}
    is_all = True
    for file in folder.scan():
        try:
            header = read_header(file.path, None)
            owners = frozenset[str]().union(*set(header.chats))
            if chats := {chat for chat in owners if digest_of(chat) in digests}:
                changed[file.path] = _without(file, header, chats)
        except (DamagedFile, FileNotFoundError):
            continue  # never matched, and it goes when its model is loaded; or it is gone
        except OSError as error:
            log.warning("pages of deleted chats may stay in %s: %s", file.path, error.strerror)
            is_all = False
    return Forgotten(changed, is_all and _is_settled(folder, digests, changed))


def _is_settled(folder: SsdFolder, digests: Set[str], changed: Mapping[Path, PageHeader | None]) -> bool:
    """Have what was `changed` be on the disk, then take away what is written down of `digests`.

    Returns whether it is.
    """
    try:
        for path in {path.parent if said is None else path for path, said in changed.items()}:
            with suppress(FileNotFoundError):  # another thread has removed it
                sync(path)
        folder.notes.remove(digests)
        for digest in digests:
            lease_path(folder.root, digest).unlink(missing_ok=True)
    except OSError as error:
        log.warning("what is written down of deleted chats stays in %s: %s", folder.root, error.strerror)
        return False
    return True


def note_down(notes: Notes, digests: Iterable[str]) -> None:
    """Write down that these chats were deleted, where the disk takes it."""
    try:
        notes.write(digests)
    except OSError:
        return  # whoever has asked remembers it while the process lives


def forget_in_folder(root: Path, digests: Set[str]) -> bool:
    """The same for who has no cache open in the folder `root`. False, said in the log, when some may stay."""
    folder = SsdFolder(root, "", shutil.disk_usage)
    try:
        if not root.exists():
            return True
        note_down(folder.notes, digests)
        folder.notes.sync()
        with folder.locked():
            forgotten = forget_chats(folder, digests)
            if forgotten.changed:
                with suppress(OSError):  # whoever writes next says it
                    total = sum(file.size for file in folder.scan())
                    folder.write_ledger(folder.read_ledger().of(total))
            return forgotten.is_all
    except (FolderBusy, OSError) as error:
        _tell_kept(root, error)
        return False


def _without(file: FoundFile, header: PageHeader, chats: Set[str]) -> PageHeader | None:
    left = tuple(owners - chats for owners in header.chats)
    is_alone = any(owners and not others for owners, others in zip(header.chats, left, strict=True))
    try:
        said = None if is_alone else write_chats(file.path, header, left)
    except OSError:  # it may be half written
        said = None
    if said is None:  # or its names, which another program wrote, take more room as we write them
        file.path.unlink(missing_ok=True)
    else:
        os.utime(file.path, ns=(file.used_ns, file.used_ns))
    return said


class Unsaved:
    """What is known of files, and they do not say yet: whose they are, when they were used, who is forgotten.

    Args:
        guard: held while `index` is looked at or changed.
        rewrite: for files with more owners than they have room for.
    """

    def __init__(self, folder: SsdFolder, index: SsdIndex, guard: threading.Lock, rewrite: Rewrite) -> None:
        self._folder, self._index, self._guard, self._rewrite = folder, index, guard, rewrite
        self._paths: set[Path] = set()
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

    def write_owners(self) -> Mapping[Path, PageHeader | None]:
        """Have files say whose they are; only for the holder of the folder's lock.

        Returns files that were a forgotten chat's, and that the index does not know as they are now: what
        they say; None where one was the chat's alone, and is removed.
        """
        noted = self._folder.notes.read()  # reads the disk: the engine's thread wants the guard
        with self._guard:
            unsaid = self._unsaid
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
        forgotten = forget_chats(self._folder, digests) if digests else Forgotten({}, True)
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
        return changed

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
            self._index.disown(chat)

    @property
    def _unsaid(self) -> list[tuple[StoredFile, PageHeader, Chats]]:
        """Files with owners that they do not say, what they say, and their owners; under the guard."""
        files = [file for path in self._paths if (file := self._index.get(path))]
        return [
            (file, file.header, tuple(file.chats))
            for file in files
            if file.header is not None and not file.is_saved
        ]


def _tell_kept(root: Path, error: FolderBusy | OSError) -> None:
    why = error.strerror if isinstance(error, OSError) else "another process is writing there"
    log.warning("pages of deleted chats stay in %s for now: %s", root, why)
