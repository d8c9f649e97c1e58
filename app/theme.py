"""The look as typed values: colours by meaning, light and dark, for the style sheets in resources/themes."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path

THEMES_FOLDER = Path(__file__).resolve().parents[1] / "resources" / "themes"

COLUMN_WIDTH = 728
"""Widest line of a conversation: longer lines are hard to read."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours as #rrggbb, named for what they mean.

    Text colours keep a contrast of at least 4.5 on every ground they are used on, the accent 3 as a shape.
    """

    name: str
    dark: bool
    window: str
    sidebar: str
    surface: str
    hover: str
    border: str
    text: str
    muted: str
    accent: str
    accent_hover: str
    on_accent: str
    accent_soft: str
    bubble: str
    code: str
    selection: str
    danger: str
    danger_soft: str
    notice: str
    notice_soft: str
    scroll: str


LIGHT = Theme(
    name="light",
    dark=False,
    window="#ffffff",
    sidebar="#f4f6f6",
    surface="#ffffff",
    hover="#e8ecec",
    border="#dbe1e2",
    text="#15191b",
    muted="#566165",
    accent="#0b6b7b",
    accent_hover="#095866",
    on_accent="#ffffff",
    accent_soft="#dcedf0",
    bubble="#eaf2f3",
    code="#f4f6f6",
    selection="#bfe1e7",
    danger="#a3231b",
    danger_soft="#fdecea",
    notice="#5e4300",
    notice_soft="#fff3d6",
    scroll="#b9c2c5",
)

DARK = Theme(
    name="dark",
    dark=True,
    window="#15191b",
    sidebar="#0f1214",
    surface="#1c2124",
    hover="#252b2f",
    border="#30383c",
    text="#e8ecee",
    muted="#9aa6ab",
    accent="#5cc6d6",
    accent_hover="#7ed4e1",
    on_accent="#05262c",
    accent_soft="#17363c",
    bubble="#20292d",
    code="#0f1315",
    selection="#1d4f58",
    danger="#ffa59b",
    danger_soft="#3a1d1b",
    notice="#f2d48a",
    notice_soft="#372c12",
    scroll="#485257",
)

_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def style_sheet(theme: Theme, folder: Path = THEMES_FOLDER) -> str:
    """The sheets of `folder` in order of their names, with `{{ field }}` replaced by the theme's values.

    Raises KeyError for a placeholder that the theme does not have.
    """
    values = asdict(theme)
    text = "\n".join(path.read_text("utf-8") for path in sorted(folder.glob("*.qss")))
    return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), text)


def halfway(first: str, second: str) -> str:
    """The #rrggbb colour in the middle between two."""
    channels = ((int(first[i : i + 2], 16) + int(second[i : i + 2], 16)) // 2 for i in (1, 3, 5))
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def contrast(first: str, second: str) -> float:
    """The contrast of two #rrggbb colours, 1 to 21, as WCAG 2 defines it."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
