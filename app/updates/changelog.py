"""Reads CHANGELOG.md: its versions, and what changed in each.

The form is that of https://keepachangelog.com/en/1.1.0/: a heading `## [1.2.3] - 2026-11-22` for each
version, the newest first, and `## [Unreleased]` above them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from app.updates.manifest import Notes, version_numbers

CHANGELOG = Path(__file__).resolve().parents[2] / "CHANGELOG.md"
"""In a checkout, and in the app beside its modules."""

UNRELEASED = "Unreleased"
_HEADING = re.compile(r"^## \[([^\]]+)\](?: - (\d{4}-\d\d-\d\d))?[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Changelog:
    """What is not released yet (Markdown, or ""), and the releases, the newest first."""

    unreleased: str
    releases: tuple[Notes, ...]

    def since(self, version: str) -> tuple[Notes, ...]:
        """What changed after `version`, the newest first."""
        return tuple(one for one in self.releases if version_numbers(one.version) > version_numbers(version))


def parsed(text: str) -> Changelog:
    """The versions of a changelog. Raises ValueError for a heading that names no version or no day."""
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    unreleased, releases = "", list[Notes]()
    for heading, end in zip(headings, ends, strict=False):  # without a heading there is an end too many
        words = _unwrapped(text[heading.end() : end].strip())
        if heading[1] == UNRELEASED:
            unreleased = words
            continue
        version_numbers(heading[1])
        if heading[2] is None:
            raise ValueError(f"CHANGELOG.md gives no day for {heading[1]}: ## [{heading[1]}] - YYYY-MM-DD")
        releases.append(Notes(heading[1], heading[2], words))
    return Changelog(unreleased, tuple(releases))


def bundled() -> Changelog:
    """The changelog that came with this MLXR. Raises OSError and ValueError."""
    return parsed(CHANGELOG.read_text("utf-8"))


def _unwrapped(markdown: str) -> str:
    """Lines that are broken for an editor are one again: a window breaks them where it ends."""
    return re.sub(r"\n +(?=[^\s*+-])", " ", markdown)
