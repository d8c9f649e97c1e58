"""What the window says of updates."""

from __future__ import annotations

from datetime import datetime

from app import VERSION
from app.amounts import size
from app.text import APP_NAME
from app.updates.manifest import Artefact, Manifest, version_numbers
from app.updates.memory import Memory

CHECK = "Check for updates"
PAGE = "Download page"
SWITCH = "Look for a newer MLXR once a day"
NOTE = (
    "Only then, or when you ask in About: one request, which says nothing of you or this machine. Nothing is "
    "installed."
)
CANNOT = "This build cannot check for updates: no release key is built into it."
NEVER = "Nobody looked for updates yet."
ASKING = "Looking…"
CURRENT = "This is the newest version, as of {day}."
AVAILABLE = "{name} {version} is available."
FOR_THIS = "{name} {version} is available. The file for this machine is {file}, {size}."
NOT_FOR_THIS = "{name} {version} is available, but not for this machine; the download page says more."
LAST = "Looked for updates last on {day}."
LOOK = "Look"
UPDATED = "This is {name} {version} now"
WHATS_NEW = "What is new"


def day_words(moment: datetime) -> str:
    """The day of a moment where this machine is, as "22 November 2026"."""
    local = moment.astimezone()
    return f"{local.day} {local:%B} {local.year}"


def remembered_words(memory: Memory) -> str:
    """What is known before anybody asks again."""
    if memory.newest and version_numbers(memory.newest) > version_numbers(VERSION):
        return AVAILABLE.format(name=APP_NAME, version=memory.newest)
    return LAST.format(day=day_words(memory.asked)) if memory.asked else NEVER


def found_words(manifest: Manifest, artefact: Artefact | None) -> str:
    """What the list of releases says to this MLXR and this machine."""
    if not manifest.is_newer_than(VERSION):
        return CURRENT.format(day=day_words(manifest.date))
    if artefact is None:
        return NOT_FOR_THIS.format(name=APP_NAME, version=manifest.version)
    return FOR_THIS.format(
        name=APP_NAME, version=manifest.version, file=artefact.file, size=size(artefact.size)
    )
