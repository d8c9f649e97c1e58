"""The index of the SSD cache: which file holds which page, whose it is, and which was used longest ago."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.kv.page_header import Chats, PageHeader
from engine.kv.ssd.folder import FoundFile
from engine.kv.ssd.stored import Place, StoredFile

_APART_NS = 1 << 20
"""Times of two uses are so far apart at least that those of the pages of one sequence fit in between."""


@dataclass(frozen=True, slots=True)
class ChatBytes:
    """Bytes of a chat's pages on SSD; `shared` of them belong to other chats too."""

    total: int
    shared: int


class _Same(dict[frozenset[str], frozenset[str]]):
    """What `change` makes of owners: once for all pages that have the same, mostly those of a run."""

    def __init__(self, change: Callable[[frozenset[str]], frozenset[str]]) -> None:
        super().__init__()
        self._change = change

    def __missing__(self, owners: frozenset[str]) -> frozenset[str]:
        self[owners] = changed = self._change(owners)
        return changed


class SsdIndex:
    """Files of all models, oldest first; pages and chats of those that are matched. Not thread-safe."""

    def __init__(self) -> None:
        self._files: OrderedDict[Path, StoredFile] = OrderedDict()
        self._places: defaultdict[bytes, list[Place]] = defaultdict(list)
        self._files_of: defaultdict[str, set[StoredFile]] = defaultdict(set)
        self._chats: dict[str, ChatBytes] = {}
        self._newest_ns = 0
        self.total_bytes = 0

    @property
    def files(self) -> list[StoredFile]:
        """Every file, the one that was used longest ago first."""
        return list(self._files.values())

    @property
    def chats(self) -> Mapping[str, ChatBytes]:
        """Bytes of each chat that has any."""
        return dict(self._chats)

    @property
    def owners(self) -> Collection[str]:
        """Every chat that a file is of, of whatever model."""
        return self._files_of.keys()

    def get(self, path: Path) -> StoredFile | None:
        """The file at `path`."""
        return self._files.get(path)

    def find(self, key: bytes) -> Place | None:
        """Where page `key` is; the file added last where there are several."""
        places = self._places.get(key)
        return places[-1] if places else None

    def among(self, keys: Iterable[bytes]) -> set[bytes]:
        """Those of the pages `keys` that are in a file."""
        return self._places.keys() & keys

    def places(self, key: bytes) -> list[Place]:
        """Every file that holds page `key`, as places."""
        return list(self._places.get(key, ()))

    def add(self, file: StoredFile) -> None:
        """Take `file` in, as the newest, in place of one at the same path."""
        self.remove(file.path)
        self._files[file.path] = file
        self._newest_ns = max(self._newest_ns, file.used_ns)
        self.total_bytes += file.size
        for position, key in enumerate(file.keys):
            self._places[key].append(Place(file, position))
        self._enrol(file)

    def supersede(self, file: StoredFile) -> None:
        """Take `file` in, as the newest; pages that the one at the same path held are of its owners too."""
        before = self._files.get(file.path)
        self.add(file)
        for key, owners in zip(before.keys, before.chats, strict=True) if before else ():
            for place in self._places.get(key, ()) if key in file.keys else ():
                self._set_chats(place, place.file.chats[place.position] | owners)

    def remove(self, path: Path) -> None:
        """Forget the file at `path`, if there is one."""
        file = self._files.pop(path, None)
        if file is not None:
            self.total_bytes -= file.size
            self._strike_out(file)

    def hide(self, path: Path) -> None:
        """Match nothing in the file at `path` any more, if there is one; it counts, as old as before."""
        file = self._files.get(path)
        if file is not None:
            self._strike_out(file)
            self._files[path] = StoredFile(path, file.size, file.used_ns, None, False)

    def renew(self, path: Path, header: PageHeader, written: Chats | None = None) -> bool:
        """The file at `path` says `header` now; owners beyond those that were `written` it still has.

        Without `written` those are meant that it said before. False, and nothing changes, where no file with
        the same pages is known there.
        """
        file = self._files.get(path)
        if file is None or file.header is None or file.header.keys != header.keys:
            return False
        self._strike_off(file)
        self.total_bytes += header.size - file.size
        pages = zip(header.chats, file.chats, written or file.header.chats, strict=True)
        file.chats = [said | (known - once) for said, known, once in pages]
        file.header, file.size = header, header.size
        self._enrol(file)
        return True

    def update(self, found: Mapping[Path, FoundFile], fresh: Iterable[StoredFile | None]) -> None:
        """These were `found`, and no others; `fresh` are what those of them are that had changed."""
        for path in self._files.keys() - found.keys():
            self.remove(path)
        for file in fresh:
            if file is None or (file.header and self.renew(file.path, file.header)):
                continue  # of the same pages another process has written down more owners
            self.add(file)
        for file in self._files.values():
            file.used_ns = max(file.used_ns, found[file.path].used_ns)
        self.sort()

    def oldest(self) -> StoredFile | None:
        """The file that was used longest ago."""
        return next(iter(self._files.values()), None)

    def sort(self) -> None:
        """Bring files that were added out of order into the order of their use."""
        self._files = OrderedDict(sorted(self._files.items(), key=lambda item: item[1].used_ns))

    def tick(self, now_ns: int) -> int:
        """A time later than every one before: `now_ns`, unless the clock went back or stands still."""
        self._newest_ns = max(now_ns, self._newest_ns + _APART_NS)
        return self._newest_ns

    def bytes_before(self, used_ns: int, enough: int) -> int:
        """Bytes of the files that were used before `used_ns`, counted until they are `enough`."""
        found = 0
        for file in self._files.values():
            if found >= enough or file.used_ns >= used_ns:
                break
            found += file.size
        return found

    def use(self, file: StoredFile, used_ns: int) -> list[StoredFile]:
        """`file` and those that hold the pages before its own were used at `used_ns`, or since; returns them.

        A page is of no use without those before it, so they count as used later and are the last to go.
        """
        chain: list[StoredFile] = []
        found: StoredFile | None = file
        while found is not None and found not in chain:
            chain.append(found)
            place = self.find(found.header.parent) if found.header else None
            found = place.file if place else None
        is_newest = used_ns >= self._newest_ns
        for used in chain:
            used.used_ns = max(used.used_ns, used_ns)
            used_ns = used.used_ns + 1
            self._files.move_to_end(used.path)
        self._newest_ns = max(self._newest_ns, used_ns)
        if not is_newest:
            self.sort()
        return chain

    def claim(self, keys: Iterable[bytes], chat: str) -> list[StoredFile]:
        """The pages `keys` are `chat`'s too, as far as they are here; returns the files that changed."""
        new = [place for key in keys for place in self._places.get(key, ())]
        new = [place for place in new if chat not in place.file.chats[place.position]]
        with_it = _Same(lambda owners: owners | {chat})
        for place in new:
            self._set_chats(place, with_it[place.file.chats[place.position]])
        return [place.file for place in new]

    def disown(self, chat: str) -> list[StoredFile]:
        """`chat` owns nothing any more, of any model; files with a page that only it owned are hidden.

        Returns these as they were.
        """
        without_it, hidden = _Same(lambda owners: owners - {chat}), list[StoredFile]()
        for file in self._files_of.pop(chat, ()):
            if frozenset((chat,)) in file.chats:
                self.hide(file.path)
                hidden.append(file)
                continue
            for owners, pages in Counter(file.chats).items():
                self._recount(file, owners, without_it[owners], pages)
            file.chats = [without_it[owners] for owners in file.chats]
        return hidden

    def _set_chats(self, place: Place, owners: frozenset[str]) -> None:
        """The owners of a page are these; none is taken from it."""
        file, before = place.file, place.file.chats[place.position]
        file.chats[place.position] = owners
        for chat in owners - before:
            self._files_of[chat].add(file)
        self._recount(file, before, owners, 1)

    def _recount(self, file: StoredFile, before: frozenset[str], owners: frozenset[str], pages: int) -> None:
        """So many pages of `file` had other owners `before`."""
        if not file.is_matched:
            return
        size = pages * file.page_bytes
        was_shared, is_shared = len(before) > 1, len(owners) > 1
        for chat in before - owners:
            self._count_page(chat, -size, -size * was_shared)
        for chat in owners - before:
            self._count_page(chat, size, size * is_shared)
        if was_shared != is_shared:
            for chat in before & owners:  # one at most
                self._count_page(chat, 0, size if is_shared else -size)

    def _strike_out(self, file: StoredFile) -> None:
        """Neither its pages nor its owners are known."""
        for key in file.keys:
            if others := [place for place in self._places.pop(key, ()) if place.file is not file]:
                self._places[key] = others
        self._strike_off(file)

    def _enrol(self, file: StoredFile) -> None:
        """The chats that own it do so from now on."""
        for chat in file.owners:
            self._files_of[chat].add(file)
        self._count(file, 1)

    def _strike_off(self, file: StoredFile) -> None:
        """The chats that own it do so no longer."""
        for chat in file.owners:
            self._files_of[chat].discard(file)
            if not self._files_of[chat]:
                del self._files_of[chat]
        self._count(file, -1)

    def _count(self, file: StoredFile, sign: int) -> None:
        if file.is_matched:
            for owners, pages in Counter(file.chats).items():
                size = sign * pages * file.page_bytes
                for chat in owners:
                    self._count_page(chat, size, size if len(owners) > 1 else 0)

    def _count_page(self, chat: str, size: int, shared: int) -> None:
        before = self._chats.get(chat, ChatBytes(0, 0))
        after = ChatBytes(before.total + size, before.shared + shared)
        if after.total:
            self._chats[chat] = after
        else:
            self._chats.pop(chat, None)
