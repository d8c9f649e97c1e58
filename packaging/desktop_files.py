"""Puts into the folder for Linux what a desktop needs to show it among its applications, and says how."""

from __future__ import annotations

import shutil
from pathlib import Path

from running import ROOT

HERE = Path(__file__).parent / "linux"
ICON = ROOT / "resources" / "icons" / "app" / "icon.svg"
FILES = {
    HERE / "READ-ME.txt": "READ-ME.txt",
    HERE / "mlxr.desktop": "share/applications/mlxr.desktop",
    HERE / "mlxr.xml": "share/mime/packages/mlxr.xml",
    ICON: "share/icons/hicolor/scalable/apps/mlxr.svg",
}
"""Where the freedesktop.org specifications look below a share folder: desktop-entry, shared-mime-info,
icon-theme."""


def add_desktop_files(app: Path) -> None:
    """Copy FILES into the folder `app`. Raises FileNotFoundError when one is missing."""
    for source, place in FILES.items():
        (app / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, app / place)
