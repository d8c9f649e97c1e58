"""A page file as the index of the SSD cache knows it, and where in it a page is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from engine.kv.page_header import PageHeader
from engine.kv.ssd.folder import FoundFile


@dataclass(slots=True, eq=False)
class StoredFile:
    """A page file that is there.

    Attributes:
        used_ns: when it was last used; larger is later, across restarts and whatever the clock does.
        header: None where the file could not be read as ours; it still takes space.
        is_matched: whether its pages are of the loaded model, and so can be found.
        chats: whose each page is.
    """

    path: Path
    size: int
    used_ns: int
    header: PageHeader | None
    is_matched: bool
    chats: list[frozenset[str]] = field(default_factory=list[frozenset[str]])

    @classmethod
    def matched(cls, path: Path, used_ns: int, header: PageHeader) -> StoredFile:
        """One of the loaded model's."""
        return cls(path, header.size, used_ns, header, True, list(header.chats))

    @classmethod
    def found(cls, file: FoundFile, header: PageHeader | None, is_ours: bool) -> StoredFile:
        """One that lies there and says `header`; `is_ours`: it is in the loaded model's folder."""
        if header is not None and is_ours:
            return cls.matched(file.path, file.used_ns, header)
        return cls(file.path, file.size, file.used_ns, header, False, list(header.chats) if header else [])

    @property
    def is_saved(self) -> bool:
        """Whether the file says all that is known of whose its pages are."""
        pages = zip(self.chats, self.header.chats, strict=True) if self.header else ()
        return all(owners <= said for owners, said in pages)

    @property
    def owners(self) -> frozenset[str]:
        """Every chat that owns one of its pages."""
        return frozenset[str]().union(*set(self.chats))

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Keys of its pages as far as they can be found."""
        return self.header.keys if self.header and self.is_matched else ()

    @property
    def page_bytes(self) -> int:
        """Bytes of one page's content."""
        return self.header.data_bytes // len(self.header.keys) if self.header else 0


@dataclass(frozen=True, slots=True)
class Place:
    """A page in a file: the one at `position`, counted from 0."""

    file: StoredFile
    position: int
