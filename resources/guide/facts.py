"""Facts the guide states that live in MLXR's code: read from there, never typed twice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from app.cli.commands import COMMANDS
from app.paths import HOME_VARIABLE, LINUX_HOME, MAC_HOME, Paths
from app.settings import Settings
from app.shortcuts import SHORTCUTS
from engine import FAMILIES, EngineSettings, SsdSettings
from resources.guide.recipe import CONTEXT_LENGTH

NEW_COMMANDS: frozenset[str] = frozenset({"top"})
NEW_SHORTCUTS: frozenset[str] = frozenset({"dashboard"})
"""Commands, and actions of shortcuts, that came since the guide was trained: the next one takes them in."""

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the answers are filled in with; the trained model's manifest records it as JSON.

    Attributes:
        shortcuts: action name to keys as people read them, such as "Ctrl+N".
        commands: names of the subcommands, in alphabetical order.
        families: model families that load, as people write them.
        home_variable: environment variable that moves the data folder.
        mac_home, linux_home: the data folder where nothing is set.
        chats_file, settings_file, log_file: file names in the data folder.
        cache_folder: the folder in there where pages lie on disk.
        cache_gigabytes: most that folder takes, in GB.
        page_size: tokens per KV page.
        prefill_chunk: most prompt tokens read in one step.
        context_length: most tokens the guide itself can hold.
        pythons: supported Python versions as "3.11 to 3.13".
        unload_minutes: minutes until a model that nobody uses leaves memory.
    """

    shortcuts: dict[str, str]
    commands: tuple[str, ...]
    families: tuple[str, ...]
    home_variable: str
    mac_home: str
    linux_home: str
    chats_file: str
    settings_file: str
    log_file: str
    cache_folder: str
    cache_gigabytes: int
    page_size: int
    prefill_chunk: int
    context_length: int
    pythons: str
    unload_minutes: str

    @property
    def families_text(self) -> str:
        """The families in a sentence: "A, B and C"."""
        return ", ".join(self.families[:-1]) + " and " + self.families[-1]

    def key(self, action: str) -> str:
        """Keys of a shortcut, on a Mac as well: "Ctrl+N (Cmd+N on a Mac)"."""
        keys = self.shortcuts[action]
        return f"{keys} ({keys.replace('Ctrl', 'Cmd')} on a Mac)" if "Ctrl" in keys else keys


def collect_facts() -> Facts:
    """Read every fact from the code that owns it."""
    settings = EngineSettings()
    paths = Paths(Path())
    return Facts(
        shortcuts={
            s.action: s.keys.replace("Return", "Enter") for s in SHORTCUTS if s.action not in NEW_SHORTCUTS
        },
        commands=tuple(sorted({command.name for command in COMMANDS} - NEW_COMMANDS)),
        families=tuple(name.capitalize() for name in FAMILIES),
        home_variable=HOME_VARIABLE,
        mac_home=MAC_HOME,
        linux_home=LINUX_HOME,
        chats_file=paths.chats.name,
        settings_file=paths.settings.name,
        log_file=paths.log.name,
        cache_folder=paths.kv_cache.name,
        cache_gigabytes=round(SsdSettings(paths.kv_cache).cap_bytes / 1e9),
        page_size=settings.page_size,
        prefill_chunk=settings.prefill_chunk,
        context_length=CONTEXT_LENGTH,
        pythons=_supported_pythons((ROOT / "pyproject.toml").read_text("utf-8")),
        unload_minutes=Settings().unload_after,
    )


def _supported_pythons(pyproject: str) -> str:
    """ "3.11 to 3.13" from `requires-python = ">=3.11,<3.14"`; raises ValueError for another form."""
    found = re.search(r'requires-python\s*=\s*">=3\.(\d+),\s*<3\.(\d+)"', pyproject)
    if found is None:
        raise ValueError("pyproject.toml: requires-python is not of the form '>=3.A,<3.B'")
    return f"3.{found[1]} to 3.{int(found[2]) - 1}"
