"""What keeps MLXR from starting well, looked for before anything of Qt or the engine is loaded.

Each check takes what it judges, and `this_machine` and the others beside it read what is so here.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from app.amounts import size
from app.errors import AppError
from app.paths import HOME_VARIABLE, Paths

OLDEST_MACOS = 14
SMALLEST_MEMORY = 400_000_000
"""Bytes. The window with the guide takes 161 MB (measured on Linux); the system needs the rest."""

SMALLEST_SPACE = 20_000_000
"""Bytes on the disk of the data folder: a few chats, the log, and room for SQLite to work in."""

CONTENTS = "contents.json"
"""The list of the frozen app's files beside its programs, with their sizes; packaging writes it."""

_CGROUP = Path("/sys/fs/cgroup/memory.max")
_UNTOLD_MACOS = "10.16"  # what macOS 11 and later tell programs that were built for earlier ones


class BadStart(AppError):
    """MLXR cannot start, or not as it should.

    Attributes:
        title: what is wrong, a short sentence without a full stop.
        words: what it means and what to do.
        can_go_on: whether MLXR runs all the same, if that is wanted.
    """

    def __init__(self, title: str, words: str, *, can_go_on: bool = False) -> None:
        begin = title if title.startswith("MLXR") else title[:1].lower() + title[1:]
        super().__init__(f"{begin}: {words}")
        self.title, self.words, self.can_go_on = title, words, can_go_on


@dataclass(frozen=True, slots=True)
class Machine:
    """What MLXR would run on.

    Attributes:
        system: as `sys.platform`.
        release: of macOS, such as "14.5"; "" elsewhere.
        processor: as `platform.machine()`.
        is_translated: whether Rosetta runs this program.
        memory: bytes in all.
    """

    system: str
    release: str
    processor: str
    is_translated: bool
    memory: int


def this_machine() -> Machine:
    """The machine that this is."""
    is_mac = sys.platform == "darwin"
    return Machine(
        sys.platform,
        platform.mac_ver()[0] if is_mac else "",
        platform.machine(),
        is_mac and _is_translated(),
        _memory(),
    )


def machine_problem(machine: Machine) -> BadStart | None:
    """Why MLXR cannot run on `machine`; None where it can."""
    if machine.system == "darwin":
        if machine.is_translated:
            return BadStart(
                "MLXR is run under Rosetta",
                "It needs this Mac's own processor. In the Finder, choose MLXR, File → Get Info, and untick "
                "“Open using Rosetta”; from a terminal, use a Python for Apple silicon.",
            )
        if machine.processor != "arm64":
            return BadStart(
                "This Mac has an Intel processor",
                "MLXR needs a Mac with Apple silicon (M1 or newer), or Linux. Nothing was changed here.",
            )
        major = machine.release.partition(".")[0]
        if machine.release != _UNTOLD_MACOS and major.isdigit() and int(major) < OLDEST_MACOS:
            return BadStart(
                f"This Mac runs macOS {machine.release}",
                f"MLXR needs macOS {OLDEST_MACOS} or newer. Update under System Settings → General → "
                "Software Update, then open MLXR again. Your chats stay as they are.",
            )
    if machine.memory < SMALLEST_MEMORY:
        return BadStart(
            f"This machine has {size(machine.memory)} of memory",
            f"MLXR needs {size(SMALLEST_MEMORY)} for its smallest model. Give the machine or the container "
            "more, then start MLXR again.",
        )
    return None


def start_problem(paths: Paths) -> BadStart | None:
    """What is wrong with the data that the window would open, the worst first; None where nothing is."""
    return newer_data_problem(paths) or space_problem(paths.home, free_space(paths.home))


def unloadable(error: ImportError) -> BadStart:
    """What it means that a part of MLXR, or of what it stands on, cannot be loaded."""
    return BadStart(
        "A part of MLXR cannot be loaded",
        f"{error}. Get MLXR again and put it in the place of this one; from its source, run `make setup`. "
        "Your chats and models stay as they are.",
    )


def frozen_folder() -> Path | None:
    """The folder of the frozen app's files; None where MLXR runs from its source."""
    folder: str | None = getattr(sys, "_MEIPASS", None)
    return Path(folder) if folder and getattr(sys, "frozen", False) else None


def contents_problem(folder: Path | None) -> BadStart | None:
    """Whether a file of the frozen app in `folder` is missing or cut, as its list of them says."""
    if folder is None:
        return None
    listed = _listed(folder / CONTENTS)
    wrong = [name for name, bytes_ in listed.items() if _size(folder / name) != bytes_]
    if listed and not wrong:
        return None
    named = wrong[0] if wrong else CONTENTS
    others = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return BadStart(
        "MLXR is damaged",
        f"{named}{others} is missing or not whole. Get MLXR again and put it in the place of this one. "
        "Your chats and models are kept elsewhere and stay as they are.",
    )


def newer_data_problem(paths: Paths) -> BadStart | None:
    """Whether a database was written by a newer MLXR than this one; all of them are left as they are."""
    # Imported here: a command that needs no database does not wait for them.
    from app.downloads.journal import DOWNLOADS
    from app.history.schema import HISTORY
    from app.library.schema import LIBRARY
    from app.store.database import CHATS
    from app.store.version_on_disk import version_on_disk

    kinds = {paths.chats: CHATS, paths.library: LIBRARY, paths.history: HISTORY, paths.downloads: DOWNLOADS}
    for path, kind in kinds.items():
        if (version_on_disk(path) or 0) > len(kind.migrations):
            return BadStart(
                "Your data is of a newer MLXR",
                f"{path} was written by a newer version than this one, which leaves it as it is. Update "
                f"MLXR, or set {HOME_VARIABLE} to another folder to start with nothing.",
            )
    return None


def free_space(home: Path) -> int:
    """Bytes that may still be written where `home` is, or will be; enough of them where nobody can say."""
    for folder in (home, *home.parents):
        try:
            return shutil.disk_usage(folder).free
        except FileNotFoundError:
            continue
        except OSError:
            break
    return SMALLEST_SPACE


def space_problem(home: Path, free: int) -> BadStart | None:
    """Whether the disk of `home`, with `free` bytes, has no room for what is said now."""
    if free >= SMALLEST_SPACE:
        return None
    return BadStart(
        "The disk is full",
        f"{size(free)} are left where MLXR keeps its data, {home}. Free {size(SMALLEST_SPACE)} or more and "
        "try again. If you start anyway, what you write now may be lost when MLXR ends; what is saved stays.",
        can_go_on=True,
    )


def _listed(path: Path) -> Mapping[str, int]:
    try:
        found: object = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast(Mapping[str, int], found) if isinstance(found, dict) else {}


def _size(path: Path) -> int:
    """Bytes of a file; -1 where there is none."""
    try:
        return path.stat().st_size if path.is_file() else -1
    except OSError:
        return -1


def _memory() -> int:
    """Bytes of this machine, or of the container that this process is in."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CGROUP.read_text("ascii").strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdigit() else machine


def _is_translated() -> bool:
    """Apple, "About the Rosetta translation environment": `sysctl.proc_translated` is 1 then."""
    found, room = ctypes.c_int(0), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
    libc = ctypes.CDLL(None)
    failed = libc.sysctlbyname(b"sysctl.proc_translated", ctypes.byref(found), ctypes.byref(room), None, 0)
    return not failed and found.value == 1
