"""The user's settings: declared once as data, kept in one JSON file that nothing else can break."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

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
    """What a setting may be, for reading the file.

    Attributes:
        choices: the texts; empty allows any text.
        optional: whether it may be absent (None, null in the file).
    """

    choices: tuple[str, ...] = ()
    optional: bool = False

    def accepts(self, value: object) -> bool:
        """Whether `value`, as read from JSON, is one of this setting's."""
        if value is None:
            return self.optional
        return isinstance(value, str) and (not self.choices or value in self.choices)


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting's value; the fields are the declaration, and their types say what a file may have.

    Attributes:
        last_model: the model to open: a folder, a file or a Hugging Face repository.
        theme: light or dark.
        ssd_cache: whether what chats have computed is kept on disk, so that they reopen at once.
        ssd_cap: most GB that it takes there; automatic is 17.
        kv_cache: bits of an element of the KV cache: full as computed, 8, or 4.
        kv_memory: most GB of memory for it; automatic is half of what models leave free.
        speculation: whether words are guessed ahead where text repeats, and several checked at once.
        unload_after: minutes without a request until a model leaves memory, up to the next one.
        files_at_once: files of a download that are fetched at once.
        check_updates: whether a newer MLXR is looked for once a day.
    """

    last_model: str | None = None
    theme: Theme = "system"
    ssd_cache: Switch = "on"
    ssd_cap: SsdCap = "automatic"
    kv_cache: KvCache = "full"
    kv_memory: KvMemory = "automatic"
    speculation: Switch = "on"
    unload_after: UnloadAfter = "30"
    files_at_once: FilesAtOnce = "3"
    check_updates: Switch = "off"


def _declared(kind: object) -> Setting:
    if get_origin(kind) is Literal:
        return Setting(get_args(kind))
    return Setting(optional=NoneType in get_args(kind))


SETTINGS: Mapping[str, Setting] = {name: _declared(kind) for name, kind in get_type_hints(Settings).items()}
"""What each setting may be, by name, in the order of the file."""


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
        one, several = "has no valid value; the default is", "have no valid values; the defaults are"
        problem = f"{path}: {', '.join(refused)} {several if refused[1:] else one} used"
    return Settings(**{name: values[name] for name in present if name not in refused}), problem
