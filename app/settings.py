"""The user's settings: declared once as data, kept in one JSON file that nothing else can break."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from app.whole_file import write_whole

Theme = Literal["system", "light", "dark"]
Switch = Literal["on", "off"]
KvCache = Literal["full", "8", "4"]
UnloadAfter = Literal["5", "15", "30", "60", "off"]
FilesAtOnce = Literal["1", "2", "3", "5", "8"]
SsdCap = Literal["automatic", "1", "2", "5", "10", "20", "50", "100", "200"]
KvMemory = Literal["automatic", "1", "2", "4", "6", "8", "12", "16", "24", "32", "48", "64", "96", "128"]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a setting is, for reading the file and for showing it.

    Attributes:
        description: a line for people.
        choices: the texts it may be; empty allows any text.
        optional: whether it may be absent (None, null in the file).
    """

    description: str
    choices: tuple[str, ...] = ()
    optional: bool = False

    def accepts(self, value: object) -> bool:
        """Whether `value`, as read from JSON, is one of this setting's."""
        if value is None:
            return self.optional
        return isinstance(value, str) and (not self.choices or value in self.choices)


_LAST_MODEL = Setting("The model to open: a folder or a Hugging Face repository", optional=True)
_THEME = Setting("Light or dark", choices=("system", "light", "dark"))
_SSD_CACHE = Setting("Keep on disk what chats have computed, so that they reopen at once", ("on", "off"))
_SSD_CAP = Setting("Most GB that it takes on disk; automatic is 17", get_args(SsdCap))
_KV_MEMORY = Setting(
    "Most GB of memory for what chats have computed; automatic is half of what models leave free",
    get_args(KvMemory),
)
_SPECULATION = Setting("Guess words ahead where text repeats, and check several at once", ("on", "off"))
_UNLOAD_AFTER = Setting(
    "Minutes without a request until a model leaves memory, up to the next one",
    ("5", "15", "30", "60", "off"),
)
_FILES_AT_ONCE = Setting("Files of a download that are fetched at once", ("1", "2", "3", "5", "8"))
_CHECK_UPDATES = Setting("Look for a newer MLXR once a day", ("on", "off"))
_KV_CACHE = Setting("Bits of an element of the KV cache: full as computed, 8, or 4", ("full", "8", "4"))


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting's value; the fields below are the declaration."""

    last_model: str | None = field(default=None, metadata={"setting": _LAST_MODEL})
    theme: Theme = field(default="system", metadata={"setting": _THEME})
    ssd_cache: Switch = field(default="on", metadata={"setting": _SSD_CACHE})
    ssd_cap: SsdCap = field(default="automatic", metadata={"setting": _SSD_CAP})
    kv_cache: KvCache = field(default="full", metadata={"setting": _KV_CACHE})
    kv_memory: KvMemory = field(default="automatic", metadata={"setting": _KV_MEMORY})
    speculation: Switch = field(default="on", metadata={"setting": _SPECULATION})
    unload_after: UnloadAfter = field(default="30", metadata={"setting": _UNLOAD_AFTER})
    files_at_once: FilesAtOnce = field(default="3", metadata={"setting": _FILES_AT_ONCE})
    check_updates: Switch = field(default="off", metadata={"setting": _CHECK_UPDATES})


SETTINGS: Mapping[str, Setting] = {f.name: f.metadata["setting"] for f in fields(Settings)}
"""Each setting's declaration by name, in the order of the file."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings that can be used in any case, and one line on what was wrong with the file (or "")."""

    settings: Settings
    problem: str = ""


class SettingsFile:
    """The JSON file at `path`. Keys it does not know are kept for the version that does."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> LoadedSettings:
        """Read the file; a broken one is moved aside. Never raises for what the file or disk is like."""
        values, problem = self._read()
        return LoadedSettings(*_accepted(values, problem, self._path))

    def update(self, change: Callable[[Settings], Settings]) -> str:
        """Apply `change` to what the file holds now and write it back.

        Returns "" or one line on why the change will not survive a restart; never raises for the disk.
        """
        values, problem = self._read()
        if problem and self._path.exists():  # unreadable: writing would lose what it holds
            return problem
        old, _ = _accepted(values, "", self._path)
        new = change(old)
        # Only what changed is written: a value that another version understands stays.
        values |= {name: getattr(new, name) for name in SETTINGS if getattr(new, name) != getattr(old, name)}
        try:
            write_whole(self._path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            return f"{self._path} cannot be written: {error.strerror}; settings last until you quit"
        return ""

    def _read(self) -> tuple[dict[str, Any], str]:
        try:
            values = json.loads(self._path.read_text("utf-8"))
            if not isinstance(values, dict):
                raise ValueError("it is not a JSON object")
        except FileNotFoundError:
            return {}, ""
        except OSError as error:
            return {}, f"{self._path} cannot be read: {error.strerror}; the defaults are used"
        except (ValueError, RecursionError) as error:  # not UTF-8 and not JSON are ValueErrors too
            kept = self._move_aside()
            return {}, f"{self._path} is not valid JSON ({error}); {kept}, and the defaults are used"
        return values, ""

    def _move_aside(self) -> str:
        aside = self._path.with_name(self._path.name + ".broken")
        try:
            self._path.replace(aside)
        except OSError as error:
            return f"it could not be moved aside ({error.strerror})"
        return f"it was kept as {aside.name}"


def _accepted(values: Mapping[str, Any], problem: str, path: Path) -> tuple[Settings, str]:
    """Settings from the valid ones of `values`, and `problem` or one line that names the others."""
    present = [name for name in SETTINGS if name in values]
    refused = [name for name in present if not SETTINGS[name].accepts(values[name])]
    if refused and not problem:
        problem = f"{path}: {', '.join(refused)} has no valid value; the default is used"
    return Settings(**{name: values[name] for name in present if name not in refused}), problem
