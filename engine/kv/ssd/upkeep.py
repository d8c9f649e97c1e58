"""Keeps the index of the SSD cache true to the folder: files that are new, changed, damaged or gone."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from engine.kv.page_file import read_header
from engine.kv.page_header import CacheIdentity, DamagedFile, PageHeader
from engine.kv.ssd.folder import FoundFile, SsdFolder, remove
from engine.kv.ssd.index import SsdIndex
from engine.kv.ssd.owners import Unsaved
from engine.kv.ssd.stored import StoredFile

log = logging.getLogger(__name__)


class Upkeep:
    """Tells the index what the folder says. For several threads; nothing in it raises.

    Args:
        guard: held while `index` is looked at or changed.

    Attributes:
        removed_files: that were damaged or wrong.
    """

    def __init__(
        self,
        folder: SsdFolder,
        identity: CacheIdentity,
        index: SsdIndex,
        guard: threading.Lock,
        unsaved: Unsaved,
    ) -> None:
        self._folder, self._identity = folder, identity
        self._index, self._guard, self._unsaved = index, guard, unsaved
        self.removed_files = 0

    def rescan(self, *, is_held: bool) -> None:
        """Index what is there. Unless the lock `is_held`, what looks damaged is left to who will hold it."""
        found = {file.path: file for file in self._folder.scan()}
        noted = self._folder.notes.read()
        with self._guard:
            known = {file.path: file.size for file in self._index.files}
        fresh = [self._indexed(file, is_held) for file in found.values() if known.get(file.path) != file.size]
        with self._guard:
            self._index.update(found, fresh)
            self._unsaved.hide(noted)

    def index_again(self, header: PageHeader, file: StoredFile) -> None:
        """The file at that path may not be the one that was indexed: another process has replaced it."""
        if header.keys != file.keys:
            with self._guard:
                self._index.add(StoredFile.matched(file.path, file.used_ns, header))
                self._index.sort()
                self._unsaved.hide()

    def learn_owners(self, path: Path) -> None:
        """Of a file that is replaced: another process may have taken a chat from it since it was indexed."""
        with self._guard:
            is_known = self._index.get(path) is not None
        try:
            said = read_header(path, self._identity) if is_known else None
        except (DamagedFile, OSError):
            self.lose(path)
            return
        if said is not None:
            with self._guard:
                self._index.renew(path, said)
                self._unsaved.hide()

    def forgot(self, changed: Mapping[Path, PageHeader | None]) -> None:
        """Files that were forgotten chats' say that now, or are gone (None).

        One that was hidden is another chat's too, who has claimed it meanwhile; one that is new has the pages
        of another that were others' too.
        """
        for path, said in changed.items():
            if said is None:
                self.lose(path)
                continue
            try:
                found = FoundFile(path, said.size, path.stat().st_mtime_ns)
            except OSError:
                continue
            with self._guard:
                self._index.add(StoredFile.found(found, said, path.parent == self._folder.home))
                self._index.sort()
                self._unsaved.hide()

    def discard(self, path: Path, why: str) -> None:
        """Remove a file that is damaged or wrong, and count it."""
        log.warning("%s was removed: %s", path, why)
        with self._guard:
            self.removed_files += 1
        self.remove(path)

    def remove(self, path: Path) -> None:
        """Remove a file, from the index in any case."""
        remove(path)
        self.lose(path)

    def lose(self, path: Path) -> None:
        """Match nothing in the file at `path` any more; while it is there it still counts."""
        with self._guard:
            if os.path.exists(path):  # noqa: PTH110 — Path.exists raises
                self._index.hide(path)
            else:
                self._index.remove(path)

    def _indexed(self, found: FoundFile, is_held: bool) -> StoredFile | None:
        is_ours = found.path.parent == self._folder.home
        try:
            header = read_header(found.path, self._identity if is_ours else None)
        except DamagedFile as damage:
            if is_ours:
                return self.discard(found.path, str(damage)) if is_held else None
            header = None  # perhaps of a newer layout: not ours to judge, but it takes space
        except OSError:
            header = None
        return StoredFile.found(found, header, is_ours)
