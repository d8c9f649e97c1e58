"""Starting MLXR anew from itself, when it has ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath

SAFE_OPTION = "--safe"
ROOT = Path(__file__).resolve().parents[2]
_IN_BUNDLE = "Contents"


def restart_command(arguments: Sequence[str], executable: str, is_frozen: bool, platform: str) -> list[str]:
    """What starts MLXR as it was started, but not in safe mode.

    An app of the Finder is opened by macOS (`open -n`, see open(1)): the Dock then knows it as at any start.
    """
    kept = [argument for argument in arguments if argument != SAFE_OPTION]
    path = PurePath(executable)
    if is_frozen and platform == "darwin" and _IN_BUNDLE in path.parts:
        bundle = path.parents[len(path.parts) - path.parts.index(_IN_BUNDLE) - 1]
        return ["/usr/bin/open", "-n", str(bundle), *(["--args", *kept] if kept else [])]
    return [executable, *kept] if is_frozen else [executable, "-m", "app", *kept]


def restart(arguments: Sequence[str]) -> None:
    """Start it, apart from this process. Raises OSError."""
    is_frozen = bool(getattr(sys, "frozen", False))
    subprocess.Popen(
        restart_command(arguments, sys.executable, is_frozen, sys.platform),
        cwd=None if is_frozen else ROOT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
