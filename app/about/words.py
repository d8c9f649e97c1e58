"""What the windows about MLXR say."""

from __future__ import annotations

from app import VERSION
from app.about.build import Build
from app.updates.changelog import Changelog
from app.updates.choice import LINUX, MACOS_14, MACOS_26
from app.updates.manifest import Notes
from engine import ModelInfo

ABOUT = "About MLXR"
PRIVACY = (
    "Your chats stay on this machine. MLXR asks the network only for what you ask it for: models, and "
    "whether there is a newer version."
)
LICENCES = "Licences"
SEARCH = "Search the licences"
GATHERING = "Reading…"
NOT_FOUND = "No part is called so, and none has that licence."
COUNT = "MLXR is made of {count} parts. Thank you to all who wrote them."
NO_NEWS = "Nothing is written down for this version."
UNREADABLE = "What changed cannot be shown: {error}."
NO_MODEL = "No model is in memory"

_SYSTEMS = {MACOS_14: "macOS 14 and later", MACOS_26: "macOS 26 and later", LINUX: "Linux"}


def build_words(build: Build) -> str:
    """Version, commit and what it was made for, in a line."""
    commit = f" · {build.commit[:7]}" if build.commit else ""
    made = f" · for {_SYSTEMS.get(build.system, build.system)}" if build.system else " · run from its source"
    return f"Version {VERSION}{commit}{made}"


def runs_words(info: ModelInfo | None) -> str:
    """What computes, and on what; None where no model is in memory."""
    return f"Runs on {info.device}, executor {info.executor}" if info else NO_MODEL


def news(log: Changelog, version: str) -> str:
    """What is new in `version`, as Markdown; of a checkout ahead of it, what is not released yet."""
    released = tuple(one for one in log.releases if one.version == version)
    if released:
        return notes_text(released)
    return f"## Not released yet\n\n{log.unreleased}" if log.unreleased else NO_NEWS


def notes_text(notes: tuple[Notes, ...]) -> str:
    """The notes of several versions, as Markdown."""
    return "\n\n".join(f"## {one.version}, {one.day}\n\n{one.text}" for one in notes) or NO_NEWS
