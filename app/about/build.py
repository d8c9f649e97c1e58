"""Which build of MLXR this is: noted in the app when it was made, read from the repository in a checkout."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTE = "build.json"
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Build:
    """The commit it was made of ("" where that is unknown), and the system it is for ("" in a checkout)."""

    commit: str = ""
    system: str = ""


def this_build(root: Path = ROOT) -> Build:
    """The build whose modules lie in `root`; nothing is known of what is neither an app nor a checkout."""
    try:
        fields = json.loads((root / NOTE).read_text("utf-8"))
        return Build(str(fields["commit"]), str(fields["system"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Build(commit_of(root))


def write_build(path: Path, system: str, root: Path = ROOT) -> None:
    """Note at `path` what an app for `system` is made of. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(Build(commit_of(root), system))) + "\n", "utf-8")


def commit_of(checkout: Path) -> str:
    """The commit that is checked out, 40 digits; "" where there is none.

    Read as git writes it: https://git-scm.com/docs/gitrepository-layout
    """
    git = checkout / ".git"
    head = _first_line(git / "HEAD")
    name = head.removeprefix("ref: ")
    commit = head if name == head else _first_line(git / name) or _packed(git, name)
    return commit if _COMMIT.fullmatch(commit) else ""


def _packed(git: Path, name: str) -> str:
    try:
        lines = (git / "packed-refs").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    return next((line.split(" ")[0] for line in lines if line.endswith(f" {name}")), "")


def _first_line(path: Path) -> str:
    try:
        return path.read_text("utf-8").partition("\n")[0]
    except (OSError, ValueError):
        return ""
