"""The SSD tier: KV pages that left memory, kept in files, verified when they come back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from engine.kv.page_data import SpilledRun, id_bytes
from engine.kv.page_header import CacheIdentity
from engine.kv.ssd.files import SsdFiles, SsdUsage
from engine.kv.ssd.folder import DiskUsage
from engine.kv.ssd.index import ChatBytes
from engine.kv.ssd.notes import digest_of
from engine.kv.ssd.reader import SideBySide
from engine.kv.ssd.settings import SsdSettings
from engine.kv.ssd.stored import Place
from engine.kv.ssd.writer import SsdWriter
from engine.kv.stores import MemoryOf, Room

QUEUE_BYTES = 128 << 20
"""Most bytes of pages that wait to be written; a run that is larger waits alone."""

READ_SECONDS = 0.1
"""Behind this one read begins no more files: nobody can be heard, or cancelled, before it ends."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Of pages that are read, those from the one at `first` to the one before `end`, which one run holds.

    `ids` are theirs; `source` says where they begin: in a file, or in a run that waits to be written.
    """

    first: int
    end: int
    ids: bytes
    source: Place | tuple[SpilledRun, int]


class SsdTier:
    """Pages by their chain key, for one model; for one thread, the engine's. Nothing in it raises.

    Files are written by a thread of its own, and read by the caller's with the help of others. While the
    folder cannot be written, `reason` says why, and what is stored is still found; `put` takes a run now and
    then, to try it again.

    Args:
        identity: only pages of the same identity are found.
        clock: seconds since 1970; it may jump.
        disk_usage: tells the free bytes of the folder's disk.
        queue_bytes: most bytes of pages that wait to be written; a run that is larger waits alone.

    Attributes:
        cap_bytes: most bytes that the cache may take.
    """

    def __init__(
        self,
        settings: SsdSettings,
        identity: CacheIdentity,
        *,
        clock: Callable[[], float] = time.time,
        disk_usage: Callable[[Path], DiskUsage] = shutil.disk_usage,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        self.cap_bytes = settings.cap_bytes
        self._files = SsdFiles(settings, identity, clock, disk_usage)
        self._writer = SsdWriter(self._files, identity, clock, queue_bytes)
        self._readers = SideBySide()
        try:
            self._files.open()
        except OSError as error:
            self._writer.fail(error)

    @property
    def reason(self) -> str:
        """Why nothing is written at present, and what helps; "" where nothing speaks against it."""
        try:
            return self._writer.reason or self._files.room.shortage
        except OSError as error:
            self._writer.fail(error)
            return self._writer.reason

    @property
    def usage(self) -> SsdUsage:
        """What the whole cache takes on SSD, and what was written there today: by every model and process."""
        return self._files.usage

    @property
    def written_pages(self) -> int:
        """Pages that this object has written, and that had room once they were."""
        return self._writer.written_pages

    @property
    def waiting_pages(self) -> int:
        """Pages that were taken and are not written yet."""
        return self._writer.waiting_pages

    @property
    def quarantined_files(self) -> int:
        """Files that were damaged or disagreed with the model, and are gone."""
        return self._files.removed_files

    def find(self, key: bytes) -> bool:
        """Whether page `key` is stored, or waits to be."""
        return self._writer.find(key) is not None or self._files.place(key) is not None

    def count(self, keys: Sequence[bytes]) -> int:
        """How many of the pages `keys`, from the first on, are stored or wait to be."""
        waiting = self._writer.among(keys)
        stored = self._files.among(keys)  # after those that wait: one that is written meanwhile is in both
        here = stored | waiting if waiting else stored
        return next((index for index, key in enumerate(keys) if key not in here), len(keys))

    def tick(self) -> int:
        """A time later than every one before, by which uses of pages are told apart."""
        return self._files.tick()

    def room(self, size: int, used: int) -> Room:
        """Whether `put` would take pages of `size` bytes together that were last used at `used`."""
        if not self._writer.is_on:
            return Room.NEVER
        try:
            has_room = self._files.room.may_hold(size + self._writer.bytes_since(used), used)
        except OSError as error:
            self._writer.fail(error)
            return Room.NEVER
        if not has_room:
            return Room.NEVER
        return Room.NOW if self._writer.has_place(size) else Room.LATER

    def put(self, run: SpilledRun) -> bool:
        """Queue `run` for writing; True also when all its pages are there already.

        False when it is not taken: there is no room for it now.
        """
        if self.count(run.keys) == len(run.keys):
            for chat in frozenset[str]().union(*run.chats):
                owned = [key for key, owners in zip(run.keys, run.chats, strict=True) if chat in owners]
                self.claim(owned, chat)
            return True
        used = self.tick() if run.used is None else run.used
        return self.room(run.data.nbytes, used) is Room.NOW and self._writer.put(run)

    def read(self, keys: Sequence[bytes], ids: bytes, memory: MemoryOf) -> int:
        """Read the pages `keys`, consecutive in one sequence, with the ids `ids` (id_bytes); all verified.

        Returns how many, from the first on, their memory holds. There are fewer where a page is gone or
        damaged: then its file is removed, and `find` says so; and where READ_SECONDS are over, but never none
        for that. Raises what `memory` raises.
        """
        pieces = self._pieces(keys, ids)
        done = self._readers.run([partial(self._read, piece, memory) for piece in pieces], READ_SECONDS)
        pages = pieces[done - 1].end if done else 0
        if pages:
            self._files.touch(keys[pages - 1], self.tick())
        return pages

    def expect(self, keys: Sequence[bytes]) -> None:
        """`read` will be asked for these pages: let the system bring their files into memory meanwhile."""
        if keys:
            self._readers.later(partial(self._files.fetch, keys))

    def use(self, keys: Sequence[bytes]) -> None:
        """The pages `keys`, consecutive in one sequence, are used now, as far as they are stored."""
        stored = self._files.among(keys)
        if last := next((key for key in reversed(keys) if key in stored), None):
            self._files.touch(last, self.tick())

    def claim(self, keys: Iterable[bytes], chat: str) -> None:
        """The pages among `keys` that are stored, or wait to be, are `chat`'s too."""
        wanted = list(keys)
        self._writer.claim(wanted, chat)
        self._files.claim(wanted, chat)

    def forget_chat(self, chat: str) -> None:
        """Find nothing any more that is only `chat`'s. Its files go with `remove_forgotten`, or a write.

        It is written down: who opens the folder after a crash finds nothing of it either.
        """
        self._writer.drop_chat(chat)
        self._files.forget({digest_of(chat)})

    def forget_noted(self, digests: Set[str]) -> None:
        """The same for chats, by their digests, that were forgotten while this was not open."""
        self._files.forget(digests)

    @property
    def forgotten(self) -> frozenset[str]:
        """Digests of forgotten chats that files may still be of."""
        return self._files.forgotten

    def remove_forgotten(self) -> None:
        """Remove the pages, of every model, that are only forgotten chats'.

        For any thread: it reads all files, and waits for other processes.
        """
        self._files.remove_forgotten()

    def quarantine(self, keys: Iterable[bytes]) -> None:
        """The restored pages `keys` disagreed with what the model computes: remove their files, and count."""
        wanted = list(keys)
        self._writer.drop(wanted)
        self._files.quarantine(wanted)

    def chat_bytes(self) -> Mapping[str, ChatBytes]:
        """Bytes on SSD of each chat that has pages of this model there."""
        return self._files.chats

    def settle(self) -> None:
        """Begin to have files say whose they are, where they do not (see SsdFiles.save)."""
        if self._files.owners_wait:
            self._writer.settle()

    def flush(self, timeout: float) -> bool:
        """Wait, at most `timeout` seconds, until all that was taken is stored or dropped; whether it is."""
        return self._writer.flush(timeout)

    def close(self, timeout: float) -> None:
        """Write what waits within `timeout` seconds and drop the rest; nothing is put or read after this."""
        self._readers.close()
        self._writer.close(timeout)
        self._files.save()

    def _pieces(self, keys: Sequence[bytes], ids: bytes) -> list[_Piece]:
        """What has to be read for the pages `keys`, as far as they are there, run by run."""
        pieces: list[_Piece] = []
        first, page_bytes = 0, len(ids) // len(keys) if keys else 0
        while first < len(keys) and (
            source := self._writer.find(keys[first]) or self._files.place(keys[first])
        ):
            run, position = (source.file, source.position) if isinstance(source, Place) else source
            end = first + _common(run.keys[position:], keys[first : first + len(run.keys)])
            pieces.append(_Piece(first, end, ids[first * page_bytes : end * page_bytes], source))
            first = end
        return pieces

    def _read(self, piece: _Piece, memory: MemoryOf) -> bool:
        """Read `piece`; False when its pages are not there, or those of another sequence."""
        count, source = piece.end - piece.first, piece.source
        wanted = memory(piece.first, count)
        if isinstance(source, Place):
            return self._files.read(source, piece.ids, wanted)
        run, position = source
        if id_bytes((*chain.from_iterable(run.tokens[position : position + count]),)) != piece.ids:
            return False
        run.data.part(position, count).copy_into(wanted)
        return True


def _common(left: Sequence[bytes], right: Sequence[bytes]) -> int:
    count = min(len(left), len(right))
    if left[:count] == right[:count]:
        return count
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
