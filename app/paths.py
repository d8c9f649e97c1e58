"""Where MLXR keeps its data: one place, moved as a whole by the environment variable MLXR_HOME."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from app.errors import AppError

HOME_VARIABLE = "MLXR_HOME"
MAC_HOME = "~/Library/Application Support/MLXR"
LINUX_HOME = "~/.local/share/mlxr"


@dataclass(frozen=True, slots=True)
class Paths:
    """The files and folders under one data home; nothing is created by asking for them."""

    home: Path

    @property
    def chats(self) -> Path:
        """The SQLite database of conversations."""
        return self.home / "chats.sqlite3"

    @property
    def library(self) -> Path:
        """The SQLite database of models."""
        return self.home / "library.sqlite3"

    @property
    def library_links(self) -> Path:
        """The folder of links to other apps' model files whose own names do not say what they are."""
        return self.home / "library-links"

    @property
    def downloads(self) -> Path:
        """The SQLite database of downloads that are not finished."""
        return self.home / "downloads.sqlite3"

    @property
    def history(self) -> Path:
        """The SQLite database of requests as they went."""
        return self.home / "history.sqlite3"

    @property
    def benchmarks(self) -> Path:
        """The folder of what benchmarks measured, a JSON file each."""
        return self.home / "benchmarks"

    @property
    def settings(self) -> Path:
        """The settings file, JSON."""
        return self.home / "settings.json"

    @property
    def updates(self) -> Path:
        """What is remembered of updates, JSON."""
        return self.home / "updates.json"

    @property
    def kernels(self) -> Path:
        """The folder of what was measured of kernels; made anew when it is gone."""
        return self.home / "kernels"

    @property
    def kv_cache(self) -> Path:
        """The folder of pages that chats have computed; they are computed again when it is gone."""
        return self.home / "kv-cache"

    @property
    def crashes(self) -> Path:
        """The folder of what a run leaves behind that crashes, and of the reports about it."""
        return self.home / "crashes"

    @property
    def log(self) -> Path:
        """The newest log file."""
        return self.home / "mlxr.log"


def default_paths() -> Paths:
    """Paths under $MLXR_HOME, or the system's usual place for application data.

    Raises AppError when neither is known (an account without a home folder).
    """
    usual = MAC_HOME if sys.platform == "darwin" else LINUX_HOME
    try:
        return Paths(Path(os.environ.get(HOME_VARIABLE) or usual).expanduser().absolute())
    except RuntimeError:
        raise AppError(
            f"this account has no home folder; set {HOME_VARIABLE} to a folder for MLXR's data"
        ) from None
