"""Chats that were deleted are taken from files: pages that are only theirs go, those of others stay."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.kv.page_file import EncodedRun, head, read_header, write_chats
from engine.kv.page_header import Chats, DamagedFile, PageHeader
from engine.kv.ssd.folder import FoundFile, SsdFolder, remove
from engine.kv.ssd.leases import lease_path
from engine.kv.ssd.notes import digest_of, sync

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Chats that were taken from files.

    Attributes:
        changed: files that were theirs, with what they say now; None where one is removed.
        is_all: whether none is left, as far as files can be read.
        written: bytes of files that are new, of pages that others own too.
    """

    changed: Mapping[Path, PageHeader | None]
    is_all: bool
    written: int = 0


def forget_chats(folder: SsdFolder, digests: Set[str], cap_bytes: int = 0) -> Forgotten:
    """Remove every page, of any model, that only chats of `digests` own, and those behind it in its file.

    No other is theirs any more. Only for the holder of the lock. What a writer that is gone has left of a
    file is removed too, and notes and leases of these chats once all is done, and would stay so through a
    power cut. `cap_bytes`: most that all files may take meanwhile.
    """
    folder.remove_leftovers()
    changed: dict[Path, PageHeader | None] = {}
    is_all, written, files = True, 0, folder.scan()
    spare = cap_bytes - sum(file.size for file in files)
    for file in files:
        try:
            header = read_header(file.path, None)
            owners = frozenset[str]().union(*set(header.chats))
            if chats := {chat for chat in owners if digest_of(chat) in digests}:
                said, rest = _without(folder, file, header, chats, spare)
                changed[file.path] = said
                spare += file.size if said is None else 0
                if rest is not None:
                    changed[folder.beside(file.path, rest.keys[-1])] = rest
                    written, spare = written + rest.size, spare - rest.size
        except (DamagedFile, FileNotFoundError):
            continue  # never matched, and it goes when its model is loaded; or it is gone
        except OSError as error:
            log.warning("pages of deleted chats may stay in %s: %s", file.path, error.strerror)
            is_all = False
    return Forgotten(changed, is_all and _is_settled(folder, digests, changed), written)


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


def _without(
    folder: SsdFolder, file: FoundFile, header: PageHeader, chats: Set[str], spare: int
) -> tuple[PageHeader | None, PageHeader | None]:
    """Take `chats` from a file. Returns what it says then, None where it is removed, and what its rest says.

    The rest is a file of its own: the pages before the first one that only `chats` own. `spare`: see _cut.
    """
    left = tuple(owners - chats for owners in header.chats)
    pages = enumerate(zip(header.chats, left, strict=True))
    end = next((place for place, (owners, others) in pages if owners and not others), len(left))
    try:
        said = write_chats(file.path, header, left) if end == len(left) else None
    except OSError:  # it may be half written
        said = None
    if said is not None:
        os.utime(file.path, ns=(file.used_ns, file.used_ns))
        return said, None
    # Or its names, which another program wrote, take more room as we write them.
    return None, _cut(folder, file, header, left[:end] if end < len(left) else (), spare)


def _cut(
    folder: SsdFolder, file: FoundFile, header: PageHeader, chats: Chats, spare: int
) -> PageHeader | None:
    """Remove a file, and have a new one of the first of its pages, which are of `chats`, where there are any.

    The new one is written first, so that whoever dies meanwhile loses none of them; where both together would
    take more than the cap, which has `spare` bytes left, or what is to stay free, the old one goes before.
    """
    try:
        rest = head(file.path, header, chats) if chats else None
    except (DamagedFile, OSError):
        rest = None
    path = folder.beside(file.path, header.keys[len(chats) - 1])
    if rest is None or rest.header.size > file.size or path.exists():  # another run ends there, too
        file.path.unlink(missing_ok=True)
        return None
    has_room = rest.header.size <= spare and folder.is_above_floor(rest.header.size)
    is_written = has_room and _write(folder, path, rest, file.used_ns)
    try:
        file.path.unlink(missing_ok=True)
    except OSError:  # then both would be there
        if is_written:
            remove(path)
        raise
    return rest.header if is_written or _write(folder, path, rest, file.used_ns) else None


def _write(folder: SsdFolder, path: Path, run: EncodedRun, used_ns: int) -> bool:
    """Write a file that was used at `used_ns`; False where the disk does not take it."""
    try:
        if not folder.is_above_floor(run.header.size):
            return False
        folder.write(path, run.buffers)
    except OSError:
        return False
    with suppress(OSError):  # it is there, and counts as used now
        os.utime(path, ns=(used_ns, used_ns))
    return True
